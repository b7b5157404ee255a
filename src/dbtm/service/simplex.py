"""The one-step map on the 2-simplex, trained in a minute and compared with the exact one."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from dbtm.checkpoint.loading import load
from dbtm.config import override
from dbtm.evals import quick
from dbtm.recipes import recipe
from dbtm.sampling import Sampler
from dbtm.service.training import fit
from dbtm.tasks.toy import Categorical

SAMPLES = 20_000


@dataclass(frozen=True)
class SimplexMap:
    """A trained map, and how close it is."""

    p: tuple[float, ...]
    """Probabilities of the data."""
    frequencies: tuple[float, ...]
    """Of the vertices in `samples` samples, one network evaluation each."""
    samples: int
    agreement: float
    """Share of prior draws that go to the vertex where the exact autonomous flow takes them."""
    vertex_of: Callable[[np.ndarray], np.ndarray]
    """Where points x (N, V) are taken: argmax T(x), (N,)."""


def train_simplex_map(seed: int = 0) -> SimplexMap:
    """Train the recipe `simplex`."""
    config = override(recipe("simplex"), [f"train.seed={seed}"])
    with tempfile.TemporaryDirectory() as folder:
        sampler = load(fit(config, folder), device="cpu")
    task = sampler.task
    assert isinstance(task, Categorical)
    tokens = sampler.sample(SAMPLES, nfe=1, seed=1).tokens[:, 0]
    frequencies = np.bincount(tokens, minlength=task.vocab) / SAMPLES
    agreement = quick.evaluate(sampler, seed)["agreement"]
    return SimplexMap(task.p, tuple(frequencies.tolist()), SAMPLES, agreement, lambda x: _vertex(sampler, x))


@torch.no_grad()
def _vertex(sampler: Sampler, x: np.ndarray) -> np.ndarray:
    points = torch.as_tensor(x, dtype=torch.float32, device=sampler.device)
    return sampler.network(points[:, None])[:, 0].argmax(-1).cpu().numpy()
