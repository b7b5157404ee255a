"""The one-step map on the 2-simplex, trained in a minute and compared with the exact one."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from dbtm.checkpoint.loading import load
from dbtm.config import override
from dbtm.core.errors import UsageError
from dbtm.evals import quick
from dbtm.recipes import recipe
from dbtm.sampling import Sampler
from dbtm.service.training import fit
from dbtm.tasks.toy import Categorical

SAMPLES = 20_000


@dataclass(frozen=True)
class SimplexMap:
    """A trained map, and its agreement with the exact one."""

    p: tuple[float, ...]
    """Probabilities of the data."""
    frequencies: tuple[float, ...]
    """Frequencies of the vertices in `samples` samples, one network evaluation each."""
    samples: int
    agreement: float
    """Share of prior draws that go to the vertex where the exact autonomous flow takes them."""
    vertex_of: Callable[[np.ndarray], np.ndarray]
    """The vertices of points x (N, V): argmax T(x), (N,)."""


def train_simplex_map(seed: int = 0) -> SimplexMap:
    """Train the recipe `simplex`."""
    with tempfile.TemporaryDirectory() as folder:
        sampler = load(train_simplex(folder, seed), device="cpu")
    return map_of(sampler, seed)


def train_simplex(folder: str, seed: int = 0) -> str:
    """Train the recipe `simplex` in a folder; return the checkpoint."""
    return str(fit(override(recipe("simplex"), [f"train.seed={seed}"]), folder))


def simplex_steps() -> int:
    """Training steps of the recipe `simplex`."""
    return recipe("simplex").train.steps


def map_of(sampler: Sampler, seed: int = 0) -> SimplexMap:
    """Measure a trained map."""
    task = sampler.task
    if not isinstance(task, Categorical):
        raise UsageError("this model was not trained on the simplex: train one with the recipe 'simplex'")
    tokens = sampler.sample(SAMPLES, nfe=1, seed=1).tokens[:, 0]
    frequencies = np.bincount(tokens, minlength=task.vocab) / SAMPLES
    agreement = quick.evaluate(sampler, seed)["agreement"]
    return SimplexMap(task.p, tuple(frequencies.tolist()), SAMPLES, agreement, lambda x: _vertex(sampler, x))


@torch.no_grad()
def _vertex(sampler: Sampler, x: np.ndarray) -> np.ndarray:
    points = torch.as_tensor(x, dtype=torch.float32, device=sampler.device)
    return sampler.network(points[:, None])[:, 0].argmax(-1).cpu().numpy()


# -- the drawing -------------------------------------------------------------------------------------------------------

HEIGHT, MARGIN = 3**0.5 / 2, 0.33
SPAN = 1 + 2 * MARGIN
LOW = (HEIGHT + 2 * MARGIN - SPAN) / 2 - MARGIN


def plane_points(cells: int) -> np.ndarray:
    """Centres of the cells of the drawn square, (cells^2, 3), row by row from the top: `toPoint` of the page."""
    centres = (np.arange(cells) + 0.5) / cells
    across, down = np.meshgrid(centres, centres)
    top = ((1 - down) * SPAN + LOW).ravel() / HEIGHT
    right = (across.ravel() * SPAN - SPAN / 2) + 0.5 * (1 - top)
    return np.stack([top, 1 - top - right, right], -1)
