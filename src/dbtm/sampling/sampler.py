"""The user's sampler: a method, its network, its options, and batches of any number of samples."""

import copy
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch

from dbtm.config import SampleConfig
from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_EVALUATIONS
from dbtm.nn import Backbone
from dbtm.sampling.given import Given
from dbtm.sampling.trace import Round, Trace
from dbtm.sampling.watch import Watch
from dbtm.tasks.base import Task


class Samples(Protocol):
    """The parts of a method that a sampler needs."""

    name: ClassVar[str]

    def evaluator(self, network: Any, replay: bool) -> Any:
        """The network as evaluated by `sample`, with values computed once for its weights."""

    def sample(self, network: Any, given: Given, options: Any, seed: int, watch: Watch) -> Trace:
        """Generate everything that is not given."""

    def check_options(self, options: Any) -> None:
        """Refuse options for which the network lacks a part."""

    def check_given(self, given: Given) -> None:
        """Refuse given tokens that the method does not support."""


class Sampler:
    """Samples from a network; results do not depend on the batch size (up to float rounding)."""

    def __init__(
        self, method: Samples, network: Backbone, options: SampleConfig, task: Task | None = None, batch: int = 1024
    ):
        self.method, self.network, self.options = method, network, options
        self.task, self.batch = task, batch
        self.replay = False
        self._made: tuple[tuple[Any, ...], Any, tuple[Any, ...]] | None = None

    @property
    def device(self) -> torch.device:
        return self.network.device

    @property
    def has_budget(self) -> bool:
        """Whether the number of network evaluations can be chosen."""
        return hasattr(self.options, "nfe")

    @property
    def processes(self) -> int:
        """The number of processes that share the work."""
        return 1

    def in_batches(self, size: int) -> "Sampler":
        """The same sampler with batches of at most so many samples."""
        other = copy.copy(self)
        other.batch, other._made = min(size, self.batch), None
        return other

    def everywhere(self, work: Callable[..., Any], *args: Any, **own: Any) -> list[Any]:
        """`work(sampler, rank, size, *args, **own)` of every process that shares this sampler's work; here, of one."""
        return [work(self, 0, 1, *args, **own)]

    def compile(self, backend: str = "inductor") -> Self:
        """Compile the network's blocks, for any batch size, and on a GPU replay its passes as CUDA graphs. This takes a
        minute; it pays off for many samples with the same weights.
        """
        self.network.compile_layers(dynamic=True, backend=backend)
        self.replay, self._made = self.device.type == "cuda", None
        return self

    def evaluator(self) -> Any:
        """The method's evaluator of the current weights; cached until they change."""
        version, trained = self.network.version(), self.network.embedding.requires_grad
        if self._made is None or self._made[0] != version or trained:
            made = self.method.evaluator(self.network, self.replay and not trained)
            self._made = (version, made, self.network.folded())  # recordings read the folded matrices: keep them
        return self._made[1]

    def with_options(self, **changes: Any) -> Any:
        """The checkpoint's options with some changed."""
        if "nfe" in changes and not self.has_budget:
            raise UsageError(
                f"'{self.method.name}' needs one network evaluation per generated token: there is no "
                "budget to choose (nfe)"
            )
        options = self.options.changed(self.method.name, changes)
        if (nfe := getattr(options, "nfe", 0)) > MOST_EVALUATIONS:
            raise UsageError(f"{nfe} network evaluations (nfe) are too many: give at most {MOST_EVALUATIONS}")
        self.method.check_options(options)
        return options

    def given(self, tokens: np.ndarray, clean: np.ndarray | None, first: int = 0) -> Given:
        """Given tokens on the network's device; sample indices count from `first`."""
        tokens, vocab, length = np.asarray(tokens), self.network.shape.vocab, self.network.shape.length
        if tokens.ndim != 2 or tokens.shape[1] != length or tokens.dtype.kind not in "iu":
            raise UsageError(f"tokens must be integers (B, {length}), not {tokens.dtype} {tokens.shape}")
        if clean is not None and (np.asarray(clean).shape != tokens.shape or np.asarray(clean).dtype != bool):
            raise UsageError(f"clean must be booleans of the shape of tokens, {tokens.shape}")
        if tokens.size and (tokens.min() < 0 or tokens.max() >= vocab):
            raise UsageError(f"a token is outside 0..{vocab - 1}")
        tokens_BL = torch.as_tensor(tokens, dtype=torch.int64)
        clean_BL = torch.zeros_like(tokens_BL, dtype=torch.bool) if clean is None else torch.as_tensor(np.array(clean))
        index_B = torch.arange(first, first + len(tokens_BL))
        return Given(tokens_BL.to(self.device), clean_BL.to(self.device), index_B.to(self.device))

    def sample(
        self,
        n: int | None = None,
        *,
        tokens: np.ndarray | None = None,
        clean: np.ndarray | None = None,
        seed: int = 0,
        trace: bool = False,
        progress: Callable[[int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        on_round: Callable[[Round], None] | None = None,
        others: int = 0,
        numbered_from: int = 0,
        **options: Any,
    ) -> Trace:
        """n unconditional samples, or one per row of `tokens`, of which the positions in `clean` are given.

        Options are those of the method's sampler (`Method.Options`). `progress` is called with the number of finished
        samples, `on_round` with every round of every batch, `cancelled` before every network evaluation. With `others`,
        rounds include so many of the most likely tokens, if the method supports it. A sample's noise depends on the
        seed and its number, which counts from `numbered_from`.
        """
        if (n is None) == (tokens is None):
            raise UsageError("give either a number of samples, or tokens with the mask of given tokens")
        if tokens is not None and clean is None:
            raise UsageError("tokens need `clean`, the mask of given tokens")
        chosen = self.with_options(**options)
        if tokens is None:
            tokens = np.zeros((max(n or 0, 0), self.network.shape.length), dtype=np.int64)
        if len(tokens) == 0:
            raise UsageError("nothing to sample: the number of samples must be at least 1")
        training = self.network.training
        if training:  # eval() walks all modules: a millisecond
            self.network.eval()
        try:
            traces, evaluator = [], self.evaluator()
            for first in range(0, len(tokens), self.batch):
                rows = slice(first, first + self.batch)
                given = self.given(tokens[rows], None if clean is None else clean[rows], numbered_from + first)
                self.method.check_given(given)
                watch = Watch(len(given.tokens), self.device, trace, cancelled, on_round, others)
                with torch.no_grad():
                    traces.append(self.method.sample(evaluator, given, chosen, seed, watch))
                if progress is not None:
                    progress(min(first + self.batch, len(tokens)))
        finally:
            if training:
                self.network.train()
        return Trace.concatenate(traces)
