"""FMLM+: a flow map with a time per token, trained without a teacher, sampled by posterior refinement.

Some tokens of a sequence are clean context, at time 1; the others share a step s -> t, in linear time. Half of the rows
have s = t and learn the data; the others learn delta_{s,t} from two shorter steps of the network itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from dbtm.core import rng
from dbtm.core.device import widest
from dbtm.core.errors import UsageError
from dbtm.methods import register_method
from dbtm.methods.base import Examples, Method, Part
from dbtm.methods.flow.options import FlowOptions, MapConfig, noise_of
from dbtm.methods.flow.pairs import both_halves, draw_pairs, two_steps
from dbtm.methods.flow.readout import Prediction, Readout
from dbtm.methods.times import stratified
from dbtm.nn import Backbone
from dbtm.sampling import Given, Trace, Watch
from dbtm.sampling.prior import Prior
from dbtm.simplex import State, commit
from dbtm.simplex.commit import top
from dbtm.simplex.flowmap import advance

NOISE, FRACTION, CONTEXT = 41, 42, 43  # streams of random numbers of training
FRESH, CHOICE = 241, 242  # and of the sampler


@dataclass(frozen=True)
class Config(MapConfig):
    """Settings of clean tokens and pairs of times."""

    name: ClassVar[str] = "fmlm-plus"

    context: bool = True
    """Keep some tokens clean as context: a share drawn per sequence, uniformly from 0 to 1."""


@dataclass(frozen=True)
class Options(FlowOptions):
    """Rounds of posterior refinement: map noise to tokens, keep the most confident, draw new noise for the rest."""

    nfe: int = 4
    """Network evaluations: rounds x substeps."""
    substeps: int = 1
    """Evaluations per round: steps from noise to tokens, evenly spaced in t."""
    threshold: float = 0.999
    """Keep all tokens of at least this probability."""
    top_k: int = 0
    """Keep so many tokens per round instead of an even share; 0 is off."""

    def __post_init__(self):
        super().__post_init__()
        self.positive("substeps")
        self.not_negative("threshold", "top_k")

    @property
    def rounds(self) -> int:
        if self.nfe % self.substeps:
            raise UsageError(f"sample.nfe={self.nfe} must be a multiple of sample.substeps={self.substeps}")
        return self.nfe // self.substeps


def two_time_network(method: Method, per_token: bool) -> Backbone:
    """A network of two times, which ignores the second one before training."""
    network = Backbone(method.shape, method.config.model, times=2, per_token=per_token, sum_first=True)
    second = network.trunk.time.down[1]
    assert isinstance(second, nn.Linear)
    nn.init.zeros_(second.weight)
    return network


@register_method
class FMLMPlus(Method[Config, Options]):
    """Learns the data on the diagonal s = t, and two of its own steps off it."""

    name = "fmlm-plus"

    def build(self) -> Backbone:
        return two_time_network(self, per_token=True)

    def clean(self, examples: Examples) -> Tensor:
        """Prompt and context, (B, L)."""
        if not self.settings.context:
            return examples.prompt
        f_B = stratified(examples, FRACTION, self.config.train.batch, permuted=True)
        return examples.prompt | (rng.uniform(examples.key(CONTEXT), examples.tokens.shape[1]) < f_B[:, None])

    def parts(self, examples: Examples) -> Iterator[Part]:
        """Cross-entropy of the tokens that are not clean, divided by their expected number: half of those that are not
        given.
        """
        network, tokens, clean = self.network, examples.tokens, self.clean(examples)
        readout = Readout(network, self.settings.logit_cap)
        pairs = draw_pairs(examples, self.config.train.batch, self.settings.edge)
        same, apart = pairs.same, pairs.apart
        one = torch.ones_like(pairs.s)[:, None]
        s, u, t = (torch.where(clean, one, x[:, None]) for x in (pairs.s, (pairs.s + pairs.t) / 2, pairs.t))
        rows = self.rows(~clean[same]), self.rows(~clean[apart])
        noise = noise_of(network, examples.key(NOISE))
        h, _ = network.embed(State(tokens, (1 - s).to(noise.dtype), noise))
        apart_times = (s[apart], u[apart], t[apart])
        target = two_steps(self.read, readout, h.detach()[apart], apart_times, apart_times)
        trunk = self.read(h, (s, t))
        count = examples.count() * (0.5 if self.settings.context else 1.0)
        yield both_halves(readout, trunk, pairs, tokens, target, rows, ~clean, count)

    def read(self, h: Tensor, times: tuple[Tensor, ...]) -> Tensor:
        return self.network.hidden(h, times=times)[0]

    def evaluator(self, network: Backbone, replay: bool) -> Prior:
        return Prior(network)

    def check_options(self, options: Options) -> None:
        _ = options.rounds  # refuses a budget that does not divide

    def sample(self, network: Prior, given: Given, options: Options, seed: int, watch: Watch) -> Trace:
        """A sample whose tokens are all kept leaves the batch. The last round keeps all remaining tokens."""
        rounds, length = options.rounds, given.tokens.shape[1]
        tokens_BL, kept_BL, score_BL = given.tokens.clone(), given.clean.clone(), given.clean.float()
        noise_BR, choice_BR = given.keys(seed, FRESH, rounds), given.keys(seed, CHOICE, rounds)
        readout = Readout(network.model, self.settings.logit_cap)
        active = (~kept_BL).any(-1).nonzero().squeeze(-1)
        for r in range(1, rounds + 1):
            if not len(active):
                break
            tokens, kept = tokens_BL[active], kept_BL[active]
            noise_BLD = network.draw(noise_of(network.model, noise_BR[active, r - 1], options.sigma))
            uniform = rng.uniform(choice_BR[active, r - 1], length) if options.temperature else None
            found = self._map(readout, tokens, kept, noise_BLD, options, uniform, watch, active)
            proposed = torch.where(kept, tokens, found.tokens)
            now = self._keep(found.top, kept, r, rounds, options)
            tokens_BL[active], kept_BL[active] = proposed, now
            if watch.tracing:
                score_BL[active] = torch.where(kept, score_BL[active], found.top.float())
                for _ in range(options.substeps):  # one round of the trace per evaluation, as in all samplers
                    watch.round(tokens_BL, kept_BL, score_BL, time=1.0)
            active = active[~now.all(-1)]
        return watch.trace(tokens_BL, given.clean)

    def _keep(self, top_BL: Tensor, kept_BL: Tensor, r: int, rounds: int, options: Options) -> Tensor:
        if not options.top_k or r == rounds:
            return commit(top_BL, kept_BL, r, rounds, options.threshold)
        count_B = torch.full_like(kept_BL[:, 0], options.top_k, dtype=torch.int64)
        return kept_BL | (~kept_BL & (top_BL >= options.threshold)) | top(top_BL, ~kept_BL, count_B)

    def _map(
        self,
        readout: Readout,
        tokens: Tensor,
        kept: Tensor,
        noise_BLD: Tensor,
        options: Options,
        uniform: Tensor | None,
        watch: Watch,
        active: Tensor,
    ) -> Prediction:
        """From noise to a prediction in `substeps` evaluations; kept tokens stay clean."""
        network, n = readout.network, options.substeps
        read = watch.counted(lambda h, times: network.hidden(h, times=times)[0])
        clean_BLD = network.embed_tokens(tokens)
        h = torch.where(kept[..., None], clean_BLD, noise_BLD.to(clean_BLD.dtype))
        for j in range(n):
            s, t = (torch.where(kept, 1.0, x / n).to(widest(kept.device)) for x in (j, j + 1))
            trunk, last = read(h, (s, t), rows=active), j == n - 1
            found = readout.predict(trunk, ~kept, not last, options.temperature if last else 0.0, uniform)
            if found.mean is not None:
                h = advance(h, found.mean.to(h.dtype), s[..., None], t[..., None])
        return found
