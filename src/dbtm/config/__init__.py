"""The configuration of a run: its sections, and how it is read, written and overridden."""

from dbtm.config.method import MethodConfig, SampleConfig
from dbtm.config.model import ModelConfig, Shape
from dbtm.config.run import RunConfig, dumps, from_dict, loads, override, to_dict
from dbtm.config.train import OptimConfig, TrainConfig

__all__ = [
    "MethodConfig",
    "ModelConfig",
    "OptimConfig",
    "RunConfig",
    "SampleConfig",
    "Shape",
    "TrainConfig",
    "dumps",
    "from_dict",
    "loads",
    "override",
    "to_dict",
]
