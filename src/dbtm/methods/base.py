"""What the trainer knows of a method."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from torch import Tensor

from dbtm import rng
from dbtm.losses import objective
from dbtm.nn import TransportMap
from dbtm.sampling.sampler import Sampler


@dataclass(frozen=True)
class Examples:
    """A micro-batch on its device: tokens x1 (B, L), prompt mask (B, L), global sample indices (B,)."""

    tokens: Tensor
    prompt: Tensor
    index: Tensor
    step: int
    seed: int

    def first(self, fraction: float) -> "Examples":
        """The first rows of the micro-batch, at least one."""
        rows = slice(0, max(1, round(fraction * len(self.tokens))))
        return replace(self, tokens=self.tokens[rows], prompt=self.prompt[rows], index=self.index[rows])

    def key(self, stream: int) -> Tensor:
        """key_B of one stream of random numbers: a function of (seed, step, sample, stream), not of the batch."""
        return rng.fold(self.seed, stream, self.step, self.index)


class Method(Protocol):
    """A way to train and sample: DBTM, and later its peers."""

    model: TransportMap  # what is trained, averaged (EMA) and saved
    frozen: dict[str, TransportMap]  # further modules whose weights belong to the state of the run (a teacher)

    weights: dict[str, float]  # of the named terms in the objective

    def parts(self, examples: Examples) -> Iterator[dict[str, Tensor]]:
        """The objective as named scalar terms, in parts: each is backpropagated before the next is asked for, so that
        only one part's activations are alive at a time. A term may come in several parts; they add up.
        """
        ...

    def after_step(self, step: int, ema: TransportMap) -> None:
        """Called once after every optimizer step, with the averaged model."""
        ...

    def sampler(self, model: TransportMap) -> Sampler:
        """A sampler for these weights."""
        ...


def backward(method: Method, examples: Examples, scale: float = 1.0) -> dict[str, Tensor]:
    """Gradients of scale * objective, part by part; returns the terms and their weighted sum, 'loss', detached."""
    sums: dict[str, Tensor] = {}
    for terms in method.parts(examples):
        if not terms:
            continue
        part = objective(terms, method.weights)
        (scale * part).backward()
        for name, value in {"loss": part, **terms}.items():
            sums[name] = sums[name] + value.detach() if name in sums else value.detach()
    return sums
