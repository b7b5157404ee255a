"""What the trainer knows of a method."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.nn import TransportMap
from dbtm.sampling.sampler import Sampler

if TYPE_CHECKING:
    from dbtm.config import RunConfig


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


class Method:
    """A way to train and sample. One of one's own needs `parts` alone:

    @register_method
    class CrossEntropy(Method):
        name = "cross-entropy"

        def parts(self, examples):
            ...
            yield Part(loss, {"ce": loss})
    """

    name: ClassVar[str] = ""

    def __init__(self, config: "RunConfig"):
        self.config = config
        with torch.random.fork_rng():
            torch.manual_seed(config.train.seed)
            self.model = TransportMap(config.model)  # what is trained, averaged (EMA) and saved
        if config.model.position_axes:
            self.model.position_ids.copy_(position_ids(config))
        self.frozen: dict[str, TransportMap] = {}  # modules whose weights also belong to the run's state (a teacher)

    def parts(self, examples: Examples) -> Iterator[Part]:
        """The objective in parts: each is backpropagated before the next is asked for, so that only one part's
        activations are alive at a time. A term may come in several parts; they add up.
        """
        raise UsageError(f"the method '{self.name}' has no objective: write its `parts`")

    def prepare(self, examples: Examples) -> Examples:
        """What can be done for a micro-batch without the weights; it is called ahead of time, in another thread."""
        return examples

    def phase(self, step: int) -> tuple[int, ...]:
        """Which of the terms that start late are on at a step: steps of one phase run the same operations, on the same
        tensors.
        """
        return ()

    def after_step(self, step: int, ema: TransportMap) -> None:
        """Called once after every optimizer step, with the averaged model."""

    @classmethod
    def sampler(cls, model: TransportMap, config: "RunConfig") -> Sampler:
        """A sampler for these weights."""
        return Sampler(model, config.sampling(), config.task)


def position_ids(config: "RunConfig") -> Tensor:
    """The task's entries of the learned position tables, which must fit the tables the model has."""
    ids, axes = config.task.position_ids(), config.model.position_axes
    if ids is None or ids.shape != (config.model.length, len(axes)) or (ids.max(0) >= np.array(axes)).any():
        raise UsageError(f"model.position_axes={list(axes)} does not fit the positions of task '{config.task.name}'")
    return torch.from_numpy(ids)


def backward(method: Method, examples: Examples, scale: float = 1.0) -> dict[str, Tensor]:
    """Gradients of scale * objective, part by part; returns the terms and their weighted sum, 'loss', detached."""
    sums: dict[str, Tensor] = {}
    for part in method.parts(examples):
        (scale * part.loss).backward()
        for name, value in {"loss": part.loss, **part.terms}.items():
            sums[name] = sums[name] + value.detach() if name in sums else value.detach()
    return sums
