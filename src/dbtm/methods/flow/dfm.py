"""DFM: discrete flow maps: a denoiser, and a map delta_{s,t} consistent with it, by two steps or by a derivative.

    dfm      (PSD)  delta_{s,t} learns two shorter steps of the network itself, as in FMLM; if the gradient of this
                    term conflicts with that of the denoiser, its component along it is removed
    dfm-esd  (ESD)  delta_{s,t} learns the target from its derivative along the flow (`simplex.flowmap.eulerian`)

No code is published. Unspecified choices follow FMLM: pairs of times, share of the diagonal, middle time, and the share
of steps from noise to data.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor, nn

from dbtm import losses
from dbtm.config import ModelConfig, Shape
from dbtm.core.device import widest
from dbtm.core.errors import UsageError
from dbtm.kernels.product import product
from dbtm.losses.soft_head import Target
from dbtm.methods import register_method
from dbtm.methods.base import Examples, Method, Part
from dbtm.methods.flow.fmlm import Options as MapOptions
from dbtm.methods.flow.fmlm import map_steps
from dbtm.methods.flow.options import MapConfig, noise_of
from dbtm.methods.flow.pairs import draw_pairs, two_steps
from dbtm.methods.flow.readout import Readout
from dbtm.methods.flow.walk import walk
from dbtm.methods.rounds import MOST_STEPS
from dbtm.nn import Backbone
from dbtm.sampling import Given, Trace, Watch
from dbtm.sampling.prior import Prior
from dbtm.simplex import State
from dbtm.simplex.flowmap import eulerian
from dbtm.theory.clock import RecoveryClock

NOISE = 61  # stream of random numbers of training
FLOOR = 1e-4  # least argument of the logarithm of the Eulerian target; positions below it are left out
LINEAR = 0.1  # share of linear time in the clock
HIDDEN = 32  # width of the learned weight's network
DENOISER = 0.8  # share of a run that trains only the denoiser: a map trained with it from the start collapses


class MixedClock:
    """t(tau) = .9 beta(tau) + .1 tau, beta the recovery clock."""

    def __init__(self, vocab: int):
        self.recovery = RecoveryClock(vocab)

    def t(self, tau: Tensor) -> Tensor:
        return (1 - LINEAR) * self.recovery.t(tau) + LINEAR * tau.to(widest(tau.device))


class WeightedBackbone(Backbone):
    """A network of two times with the learned weight w of the second term, exp(-w) loss + w, which starts at 0."""

    def __init__(self, shape: Shape, config: ModelConfig, inputs: int):
        super().__init__(shape, config, times=2, sum_first=True)
        self.weighting = nn.Sequential(nn.Linear(inputs, HIDDEN), nn.SiLU(), nn.Linear(HIDDEN, 1))
        for embedding in (self.weighting[2], self.trunk.time.down[1]):
            assert isinstance(embedding, nn.Linear)
            nn.init.zeros_(embedding.weight)
            nn.init.zeros_(embedding.bias)

    def weight(self, *times: Tensor) -> Tensor:
        """w of every row, (B,)."""
        dtype = self.embedding.dtype
        return (
            self.weighting(torch.stack(times, -1).to(dtype)).squeeze(-1).to(torch.promote_types(dtype, torch.float32))
        )


@dataclass(frozen=True)
class Config(MapConfig):
    """Settings of the map's start and of the weights of both terms."""

    name: ClassVar[str] = "dfm"

    logit_cap: float = 0.0
    """tanh cap on the logits before the softmax; 0 is off."""
    start: int | None = None
    """First step at which half of the rows learn the map; before it all learn the denoiser. null: start of the last
    fifth of the run."""
    c: float = 0.01
    """Constant c of the denoiser's adaptive weight, (|prediction - token|^2 + c)^-r."""
    r: float = 0.5
    """Exponent of the adaptive weights; 0 is off."""
    map_c: float = 1.0
    """ESD: constant c of the map's adaptive weight. With the published example, 1e-6, the gradient has unit norm for an
    error of any size."""
    surgery: bool = True
    """PSD: remove the component of the map's gradient along the denoiser's if they conflict."""

    def __post_init__(self):
        super().__post_init__()
        self.positive("c", "map_c")
        self.not_negative("r")
        if self.start is not None:
            self.not_negative("start")


@dataclass(frozen=True)
class Options(MapOptions):
    """Steps of the map, evenly spaced in the clock."""


@register_method
class DFM(Method[Config, Options]):
    """Progressive self-distillation: one step of the network learns two of its own."""

    name = "dfm"
    network: WeightedBackbone
    weight_inputs: ClassVar[int] = 1  # the learned weight is a function of s

    def build(self) -> WeightedBackbone:
        return WeightedBackbone(self.shape, self.config.model, self.weight_inputs)

    @cached_property
    def clock(self) -> MixedClock:
        return MixedClock(self.shape.vocab)

    # -- training --------------------------------------------------------------------------------------------------

    def check_start(self, initialised: bool) -> None:
        super().check_start(initialised)
        if self.settings.start is None and self.config.train.steps > MOST_STEPS:
            raise UsageError("a run with a time limit has no known last fifth: set method.start, the map's first step")

    def phase(self, step: int) -> tuple[int, ...]:
        """Whether the map is trained."""
        start = self.settings.start
        return (int(step >= (DENOISER * self.config.train.steps if start is None else start)),)

    def check_sharding(self) -> None:
        if self.surgical:
            raise UsageError(
                "method.surgery=true compares gradients of all weights, which cannot be sharded: set "
                "train.layout=replicate"
            )

    def parts(self, examples: Examples) -> Iterator[Part]:
        """The denoiser on half of the rows, or on all of them before the map starts; the map on the others."""
        pairs = draw_pairs(examples, self.config.train.batch, self.settings.edge)
        if not self.phase(examples.step)[0]:
            everything = slice(0, None)
            distance = torch.where(pairs.s == pairs.t, pairs.s, pairs.t - pairs.s)
            loss, term = self.denoiser(examples, everything, self.clock.t(distance))
            yield Part(loss, {"diagonal": term})
            return
        middle = (pairs.s + pairs.t) / 2
        s, u, t = (self.clock.t(x) for x in (pairs.s, middle, pairs.t))
        diagonal, diagonal_term = self.denoiser(examples, pairs.same, s[pairs.same])
        apart = pairs.apart
        consistency, terms = self.map(examples, apart, s[apart], u[apart], t[apart])
        terms = {"diagonal": diagonal_term, **terms}
        if self.surgical and torch.is_grad_enabled():
            loss, terms["conflict"] = without_conflict(diagonal, consistency, list(self.network.parameters()))
            yield Part(loss, terms)
        else:
            yield Part(diagonal + consistency, terms)

    @property
    def surgical(self) -> bool:
        return self.settings.surgery

    def state(self, examples: Examples, rows, s_B: Tensor) -> tuple[State, Tensor]:
        """The interpolant of some rows at linear times, and the mask of their tokens that are not given."""
        free = ~examples.prompt[rows]
        noise = noise_of(self.network, examples.key(NOISE))[rows]
        return State(examples.tokens[rows], ((1 - s_B)[:, None] * free).to(noise.dtype), noise), free

    def denoiser(self, examples: Examples, rows, t_B: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the data at s = t, with its adaptive weight."""
        state, free = self.state(examples, rows, t_B)
        visited, count = self.rows(free), examples.count()
        trunk = self.read(self.network.embed(state)[0], (t_B, t_B))
        readout, beta = Readout(self.network, self.settings.logit_cap), free / count
        adaptive = (self.settings.c, self.settings.r)
        loss, per_token = readout.token_loss(trunk, state.tokens, beta, visited, adaptive)
        return loss, losses.total(per_token * free, count)

    def map(self, examples: Examples, rows, s_B: Tensor, u_B: Tensor, t_B: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """KL of the two-step target and delta_{s,t}."""
        state, free = self.state(examples, rows, s_B)
        readout = Readout(self.network, self.settings.logit_cap)
        h, _ = self.network.embed(state)
        linear = (torch.where(free, x[:, None], 1.0) for x in (s_B, u_B, t_B))
        target = two_steps(self.read, readout, h.detach(), (s_B, u_B, t_B), tuple(linear))  # type: ignore[arg-type]
        trunk = self.read(h, (s_B, t_B))
        return self.weighted(examples, readout, trunk, target, free, self.network.weight(s_B), None)

    def weighted(
        self,
        examples: Examples,
        readout: Readout,
        trunk: Tensor,
        target: Target,
        free: Tensor,
        w_B: Tensor,
        adaptive: tuple[float, float] | None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """exp(-w) KL + w, for all tokens that are not given."""
        visited, count = self.rows(free), examples.count()
        beta, w_BL = free / count, w_B[:, None]
        scaled = beta * (-w_BL).exp().detach()
        loss, per_token = readout.loss(trunk, target, scaled, visited, divergence=True, adaptive=adaptive)
        learned = (beta * ((-w_BL).exp() * per_token + w_BL)).sum()  # trains only w; the loss above trains the network
        terms = {"map": losses.total(per_token * free, count), "weight": w_B.detach().mean()}
        return loss - loss.detach() + learned, terms

    def read(self, h: Tensor, times: tuple[Tensor, ...]) -> Tensor:
        return self.network.hidden(h, times=times)[0]

    # -- sampling --------------------------------------------------------------------------------------------------

    def evaluator(self, network: Backbone, replay: bool) -> Prior:
        return Prior(network)

    def sample(self, network: Prior, given: Given, options: Options, seed: int, watch: Watch) -> Trace:
        """k steps of the map, evenly spaced in the clock; the most likely tokens of the last step are the result."""
        grid = self.clock.t(torch.arange(options.nfe + 1, dtype=torch.float64) / options.nfe).tolist()
        steps = map_steps(grid, lambda s, t: (s, t), options.churn, options.churn_form)
        return walk(Readout(network.model, self.settings.logit_cap), network, given, options, seed, watch, steps)


@register_method
class EulerianDFM(DFM):
    """Eulerian self-distillation: the target uses a derivative of the network along the flow, without gradient."""

    name = "dfm-esd"
    weight_inputs = 2  # of (s, t)

    @property
    def surgical(self) -> bool:
        return False

    def map(self, examples: Examples, rows, s_B: Tensor, u_B: Tensor, t_B: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        state, free = self.state(examples, rows, s_B)
        readout, network = Readout(self.network, self.settings.logit_cap), self.network
        h, _ = network.embed(state)
        with torch.no_grad():
            now = self.read(h.detach(), (s_B, s_B))
            mean = readout.mean_embedding(now).to(h.dtype)
            dh = free[..., None] * (mean - h.detach()) / (1 - s_B).clamp(min=FLOOR)[:, None, None].to(h.dtype)
        trunk, dtrunk = network.hidden(h, dh.to(h.dtype), (s_B, t_B), (torch.ones_like(s_B), torch.zeros_like(t_B)))
        assert dtrunk is not None
        left_out = torch.zeros((), device=h.device)
        target = self.target(readout, now, trunk.detach(), dtrunk, s_B, t_B, left_out)
        adaptive = (self.settings.map_c, self.settings.r)
        w_B = network.weight(s_B, t_B)
        loss, terms = self.weighted(examples, readout, trunk, target, free, w_B, adaptive)
        return loss, terms | {"left_out": left_out / free.sum().clamp(min=1)}

    def target(
        self, readout: Readout, now: Tensor, trunk: Tensor, dtrunk: Tensor, s_B: Tensor, t_B: Tensor, left_out: Tensor
    ) -> Target:
        """The Eulerian target. If the logarithm's argument is too small, a position is its own target, without gradient
        and divergence, and is counted in `left_out`.
        """
        length, head = trunk.shape[1], readout.network.head
        now, trunk, dtrunk = (x.flatten(0, 1) for x in (now, trunk, dtrunk))
        weight = head.weight.detach()

        def target(index: Tensor) -> Tensor:
            z_ss, z_st = readout.logits(now[index]), readout.logits(trunk[index])
            dz = product(dtrunk[index], weight.to(dtrunk.dtype).T)
            if readout.cap:
                dz = dz * (1 - (z_st / readout.cap).square())
            s, t = (x[index // length, None].to(z_st.dtype) for x in (s_B, t_B))
            p, least = eulerian(z_ss, z_st, dz, s, t)
            bad = ~(least >= FLOOR)
            left_out.add_(bad.sum())
            return torch.where(bad[:, None], z_st.softmax(-1), p)

        return target


def without_conflict(first: Tensor, second: Tensor, parameters: list[nn.Parameter]) -> tuple[Tensor, Tensor]:
    """(loss, conflict): a loss of value first + second whose gradient is that of the first plus that of the second; if
    their inner product is negative (conflict = 1), the second's component along the first is removed.

    Both gradients are computed here, for one micro-batch; backward through the loss returns them.
    """
    leaves = [p for p in parameters if p.requires_grad]
    one, two = (
        [torch.zeros_like(p) if g is None else g for p, g in zip(leaves, found, strict=True)]
        for found in (torch.autograd.grad(x, leaves, retain_graph=True, allow_unused=True) for x in (first, second))
    )
    dot = torch.stack([(a * b).sum() for a, b in zip(one, two, strict=True)]).sum()
    length = torch.stack([a.square().sum() for a in one]).sum().clamp(min=torch.finfo(dot.dtype).tiny)
    out = (dot / length).clamp(max=0)
    total = (first + second).detach()
    for p, a, b in zip(leaves, one, two, strict=True):
        total = total + ((p - p.detach()) * (a + b - out * a)).sum()
    return total, (dot < 0).to(dot.dtype)
