"""The interface of a method for trainer, loader and evaluations."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, NamedTuple, get_args, get_origin

import numpy as np
import torch
from torch import Tensor
from typing_extensions import TypeVar  # with a default

from dbtm.config import MethodConfig, RunConfig, SampleConfig
from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.core.registry import METHODS
from dbtm.nn import Backbone
from dbtm.nn.unfilled import Unfilled
from dbtm.sampling import Given, Sampler, Trace, Watch
from dbtm.tasks.base import Task


@dataclass(frozen=True)
class Examples:
    """A micro-batch on its device: tokens x1 (B, L), prompt mask (B, L), a random key per sample (B,)."""

    tokens: Tensor
    prompt: Tensor
    sample_key: Tensor  # (B,) int64, folded from (seed of the run, step, sample index), independent of the batch
    step: int
    dropout_seed: int = 0  # dropout is drawn from torch's generator, for the whole micro-batch
    noise_rows: Tensor | None = None  # (B,) int64: the sample whose noise each row gets, if already known
    place: Tensor | None = None  # (B,) int64: row numbers in the step's whole batch, over all devices
    step_key: Tensor | None = None  # (B,) int64, folded from (seed of the run, step): the same in every row
    targets: Tensor | None = None  # () tokens that are not given in the step's whole batch, per micro-batch

    def tensors(self) -> dict[str, Tensor]:
        """Its tensors by name."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def first(self, fraction: float) -> "Examples":
        """The first rows of the micro-batch, at least one."""
        rows = slice(0, max(1, round(fraction * len(self.tokens))))
        return replace(
            self,
            tokens=self.tokens[rows],
            prompt=self.prompt[rows],
            sample_key=self.sample_key[rows],
            noise_rows=None,
            place=None if self.place is None else self.place[rows],
            step_key=None if self.step_key is None else self.step_key[rows],
            targets=None if self.targets is None else self.targets * (rows.stop / len(self.tokens)),
        )

    def count(self) -> Tensor:
        """B L_target, the common denominator of all terms.

        It is the whole batch's count divided by the number of micro-batches, not the micro-batch's own: with unequal
        prompts the objective would otherwise depend on the split of a batch into micro-batches and devices.
        """
        return ((~self.prompt).sum() if self.targets is None else self.targets).clamp(min=1)

    def key(self, stream: int) -> Tensor:
        """key_B of one stream of random numbers."""
        return rng.fold(self.sample_key, stream)

    def step_keys(self) -> Tensor:
        """key_B common to all rows of a step, for values drawn once for its whole batch."""
        if self.step_key is not None:
            return self.step_key
        return rng.fold(self.step, torch.zeros_like(self.sample_key))


class Part(NamedTuple):
    """The part of the objective from one network pass: the weighted sum under autograd, and its named terms."""

    loss: Tensor
    terms: dict[str, Tensor]


class Likelihood(NamedTuple):
    """Negative log-likelihoods of examples, in nats: exact, or an upper bound."""

    nll_B: Tensor  # (B,) float64, summed over the tokens that were not given
    tokens_B: Tensor  # (B,) their number
    exact: bool


Settings = TypeVar("Settings", bound=MethodConfig, default=Any)
SampleOptions = TypeVar("SampleOptions", bound=SampleConfig, default=Any)


class Method(Generic[Settings, SampleOptions]):
    """A way to train and to sample. Your own method needs `parts` and `sample`. Its settings and sampler options, if
    any, are the classes in brackets, `Method[Config, Options]`:

    @register_method
    class Mine(Method):
        name = "mine"

        def parts(self, examples):
            ...
            yield Part(loss, {"ce": loss})

        def sample(self, network, given, options, seed, watch):
            ...
            return watch.trace(tokens, given.clean)
    """

    name: ClassVar[str] = ""
    Config: ClassVar[type[MethodConfig]] = MethodConfig
    Options: ClassVar[type[SampleConfig]] = SampleConfig
    needs: ClassVar[frozenset[str]] = frozenset()
    """What a run requires: "teacher", a trained checkpoint (train.init)."""
    teacher: ClassVar[str] = ""
    """The method that trains the teacher; other checkpoints are refused. The referee trains it within the student's
    budget.
    """

    def __init__(self, config: RunConfig):
        self.config = config
        self.settings: Settings = config.method  # type: ignore[assignment]
        self.shape = config.shape
        self.frozen: dict[str, Backbone] = {}  # further networks in the run's state (a teacher)

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        for base in cls.__dict__.get("__orig_bases__", ()):
            for name, kind in zip(("Config", "Options"), get_args(base) if get_origin(base) is Method else ()):
                if isinstance(kind, type) and name not in cls.__dict__:
                    setattr(cls, name, kind)
        if cls.Config is not MethodConfig and not cls.Config.name:
            cls.Config.name = cls.name
        if cls.Config.name != cls.name:  # a method without settings, or with the settings of its base method
            place = {"__module__": cls.__module__, "__qualname__": f"{cls.__qualname__}.Config"}
            cls.Config = type("Config", (cls.Config,), {"name": cls.name, **place})

    # -- the network -----------------------------------------------------------------------------------------------

    def build(self) -> Backbone:
        """A new network, with weights drawn from torch's generator."""
        return Backbone(self.shape, self.config.model)

    def outline(self) -> Backbone:
        """The network of `build` on the meta device: shapes without memory."""
        with torch.device("meta"), Unfilled(sys.maxsize):
            return self.build()

    def start(self) -> "Method[Any, Any]":
        """Build `network`, which is trained, averaged (EMA) and saved; its weights depend on the run's seed."""
        with torch.random.fork_rng():
            torch.manual_seed(self.config.train.seed)
            self.network = self.build()
        if self.config.model.position_axes:
            self.network.position_ids.copy_(position_ids(self.config.task, self.config.model.position_axes))
        return self

    # -- training --------------------------------------------------------------------------------------------------

    def check_start(self, initialised: bool) -> None:
        """Called before training begins; `initialised`: the weights come from a checkpoint (init, or a resume)."""
        if "teacher" in self.needs and not initialised:
            raise UsageError(f"the method '{self.name}' needs a trained teacher: start from one, train.init=CHECKPOINT")

    def check_teacher(self, saved: RunConfig) -> None:
        """Refuse an initial checkpoint if its training settings do not fit."""
        if self.teacher and saved.method_name != self.teacher:
            raise UsageError(
                f"the method '{self.name}' needs a teacher trained by '{self.teacher}': the checkpoint is of "
                f"'{saved.method_name}'"
            )

    def adopt(self, weights: dict[str, Tensor]) -> None:
        """Load a checkpoint's averaged weights into the network and the frozen ones; RuntimeError if they do not fit. A
        self-conditioning table missing in the checkpoint starts at zero.
        """
        if self.network.recall is not None:
            weights = {"recall": torch.zeros_like(self.network.recall)} | weights
        for module in (self.network, *self.frozen.values()):
            module.load_state_dict(weights)

    def check_length(self, steps: int) -> None:
        """Refuse a run of so many steps; called when a run with a time limit learns its length."""

    def check_sharding(self) -> None:
        """Refuse sharded weights, if a step needs all of them at once."""

    def parts(self, examples: Examples) -> Iterator[Part]:
        """The objective in parts: each is backpropagated before the next is computed, so that only one part's
        activations are in memory at a time. A term may come in several parts; they add up.
        """
        raise UsageError(f"the method '{self.name}' has no objective: write its `parts`")

    def prepare(self, examples: Examples) -> Examples:
        """Work on a micro-batch that does not need the weights; called ahead of time, in another thread."""
        return examples

    def phase(self, step: int) -> tuple[int, ...]:
        """The active terms at a step, since some start late: steps of one phase run the same operations on the same
        tensors.
        """
        return ()

    def stage(self, step: int) -> tuple[int, ...]:
        """`phase` without values drawn in every step: stages do not recur, but the phases of one stage do."""
        return self.phase(step)

    def loops_at(self, step: int) -> int:
        """The number of loops of the blocks at a step."""
        return self.config.model.loops

    def before_step(self, step: int) -> None:
        """Called once before the passes of a step, with whole weights and outside recordings: the place to update, in
        place, tensors that are computed from the weights once per step.
        """

    def after_step(self, step: int, ema: Backbone) -> None:
        """Called once after every optimizer step, with the averaged network."""

    def rows(self, visited_BL: Tensor) -> Tensor:
        """The positions that a head visits, numbered through the batch; computed before the trunk runs. Finding them
        synchronizes with the GPU, which is not worth it for a few tokens and is not possible in a CUDA graph.
        """
        if self.shape.small_vocab or (self.config.train.graph and visited_BL.is_cuda):
            return torch.arange(visited_BL.numel(), device=visited_BL.device)
        return visited_BL.flatten().nonzero().squeeze(-1)

    # -- sampling and likelihood -----------------------------------------------------------------------------------

    def options(self) -> SampleOptions:
        """The run's sampler options, with defaults that depend on other settings filled in."""
        return self.config.sample  # type: ignore[return-value]

    def evaluator(self, network: Any, replay: bool) -> Any:
        """The network as evaluated by `sample`: with values computed once for its weights, and as CUDA graphs if
        `replay` is true.
        """
        return network

    def tune(self, network: Backbone, given: Given) -> SampleOptions:
        """The run's sampler options, with values that depend on trained weights filled in. `given` are complete
        examples of the task; `clean` marks their prompt.
        """
        raise UsageError(f"the sampler of '{self.name}' has nothing to tune")

    def check_options(self, options: SampleOptions) -> None:
        """Refuse options for which this run's network lacks a part."""

    def check_given(self, given: Given) -> None:
        """Refuse given tokens that the method does not support."""

    def sample(self, network: Any, given: Given, options: SampleOptions, seed: int, watch: Watch) -> Trace:
        """Generate all tokens that are not given. Every evaluation of the network goes through `watch.counted`; if
        `watch.tracing`, every round is reported to `watch.round`.
        """
        raise UsageError(f"the method '{self.name}' has no sampler: write its `sample`")

    def nll(self, network: Backbone, examples: Examples) -> Likelihood | None:
        """The likelihood of examples, or a bound; None if the method has neither."""
        return None

    def denoising(self, network: Backbone, examples: Examples) -> Likelihood | None:
        """For methods without a likelihood: cross-entropy of noised tokens at the method's own noise levels. It
        compares runs of the same method and is not a bound.
        """
        return None

    def sampler(self, network: Backbone, task: Task | None = None, batch: int = 1024) -> Sampler:
        """A sampler for these weights."""
        return Sampler(self, network, self.options(), task or self.config.task, batch)


def method_of(config: RunConfig) -> "Method[Any, Any]":
    """The method of a run, without a network yet."""
    method: Method[Any, Any] = METHODS.get(config.method_name)(config)
    return method


def position_ids(task: Task, axes: tuple[int, ...]) -> Tensor:
    """The task's entries in the learned position tables, which must fit the network's tables."""
    ids = task.position_ids()
    if ids is None or ids.shape != (task.length, len(axes)) or (ids.max(0) >= np.array(axes)).any():
        raise UsageError(f"model.position_axes={list(axes)} does not fit the positions of task '{task.name}'")
    return torch.from_numpy(ids)


def backward(method: "Method[Any, Any]", examples: Examples, scale: float = 1.0) -> dict[str, Tensor]:
    """Gradients of scale * objective, part by part; returns the terms and their weighted sum, 'loss', detached."""
    sums: dict[str, Tensor] = {}
    for part in method.parts(examples):
        torch.autograd.backward(scale * part.loss)
        for name, value in {"loss": part.loss, **part.terms}.items():
            sums[name] = sums[name] + value.detach() if name in sums else value.detach()
    return sums
