"""Settings and options common to all flows."""

from dataclasses import dataclass

import torch
from torch import Tensor

from dbtm.config import MethodConfig, SampleConfig
from dbtm.core.errors import UsageError
from dbtm.nn import Backbone
from dbtm.simplex import Noise


@dataclass(frozen=True)
class FlowConfig(MethodConfig):
    """A network with capped logits."""

    logit_cap: float = 30.0
    """tanh cap on the logits before the softmax; 0 is off."""

    def __post_init__(self):
        self.not_negative("logit_cap")


@dataclass(frozen=True)
class MapConfig(FlowConfig):
    """A map of two times, trained on pairs of them (`pairs.draw_pairs`)."""

    edge: float = 1 / 32
    """Share of the rows with two times that learn the step from noise to data."""

    def __post_init__(self):
        super().__post_init__()
        share(self.edge, "method.edge")


@dataclass(frozen=True)
class FlowOptions(SampleConfig):
    """Steps along the flow."""

    nfe: int = 16
    """Network evaluations."""
    temperature: float = 0.0
    """Temperature of the last evaluation: 0 takes its most likely token, 1 draws from its distribution."""
    sigma: float = 1.0
    """Scale of a sample's initial noise; 1 is that of training."""

    def __post_init__(self):
        self.positive("nfe", "sigma")
        self.not_negative("temperature")


def noise_of(network: Backbone, key_B: Tensor, sigma: float = 1.0) -> Noise:
    """The noise of a batch, from its keys."""
    dtype = torch.promote_types(network.dtype, torch.float32)
    return Noise(key_B, network.shape.length, network.shape.vocab, sigma, dtype)


def share(value: float, name: str) -> None:
    """Refuse a share outside [0, 1]."""
    if not 0 <= value <= 1:
        raise UsageError(f"{name}={value} must be between 0 and 1")
