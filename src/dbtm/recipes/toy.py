"""Small recipes with a known answer, for a laptop CPU."""

from dbtm.config import ModelConfig, OptimConfig, RunConfig, TrainConfig
from dbtm.methods.dbtm import Config, LossConfig, Options, PathConfig, QualityConfig
from dbtm.tasks.toy import Categorical, Markov


def simplex() -> RunConfig:
    """The 2-simplex: transport, anchor, boundary. The learned map is compared with the exact flow's basins.

    t* holds for large vocabularies; for V = 3 (t* = .6) an anchor from t = .3 on agrees best with the exact map (`dbtm
    theory learned` draws it).
    """
    return RunConfig(
        recipe="simplex",
        task=Categorical(),
        model=ModelConfig(
            width=32,
            depth=2,
            heads=2,
            dropout=0.0,
            gate_init=0.5,
            embed_std=0.5,
            softcap=0.0,
        ),
        method=Config(
            path=PathConfig(coupling="independent", context=False, t_anchor=0.3),
            loss=LossConfig(quality=0.0, boundary_fraction=0.125),
            quality=QualityConfig(enabled=False),
        ),
        optim=OptimConfig(
            lr=3e-3, betas=(0.9, 0.95), clip=10.0, schedule="wsd", warmup=100, decay_fraction=0.6, ema=0.998
        ),
        train=TrainConfig(steps=1000, batch=1024, log_every=100, checkpoint_every=1000),
        sample=Options(nfe=1),
    )


def markov() -> RunConfig:
    """A Markov chain: one-step samples must model the dependence of neighbours.

    As on the 2-simplex, an anchor that starts before t* (.67 for V = 8) is best for a small vocabulary.
    """
    return RunConfig(
        recipe="markov",
        task=Markov(),
        model=ModelConfig(
            width=64,
            depth=3,
            heads=4,
            dropout=0.0,
            gate_init=0.5,
            embed_std=0.35,
            softcap=0.0,
        ),
        method=Config(
            path=PathConfig(coupling="independent", t_anchor=0.5),
            loss=LossConfig(quality=0.0, boundary_fraction=0.125),
            quality=QualityConfig(enabled=False),
        ),
        optim=OptimConfig(name="muon", lr=1e-3, betas=(0.9, 0.95), clip=10.0, schedule="wsd", warmup=100, ema=0.999),
        train=TrainConfig(steps=800, batch=256, log_every=100, checkpoint_every=800),
        sample=Options(nfe=4, kappa=0.9),
    )
