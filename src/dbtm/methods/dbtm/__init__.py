"""Discrete Beckmann Transport Models, the paper's method."""

from dbtm.methods.dbtm.config import (
    Config,
    DistillConfig,
    LossConfig,
    PathConfig,
    PosteriorConfig,
    QualityConfig,
    ReflowConfig,
    RilConfig,
)
from dbtm.methods.dbtm.network import TransportMap
from dbtm.methods.dbtm.options import Options
from dbtm.methods.dbtm.training import DBTM

__all__ = [
    "DBTM",
    "Config",
    "DistillConfig",
    "LossConfig",
    "Options",
    "PathConfig",
    "PosteriorConfig",
    "QualityConfig",
    "ReflowConfig",
    "RilConfig",
    "TransportMap",
]
