"""Tokens of one's own: a mid-sized map that trains on one GPU, or, made smaller with --set, on a CPU."""

from dbtm.config import RunConfig, TrainConfig
from dbtm.methods.dbtm import Config, LossConfig, Options
from dbtm.recipes import ours
from dbtm.tasks.own import Own


def own() -> RunConfig:
    return RunConfig(
        recipe="own",
        task=Own(),
        model=ours.model(256, 6, 8, input_norm=True, embed_std=0.3),
        method=Config(loss=LossConfig(boundary_fraction=0.125), quality=ours.NO_QUALITY),
        optim=ours.optim(warmup=200),
        train=TrainConfig(steps=10_000, batch=128, log_every=50, checkpoint_every=500),
        sample=Options(nfe=8, kappa=0.9),
    )
