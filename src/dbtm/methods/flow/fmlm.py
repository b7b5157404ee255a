"""FMLM: the map along FLM's flow, distilled into one network of two times, delta_{s,t} (`simplex.flowmap`).

Half of the rows have s = t and learn the denoiser of a frozen FLM (or, without a teacher, the data); the others learn
delta_{s,t} from two shorter steps of the network itself. With the exact map, any number of steps gives the data's
distribution.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, Literal

import torch
from torch import Tensor

from dbtm.config import RunConfig
from dbtm.core.errors import UsageError
from dbtm.losses.soft_head import Target
from dbtm.methods import register_method
from dbtm.methods.base import Examples, Method, Part
from dbtm.methods.flow.fmlm_plus import two_time_network
from dbtm.methods.flow.options import FlowOptions, MapConfig, noise_of, share
from dbtm.methods.flow.pairs import Pairs, both_halves, draw_pairs, two_steps
from dbtm.methods.flow.readout import Readout
from dbtm.methods.flow.walk import Move, Step, walk
from dbtm.nn import Backbone
from dbtm.sampling import Given, Trace, Watch
from dbtm.sampling.prior import Prior
from dbtm.simplex import State
from dbtm.simplex.flowmap import churn_target, churned, renoised
from dbtm.theory.clock import RecoveryClock

NOISE = 51  # stream of random numbers of training
Times = Callable[[float, float], tuple[float, ...]]  # from the linear times of a step to the network's time inputs
SECOND_TIME = ("trunk.time.up.1.", "trunk.time.down.1.")  # parameters missing in a network with one time


@dataclass(frozen=True)
class Config(MapConfig):
    """Settings of the teacher of the diagonal and of the student's initial weights."""

    name: ClassVar[str] = "fmlm"

    diagonal: Literal["teacher", "data"] = "teacher"
    """Target of rows with s = t: the distributions of a frozen FLM, or, without a teacher, the data."""
    student: Literal["teacher", "random"] = "teacher"
    """The student's initial weights: the teacher's, or from scratch."""


@dataclass(frozen=True)
class Options(FlowOptions):
    """Steps of the map, evenly spaced in the recovery clock."""

    nfe: int = 4
    """Network evaluations: steps of the map."""
    churn: float = 0.0
    """Share of the noise that every step but the last redraws, 0 to 1."""
    churn_form: Literal["published", "exact"] = "published"
    """How to redraw: as published, or such that the state's distribution stays exact for every share."""

    def __post_init__(self):
        super().__post_init__()
        share(self.churn, "sample.churn")


@register_method
class FMLM(Method[Config, Options]):
    """Learns a teacher's denoiser on the diagonal s = t, and two of its own steps off it."""

    name = "fmlm"
    needs = frozenset({"teacher"})
    teacher = "flm"
    left_behind: ClassVar[frozenset[str]] = frozenset()  # weights of the teacher that the student lacks

    def __init__(self, config: RunConfig):
        super().__init__(config)
        if self.settings.diagonal == "data":
            self.needs = frozenset()  # type: ignore[misc]

    def build(self) -> Backbone:
        return two_time_network(self, per_token=False)

    def start(self) -> Method:
        super().start()
        if self.settings.diagonal == "teacher":
            with torch.random.fork_rng():
                teacher = self.build_teacher()
            teacher.position_ids.copy_(self.network.position_ids)
            self.frozen["teacher"] = teacher.requires_grad_(False).eval()
        return self

    def build_teacher(self) -> Backbone:
        return Backbone(self.shape, self.config.model, times=1)

    @cached_property
    def clock(self) -> RecoveryClock:
        return RecoveryClock(self.shape.vocab)

    # -- the teacher -----------------------------------------------------------------------------------------------

    def check_teacher(self, saved: RunConfig) -> None:
        """The teacher must be an FLM with the same cap, which its weights do not include."""
        super().check_teacher(saved)
        cap = saved.method.logit_cap  # type: ignore[attr-defined]
        if cap != self.settings.logit_cap:
            raise UsageError(f"the teacher was trained with method.logit_cap={cap}: set it for the student too")

    def adopt(self, weights: dict[str, Tensor]) -> None:
        """Load the weights into the teacher, and into the student unless it starts from scratch. The embedding of the
        student's second time starts at zero.
        """
        for teacher in self.frozen.values():
            teacher.load_state_dict(weights)
        if self.settings.student == "teacher":
            own = self.network.state_dict()
            start = {k: v for k, v in own.items() if k.startswith(SECOND_TIME)}
            self.network.load_state_dict(start | {k: v for k, v in weights.items() if k not in self.left_behind})

    # -- training --------------------------------------------------------------------------------------------------

    def parts(self, examples: Examples) -> Iterator[Part]:
        """Mean cross-entropy of the tokens that are not given, with both kinds of target."""
        network, tokens, free = self.network, examples.tokens, ~examples.prompt
        readout = Readout(network, self.settings.logit_cap)
        pairs = draw_pairs(examples, self.config.train.batch, self.settings.edge)
        same, apart = pairs.same, pairs.apart
        s, u, t = pairs.s, (pairs.s + pairs.t) / 2, pairs.t
        linear = tuple(torch.where(free, self.clock.t(x)[:, None], 1.0) for x in (s, u, t))
        rows = self.rows(free[same]), self.rows(free[apart])
        noise = noise_of(network, examples.key(NOISE))
        state = State(tokens, (1 - linear[0]).to(noise.dtype), noise)
        h, _ = network.embed(state)
        s_, u_, t_ = (x[apart] for x in (s, u, t))
        to_, by_, end_ = (x[apart] for x in linear)
        target = two_steps(self.read, readout, h.detach()[apart], (s_, u_, t_), (to_, by_, end_))
        taught = self.taught(state, pairs) if self.frozen else None
        trunk = self.read(h, (s, t))
        yield both_halves(
            readout, trunk, pairs, tokens if taught is None else taught, target, rows, free, examples.count()
        )

    def read(self, h: Tensor, times: tuple[Tensor, ...]) -> Tensor:
        return self.network.hidden(h, times=times)[0]

    @torch.no_grad()
    def taught(self, state: State, pairs: Pairs) -> Target:
        """The teacher's distributions on the rows with s = t."""
        teacher = self.frozen["teacher"]
        h, _ = teacher.embed(state.rows(pairs.same))
        trunk = teacher.hidden(h, times=(pairs.s[pairs.same],))[0].flatten(0, 1)
        readout = Readout(teacher, self.settings.logit_cap)
        return lambda index: readout.probabilities(trunk[index])

    # -- sampling --------------------------------------------------------------------------------------------------

    def evaluator(self, network: Backbone, replay: bool) -> Prior:
        return Prior(network)

    def sample(self, network: Prior, given: Given, options: Options, seed: int, watch: Watch) -> Trace:
        """k steps between tau = 0, 1/k, ..., 1; the most likely tokens of the last step are the result."""
        readout = Readout(network.model, self.settings.logit_cap)
        grid, tau = self.clock.t(torch.arange(options.nfe + 1, dtype=torch.float64) / options.nfe), self.clock.tau
        steps = map_steps(grid.tolist(), lambda s, t: (tau(s), tau(t)), options.churn, options.churn_form)
        return walk(readout, network, given, options, seed, watch, steps)


def map_steps(grid: list[float], times: Times, churn: float = 0.0, form: str = "published") -> Iterator[Step]:
    """Steps of a map along a grid of linear times from 0 to 1; `times` gives the network's time inputs for a step."""
    for now, after in pairwise(grid):
        if after == grid[-1]:
            yield Step(times(now, 1.0), None, 1.0)
        elif not churn:
            yield Step(times(now, after), _move(now, after), after)
        else:
            reached = churn_target(after, churn)
            yield Step(times(now, reached), _churn(now, reached, after, churn, form), after)


def _move(now: float, after: float) -> Move:
    """X_{now,after}."""
    return lambda h, mean, _: torch.lerp(h, mean, (after - now) / (1 - now))


def _churn(now: float, reached: float, after: float, churn: float, form: str) -> Move:
    """A step beyond `after`, and back to it by fresh noise."""
    if form == "exact":
        go = _move(now, reached)
        return lambda h, mean, fresh: renoised(go(h, mean, fresh), fresh().to(h.dtype), reached, after)
    return lambda h, mean, fresh: churned(h, mean, fresh().to(h.dtype), now, after, churn)
