"""Tokens of one's own: a mid-sized map that trains on one GPU, or, made smaller with --set, on a CPU."""

from dbtm.config import LossConfig, ModelConfig, OptimConfig, RunConfig, SampleConfig, TrainConfig
from dbtm.tasks.own import Own


def own() -> RunConfig:
    task = Own()
    return RunConfig(
        recipe="own",
        task=task,
        model=ModelConfig(
            vocab=task.vocab,
            length=task.length,
            width=256,
            depth=6,
            heads=8,
            gate_init=0.5,
            embed_std=0.3,
            softcap=0.0,
            input_norm=True,
        ),
        loss=LossConfig(boundary_fraction=0.125),
        optim=OptimConfig(name="muon", lr=1e-3, betas=(0.9, 0.95), clip=10.0, schedule="wsd", warmup=200, ema=0.999),
        train=TrainConfig(steps=10_000, batch=128, log_every=50, checkpoint_every=500),
        sample=SampleConfig(nfe=8, kappa=0.9),
    )
