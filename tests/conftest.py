"""Shared by all tests: one thread a worker, so that two workers fill two cores and runs repeat bit for bit."""

import os
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch

from dbtm.config import ModelConfig, RunConfig, Shape
from dbtm.kernels.dispatch import TRITON_LACKS
from dbtm.methods.dbtm import DBTM, Config, Options, QualityConfig, TransportMap
from dbtm.sampling import Sampler
from dbtm.tasks.base import Task
from dbtm.tasks.own import Own

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


SHAPE = Shape(vocab=7, length=9)
QUALITY = QualityConfig(width=8, depth=1, heads=2)


def tiny_config(**changes) -> ModelConfig:
    """A map small enough for float64 Jacobians."""
    tiny = ModelConfig(width=16, depth=2, heads=2, cond_dim=8, embed_std=0.5, gate_init=0.3)
    return replace(tiny, **changes)


def random_map(seed: int = 0, shape: Shape = SHAPE, quality: QualityConfig | None = QUALITY, **changes) -> TransportMap:
    """A tiny map with every parameter random: nothing may hide behind a zero initialisation."""
    torch.manual_seed(seed)
    model = TransportMap(shape, tiny_config(**changes), quality)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


def sampler_of(
    model: TransportMap, options: Options = Options(), task: Task | None = None, batch: int = 1024
) -> Sampler:
    """A sampler of a bare map."""
    some = task or Own(vocab=model.shape.vocab, length=model.shape.length)
    quality = QualityConfig(enabled=model.quality is not None)
    run = RunConfig("test", some, model.config, Config(quality=quality), options)
    return Sampler(DBTM(run), model, options, task, batch)
