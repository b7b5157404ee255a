"""Shared by all tests: one thread a worker, so that two workers fill two cores and runs repeat bit for bit."""

import gc
import os
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from shutil import rmtree

import numba
import pytest
import torch

from dbtm import tasks
from dbtm.config import ModelConfig, RunConfig, Shape
from dbtm.methods.dbtm import DBTM, Config, Options, PosteriorConfig, QualityConfig, TransportMap
from dbtm.sampling import Sampler
from dbtm.tasks.base import Task
from dbtm.tasks.own import Own
from tests.processes import default_signals_in_children

torch.set_num_threads(1)
os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}  # Hugging Face libraries read these on import

DAY = 86_400  # seconds
LONGEST = ("test_learning.py", "test_distributed.py")


def pytest_configure(config):
    """Keep compiled code from run to run, under a digest of all its sources; no module of it is imported yet.

    numba itself looks at the file of a function alone, not at those of the functions that it calls.
    """
    sources = b"".join(path.read_bytes() for path in sorted(Path(tasks.__path__[0]).rglob("*.py")))
    with suppress(AttributeError, OSError):  # no cache of pytest's, or no place for it
        folder = config.cache.mkdir("numba") / sha256(sources).hexdigest()[:16]
        folder.mkdir(exist_ok=True)
        for other in folder.parent.iterdir():
            if other != folder and other.stat().st_mtime < time.time() - DAY:  # no run uses it any more
                rmtree(other, ignore_errors=True)
        numba.config.CACHE_DIR = str(folder)
        numba.njit = partial(numba.njit, cache=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported and collected stays: the garbage collector is spared it, then and later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items):
    """The longest tests come first, so that no worker is left alone with one at the end."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.fixture(autouse=True)
def _same_random_numbers():
    """A test draws the same whichever ran before it."""
    torch.manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def _children_with_default_signals():
    with default_signals_in_children():
        yield


@pytest.fixture(scope="module")
def few_samples_measured():
    """Quick measures of tasks with a known law draw few samples: for tests of what is around them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dbtm.evals.quick.SAMPLES", 200)
        yield


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


def with_positions(model: TransportMap) -> TransportMap:
    """A map that tells its positions apart where all of them hold the same."""
    model.position_ids.copy_(torch.arange(model.shape.length)[:, None])
    return model


def sampler_of(
    model: TransportMap, options: Options = Options(), task: Task | None = None, batch: int = 1024
) -> Sampler:
    """A sampler of a bare map."""
    some = task or Own(vocab=model.shape.vocab, length=model.shape.length)
    quality = QualityConfig(enabled=model.quality is not None)
    posterior = PosteriorConfig(weight=1.0 if options.mean_from else 0.0)
    run = RunConfig("test", some, model.config, Config(quality=quality, posterior=posterior), options)
    return Sampler(DBTM(run), model, options, task, batch)
