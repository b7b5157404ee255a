"""Common settings of our own recipes, which train faster than the paper's."""

from typing import Any

from dbtm.config import ModelConfig, OptimConfig
from dbtm.methods.dbtm import QualityConfig

QUALITY = QualityConfig(width=128)  # a small quality head
NO_QUALITY = QualityConfig(enabled=False, width=128)


def model(width: int, depth: int, heads: int, **others: Any) -> ModelConfig:
    """Gates from one half, no dropout, no softcap."""
    return ModelConfig(
        width=width,
        depth=depth,
        heads=heads,
        cond_dim=1,  # a constant: plain learned shifts, scales and gates
        dropout=0.0,
        softcap=0.0,
        gate_init=0.5,
        **others,
    )


def optim(warmup: int) -> OptimConfig:
    """Muon on the matrices of the blocks, Adam on the rest; constant, then a linear decay."""
    return OptimConfig(name="muon", lr=1e-3, betas=(0.9, 0.95), clip=10.0, schedule="wsd", warmup=warmup, ema=0.999)
