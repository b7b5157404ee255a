"""What the trainer knows of a method."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Protocol

from torch import Tensor

from dbtm import rng
from dbtm.nn import TransportMap
from dbtm.sampling.sampler import Sampler


@dataclass(frozen=True)
class Examples:
    """A micro-batch on its device: tokens x1 (B, L), prompt mask (B, L), a key for each sample's randomness (B,)."""

    tokens: Tensor
    prompt: Tensor
    sample_key: Tensor  # (B,) int64, folded from (seed of the run, step, index of the sample): not from the batch
    step: int
    dropout_seed: int = 0  # dropout is drawn from torch's generator, for the micro-batch as a whole
    noise_rows: Tensor | None = None  # (B,) int64: which sample's noise each row is given, where that is known already

    def tensors(self) -> dict[str, Tensor]:
        """Its tensors by their names."""
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in found.items() if isinstance(value, Tensor)}

    def first(self, fraction: float) -> "Examples":
        """The first rows of the micro-batch, at least one."""
        rows = slice(0, max(1, round(fraction * len(self.tokens))))
        return replace(
            self, tokens=self.tokens[rows], prompt=self.prompt[rows], sample_key=self.sample_key[rows], noise_rows=None
        )

    def key(self, stream: int) -> Tensor:
        """key_B of one stream of random numbers."""
        return rng.fold(self.sample_key, stream)


class Part(NamedTuple):
    """One network pass's share of the objective: the weighted sum under autograd, and its named terms to show."""

    loss: Tensor
    terms: dict[str, Tensor]


class Method(Protocol):
    """A way to train and sample: DBTM, and later its peers."""

    model: TransportMap  # what is trained, averaged (EMA) and saved
    frozen: dict[str, TransportMap]  # further modules whose weights belong to the state of the run (a teacher)

    def parts(self, examples: Examples) -> Iterator[Part]:
        """The objective in parts: each is backpropagated before the next is asked for, so that only one part's
        activations are alive at a time. A term may come in several parts; they add up.
        """
        ...

    def prepare(self, examples: Examples) -> Examples:
        """What can be done for a micro-batch without the weights; it is called ahead of time, in another thread."""
        ...

    def phase(self, step: int) -> tuple[int, ...]:
        """Which of the terms that start late are on at a step: steps of one phase run the same operations, on the same
        tensors.
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
    for part in method.parts(examples):
        (scale * part.loss).backward()
        for name, value in {"loss": part.loss, **part.terms}.items():
            sums[name] = sums[name] + value.detach() if name in sums else value.detach()
    return sums
