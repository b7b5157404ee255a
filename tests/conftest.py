"""Shared by all tests: one thread a worker, so that two workers fill two cores and runs repeat bit for bit."""

import os
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch

from dbtm.config import ModelConfig
from dbtm.kernels.dispatch import TRITON_LACKS
from dbtm.nn import TransportMap

torch.set_num_threads(1)
if not TRITON_LACKS and not torch.cuda.is_available():
    with patch.dict(os.environ, TRITON_INTERPRET="1"):  # its functions are bound to the interpreter by their import
        import triton.language  # noqa: F401


@pytest.fixture
def double():
    """float64 as the default dtype for the length of a test."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def tiny_config(**changes) -> ModelConfig:
    """A map small enough for float64 Jacobians."""
    tiny = ModelConfig(
        vocab=7,
        length=9,
        width=16,
        depth=2,
        heads=2,
        cond_dim=8,
        embed_std=0.5,
        gate_init=0.3,
        quality_width=8,
        quality_depth=1,
        quality_heads=2,
    )
    return replace(tiny, **changes)


def random_map(seed: int = 0, **changes) -> TransportMap:
    """A tiny map with every parameter random: nothing may hide behind a zero initialisation."""
    torch.manual_seed(seed)
    model = TransportMap(tiny_config(**changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()
