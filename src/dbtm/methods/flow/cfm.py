"""CFM: categorical flow maps, trained by a denoiser and the map's equation in its end time (Lagrangian), no teacher.

    (1 - t) dX_{s,t}/dt + X_{s,t} = delta_{t,t}(X_{s,t})

Its left side contains the derivative of the network with respect to the end time, and the loss has a gradient through
it. So the trunk runs in forward mode under autograd; only this method needs that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

from dbtm import losses
from dbtm.config import RunConfig
from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.kernels.dispatch import force
from dbtm.losses.lagrangian_head import lagrangian_head
from dbtm.methods import register_method
from dbtm.methods.base import Examples, Method, Part
from dbtm.methods.flow.fmlm import Options as MapOptions
from dbtm.methods.flow.fmlm import map_steps
from dbtm.methods.flow.options import FlowConfig, noise_of
from dbtm.methods.flow.readout import Readout
from dbtm.methods.flow.walk import walk
from dbtm.methods.times import places
from dbtm.nn import Backbone
from dbtm.sampling import Given, Trace, Watch
from dbtm.sampling.prior import Prior
from dbtm.simplex import State
from dbtm.simplex.flowmap import advance

NOISE, END, START = 71, 72, 73  # streams of random numbers of training
EVERY = 4  # one of this many rows learns the map, the others the denoiser


@dataclass(frozen=True)
class Config(FlowConfig):
    """Settings of the terms' weights."""

    name: ClassVar[str] = "cfm"

    logit_cap: float = 0.0
    """tanh cap on the logits before the softmax; 0 is off."""
    map_weight: float = 1.0
    """Weight of the map's term, the mean squared residual per token, relative to the denoiser's cross-entropy."""

    def __post_init__(self):
        super().__post_init__()
        self.not_negative("map_weight")

    def check(self, run: RunConfig) -> None:
        if run.model.backbone == "delta":
            raise UsageError("'cfm' differentiates through a derivative, which model.backbone=delta does not support")


@dataclass(frozen=True)
class Options(MapOptions):
    """Steps of the map, evenly spaced in t."""


@register_method
class CFM(Method[Config, Options]):
    """Cross-entropy on three quarters of the rows, the Lagrangian residual on the others, each with a separate mean."""

    name = "cfm"

    def build(self) -> Backbone:
        return Backbone(self.shape, self.config.model, times=2)

    def times(self, examples: Examples) -> tuple[Tensor, Tensor]:
        """s_B ~ U(0, t) and t_B ~ U(0, 1), independent from row to row."""
        t_B, u_B = (rng.uniform(examples.key(stream), 1)[:, 0] for stream in (END, START))
        return u_B * t_B, t_B

    def split(self, examples: Examples) -> tuple[Tensor, Tensor]:
        """Rows of the denoiser, and of the map."""
        n, device = len(examples.tokens), examples.tokens.device
        if n % EVERY:  # a micro-batch may start at any row of the batch
            fourth = places(examples) % EVERY == EVERY - 1
            return (~fourth).nonzero().squeeze(-1), fourth.nonzero().squeeze(-1)
        rows = torch.arange(n).view(-1, EVERY)
        return rows[:, :-1].flatten().to(device), rows[:, -1].to(device)

    def check_sharding(self) -> None:
        raise UsageError(
            "'cfm' differentiates through a derivative, which FSDP2 does not support: set train.layout=replicate"
        )

    def parts(self, examples: Examples) -> Iterator[Part]:
        s_B, t_B = self.times(examples)
        one, two = self.split(examples)
        if len(one):
            yield self.denoiser_part(examples, one, t_B[one])
        if len(two) and self.settings.map_weight:
            yield self.map_part(examples, two, s_B[two], t_B[two])

    def state(self, examples: Examples, rows: Tensor, s_B: Tensor) -> tuple[State, Tensor]:
        """The interpolant of some rows, and the mask of their tokens that are not given."""
        free = ~examples.prompt[rows]
        noise = noise_of(self.network, examples.key(NOISE)[rows])
        return State(examples.tokens[rows], ((1 - s_B)[:, None] * free).to(noise.dtype), noise), free

    def denoiser_part(self, examples: Examples, rows: Tensor, t_B: Tensor) -> Part:
        """Cross-entropy of the data at s = t."""
        state, free = self.state(examples, rows, t_B)
        visited, count = self.rows(free), examples.count() * (1 - 1 / EVERY)
        trunk = self.read(self.network.embed(state)[0], t_B, t_B)
        readout = Readout(self.network, self.settings.logit_cap)
        loss, per_token = readout.token_loss(trunk, state.tokens, free / count, visited)
        return Part(loss, {"diagonal": losses.total(per_token * free, count)})

    def map_part(self, examples: Examples, rows: Tensor, s_B: Tensor, t_B: Tensor) -> Part:
        """The squared residual, summed over the vocabulary, per token."""
        state, free = self.state(examples, rows, s_B)
        visited, count = self.rows(free), examples.count() / EVERY
        readout, length = Readout(self.network, self.settings.logit_cap), free.shape[1]
        h, _ = self.network.embed(state)
        trunk, dtrunk = self.read_with_rate(h, s_B, t_B)
        with torch.no_grad():
            s_BL, t_BL = (torch.where(free, x[:, None], 1.0)[..., None] for x in (s_B, t_B))
            mean = readout.mean_embedding(trunk.detach()).to(h.dtype)
            end = self.read(advance(h.detach(), mean, s_BL, t_BL), t_B, t_B).flatten(0, 1)
        beta = (free * (self.settings.map_weight / count)).flatten()
        loss, per_token = lagrangian_head(
            trunk.flatten(0, 1),
            dtrunk.flatten(0, 1),
            self.network.head,
            lambda index: readout.probabilities(end[index]),
            s_B.repeat_interleave(length),
            t_B.repeat_interleave(length),
            beta,
            visited,
            self.settings.logit_cap,
        )
        return Part(loss, {"map": losses.total(per_token.view_as(free) * free, count)})

    def read(self, h: Tensor, s_B: Tensor, t_B: Tensor) -> Tensor:
        """The network is given s and t - s."""
        return self.network.hidden(h, times=(s_B, t_B - s_B))[0]

    def read_with_rate(self, h: Tensor, s_B: Tensor, t_B: Tensor) -> tuple[Tensor, Tensor]:
        """The trunk state and its derivative in t, both under autograd: forward mode with plain operations."""
        with torch.compiler.set_stance("force_eager"), force("reference"), forward_ad.dual_level():
            distance = (t_B - s_B).to(torch.promote_types(h.dtype, torch.float32))
            moving = forward_ad.make_dual(distance, torch.ones_like(distance))
            value, rate = forward_ad.unpack_dual(self.network.hidden(h, times=(s_B, moving))[0])
        assert rate is not None
        return value, rate

    # -- sampling --------------------------------------------------------------------------------------------------

    def evaluator(self, network: Backbone, replay: bool) -> Prior:
        return Prior(network)

    def sample(self, network: Prior, given: Given, options: Options, seed: int, watch: Watch) -> Trace:
        """k steps of the map, evenly spaced in t; the most likely tokens of the last step are the result."""
        grid = [i / options.nfe for i in range(options.nfe + 1)]
        steps = map_steps(grid, lambda s, t: (s, t - s), options.churn, options.churn_form)
        return walk(Readout(network.model, self.settings.logit_cap), network, given, options, seed, watch, steps)
