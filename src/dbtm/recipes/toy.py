"""Small recipes with a known answer, for a laptop CPU."""

from dbtm.config import LossConfig, ModelConfig, OptimConfig, PathConfig, RunConfig, SampleConfig, TrainConfig
from dbtm.tasks.toy import Categorical, Markov


def simplex() -> RunConfig:
    """The 2-simplex: transport, anchor at t*, boundary. The learned map is compared with the exact flow's basins."""
    task = Categorical()
    return RunConfig(
        recipe="simplex",
        task=task,
        model=ModelConfig(
            vocab=task.vocab,
            length=task.length,
            width=64,
            depth=2,
            heads=2,
            dropout=0.0,
            gate_init=0.5,
            embed_std=0.5,
            softcap=0.0,
            quality=False,
        ),
        path=PathConfig(coupling="independent", context=False),
        loss=LossConfig(quality=0.0, boundary_fraction=0.125),
        optim=OptimConfig(lr=2e-3, betas=(0.9, 0.95), clip=10.0, schedule="wsd", warmup=100, ema=0.999),
        train=TrainConfig(steps=2500, batch=512, log_every=250, checkpoint_every=2500),
        sample=SampleConfig(nfe=1),
    )


def markov() -> RunConfig:
    """A Markov chain: one-step samples must know that neighbours depend on each other."""
    task = Markov()
    return RunConfig(
        recipe="markov",
        task=task,
        model=ModelConfig(
            vocab=task.vocab,
            length=task.length,
            width=64,
            depth=3,
            heads=4,
            dropout=0.0,
            gate_init=0.5,
            embed_std=0.35,
            softcap=0.0,
            quality=False,
        ),
        loss=LossConfig(quality=0.0, boundary_fraction=0.125),
        optim=OptimConfig(name="muon", lr=1e-3, betas=(0.9, 0.95), clip=10.0, schedule="wsd", warmup=200, ema=0.999),
        train=TrainConfig(steps=1400, batch=256, log_every=100, checkpoint_every=1400),
        sample=SampleConfig(nfe=4, kappa=0.9),
    )
