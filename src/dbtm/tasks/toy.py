"""Two small tasks with a known distribution: one categorical position, and a Markov chain."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import torch

from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.tasks.base import Batch, Task, register

STARTS = 32  # of the search for independent positions
HELD_OUT = 1 << 32  # added to a seed, it gives held-out samples
MOST, MOST_PEAK = (
    4096,
    100,
)  # states and tokens of a chain, whose matrix has the square of them; the scale of its logits


def _uniform(seed: int, index: np.ndarray, n: int) -> np.ndarray:
    """(B, n) uniforms that depend on (seed, index) alone."""
    return rng.uniform(rng.fold(seed, torch.from_numpy(np.asarray(index, dtype=np.int64))), n).numpy()


def total_variation(p: np.ndarray, q: np.ndarray) -> float:
    """Half the L1 distance of two distributions."""
    return 0.5 * float(np.abs(p - q).sum())


@register
@dataclass(frozen=True)
class Categorical(Task):
    """One position on V vertices with probabilities p: the 2-simplex for three."""

    name = "categorical"
    p: tuple[float, ...] = (0.5, 0.3, 0.2)
    """Probabilities of the vertices."""
    seed: int = 0
    """Seed of the samples."""

    def __post_init__(self):
        if len(self.p) < 2 or min(self.p) <= 0 or abs(sum(self.p) - 1) > 1e-6:
            raise UsageError(f"task.p={list(self.p)} must be at least two positive probabilities that sum to 1")

    @property
    def vocab(self) -> int:  # type: ignore[override]
        return len(self.p)

    @property
    def length(self) -> int:  # type: ignore[override]
        return 1

    def batch(self, index: np.ndarray) -> Batch:
        edges = np.cumsum(self.p)[:-1]
        return Batch(np.searchsorted(edges, _uniform(self.seed, index, 1), side="right").astype(np.int64))

    def held_out_examples(self, n: int) -> Batch:
        return replace(self, seed=self.seed + HELD_OUT).batch(np.arange(n))

    def distance(self, tokens_BL: np.ndarray) -> float:
        """Total variation of the samples' frequencies from p."""
        return total_variation(np.bincount(tokens_BL[:, 0], minlength=self.vocab) / len(tokens_BL), np.array(self.p))


@register
@dataclass(frozen=True)
class Markov(Task):
    """Stationary Markov chain with random, peaked transitions: the joint distribution is known exactly."""

    name = "markov"
    vocab: int = 8
    """States of the chain."""
    length: int = 8
    """Tokens per sequence."""
    peak: float = 2.0
    """Scale of the transition logits: the larger, the more predictable the next token."""
    chain_seed: int = 0
    """Seed of the transition matrix."""
    seed: int = 0
    """Seed of the samples."""

    def __post_init__(self):
        if not (2 <= self.vocab <= MOST and 1 <= self.length <= MOST):
            raise UsageError(
                f"task.vocab={self.vocab} and task.length={self.length} must be at least 2 and 1, and at most {MOST}"
            )
        if not 0 <= self.peak <= MOST_PEAK:
            raise UsageError(f"task.peak={self.peak} must be between 0 and {MOST_PEAK}")

    @cached_property
    def transition(self) -> np.ndarray:
        """(V, V) transition matrix, rows sum to 1."""
        logits = self.peak * rng.normal(rng.fold(self.chain_seed, torch.zeros(1)), self.vocab, self.vocab)[0].numpy()
        weights = np.exp(logits.astype(np.float64))
        return weights / weights.sum(-1, keepdims=True)

    @cached_property
    def stationary(self) -> np.ndarray:
        """(V,) stationary distribution: the left eigenvector of eigenvalue 1."""
        values, vectors = np.linalg.eig(self.transition.T)
        vector = np.abs(np.real(vectors[:, np.argmax(np.real(values))]))
        return vector / vector.sum()

    @cached_property
    def pairs(self) -> np.ndarray:
        """(V, V) distribution of two adjacent tokens."""
        return self.stationary[:, None] * self.transition

    @property
    def independent_bound(self) -> float:
        """The lowest total variation of a pair that independent positions can reach: min over a, b of TV(pairs, a b^T).

        It depends only on the chain, not on length or samples.
        """
        return _independent_bound(replace(self, length=1, seed=0))

    def batch(self, index: np.ndarray) -> Batch:
        u_BL = _uniform(self.seed, index, self.length)
        tokens = np.empty(u_BL.shape, dtype=np.int64)
        tokens[:, 0] = np.searchsorted(np.cumsum(self.stationary)[:-1], u_BL[:, 0], side="right")
        edges = np.cumsum(self.transition, axis=-1)[:, :-1]
        for l in range(1, self.length):
            tokens[:, l] = (u_BL[:, l, None] >= edges[tokens[:, l - 1]]).sum(-1)
        return Batch(tokens)

    def pair_distance(self, tokens_BL: np.ndarray) -> float:
        """Total variation of two adjacent tokens from the truth, averaged over positions.

        Statistics pooled over positions could be matched by independent but different positions.
        """
        pair_BP = tokens_BL[:, :-1] * self.vocab + tokens_BL[:, 1:]
        counts = [np.bincount(pair_B, minlength=self.vocab**2) for pair_B in pair_BP.T]
        truth = self.pairs.ravel()
        return float(np.mean([total_variation(count / count.sum(), truth) for count in counts]))

    def held_out_examples(self, n: int) -> Batch:
        return replace(self, seed=self.seed + HELD_OUT).batch(np.arange(n))


@lru_cache(maxsize=16)
def _independent_bound(chain: Markov) -> float:
    """Minimised by gradient steps on both distributions' logits, from the true marginals and from random ones: the
    distance has local minima.
    """
    truth, starts = torch.from_numpy(chain.pairs), np.random.default_rng(0).normal(0, 2, (STARTS, 2, chain.vocab))
    starts[0] = np.log(chain.stationary)
    logits = torch.from_numpy(starts).requires_grad_()
    optimizer, best = torch.optim.Adam([logits], lr=0.05), np.inf
    for step in range(800):
        optimizer.param_groups[0]["lr"] = 0.05 * (1 - step / 800)
        first_SV, second_SV = logits.softmax(-1).unbind(1)
        distance_S = 0.5 * (truth - first_SV[:, :, None] * second_SV[:, None]).abs().sum((1, 2))
        best = min(best, distance_S.min().item())
        optimizer.zero_grad()
        distance_S.sum().backward()
        optimizer.step()
    return best
