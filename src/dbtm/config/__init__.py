"""The run's configuration: what it is (sections), and how it is read, written and overridden (text)."""

from dbtm.config.sections import (
    DistillConfig,
    LossConfig,
    ModelConfig,
    OptimConfig,
    PathConfig,
    RilConfig,
    RunConfig,
    SampleConfig,
    TrainConfig,
)
from dbtm.config.text import dumps, from_dict, loads, override, to_dict

__all__ = [
    "DistillConfig",
    "LossConfig",
    "ModelConfig",
    "OptimConfig",
    "PathConfig",
    "RilConfig",
    "RunConfig",
    "SampleConfig",
    "TrainConfig",
    "dumps",
    "from_dict",
    "loads",
    "override",
    "to_dict",
]
