"""FLM: a flow from Gaussian noise to one-hot tokens, x_t = (1 - t) noise + t e_x, by its denoiser D = E[e_x | x_t].

Times are uniform in the recovery clock tau (`theory.clock`), and the network reads tau. The sampler integrates
dx/dt = (D - x) / (1 - t) by Euler steps. Its first evaluation reads pure noise, where D is the marginal distribution of
each position: with one evaluation every sample has the most frequent token at every position.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from dbtm import losses
from dbtm.methods import register_method
from dbtm.methods.base import Examples, Method, Part
from dbtm.methods.flow.options import FlowConfig, FlowOptions, noise_of
from dbtm.methods.flow.readout import Readout
from dbtm.methods.flow.walk import Step, walk
from dbtm.methods.times import stratified
from dbtm.nn import Backbone
from dbtm.sampling import Given, Trace, Watch
from dbtm.sampling.prior import Prior
from dbtm.simplex import State
from dbtm.theory.clock import RecoveryClock

NOISE, TIME = 21, 22  # streams of random numbers of training
EPS = 1e-5  # in the published Euler step, (D - x) / (1 - t + eps)


@dataclass(frozen=True)
class Config(FlowConfig):
    """Settings of the denoiser's loss."""

    name: ClassVar[str] = "flm"


@dataclass(frozen=True)
class Options(FlowOptions):
    """Euler steps, evenly spaced in the recovery clock."""


@register_method
class FLM(Method[Config, Options]):
    """Cross-entropy of the token, with equal weight at all times."""

    name = "flm"

    def build(self) -> Backbone:
        return Backbone(self.shape, self.config.model, times=1)

    @cached_property
    def clock(self) -> RecoveryClock:
        return RecoveryClock(self.shape.vocab)

    def times(self, examples: Examples) -> Tensor:
        """tau_B, float64."""
        return stratified(examples, TIME, self.config.train.batch, permuted=True)

    def parts(self, examples: Examples) -> Iterator[Part]:
        """Mean cross-entropy of the tokens that are not given."""
        network, tokens, free = self.network, examples.tokens, ~examples.prompt
        rows, tau_B = self.rows(free), self.times(examples)
        noise = noise_of(network, examples.key(NOISE))
        h, _ = network.embed(State(tokens, noise_share(self.clock.t(tau_B), free, noise.dtype), noise))
        trunk, _ = network.hidden(self.conditioned(h, tau_B, examples), times=(tau_B,))
        count = examples.count()
        loss, per_token = Readout(network, self.settings.logit_cap).token_loss(trunk, tokens, free / count, rows)
        yield Part(loss, {"cross_entropy": losses.total(per_token * free, count)})

    def conditioned(self, h: Tensor, tau_B: Tensor, examples: Examples) -> Tensor:
        """Hook for subclasses to add inputs to the state; here the state alone."""
        return h

    def evaluator(self, network: Backbone, replay: bool) -> Prior:
        return Prior(network)

    def sample(self, network: Prior, given: Given, options: Options, seed: int, watch: Watch) -> Trace:
        """k evaluations at tau = 0, 1/k, ..., (k - 1)/k; the prediction of the last one is the result."""
        readout = Readout(network.model, self.settings.logit_cap)
        return walk(readout, network, given, options, seed, watch, self.steps(options.nfe))

    def steps(self, k: int) -> Iterator[Step]:
        grid = self.clock.t(torch.arange(k + 1) / k).tolist()
        for i in range(k):
            share = (grid[i + 1] - grid[i]) / (1 - grid[i] + EPS)
            last = i == k - 1
            yield Step((i / k,), None if last else euler(share), 1.0 if last else grid[i + 1])


def euler(share: float):
    """x + share (D - x)."""
    return lambda h, mean, _: torch.lerp(h, mean, share)


def noise_share(t_B: Tensor, free_BL: Tensor, dtype: torch.dtype) -> Tensor:
    """1 - t at positions that are not given, 0 at given ones, (B, L)."""
    return ((1 - t_B)[:, None] * free_BL).to(dtype)
