"""Masked diffusion (MDLM): tokens are masked one by one in noising, and unmasked a few at a time in sampling.

A token is masked at time t with probability 1 - alpha_t, alpha_t = 1 - (1 - eps) t. The network reads tokens and masks,
knows no time, and predicts the masked tokens; the mask itself is never predicted, and unmasked tokens stay (SUBS).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from dbtm import losses
from dbtm.config import MethodConfig, SampleConfig
from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.losses.head import cross_entropy
from dbtm.methods import register_method
from dbtm.methods.base import Examples, Likelihood, Method, Part
from dbtm.methods.times import stratified
from dbtm.nn import Backbone
from dbtm.sampling import Given, Trace, Watch
from dbtm.sampling.decode import draw_categorical
from dbtm.simplex import floor_count
from dbtm.simplex.commit import top

TIME, MASK = 11, 12  # streams of random numbers of training
CHOICE, UNMASK = 211, 212  # and of the sampler
TIMES = 16  # of the bound, for every example


@dataclass(frozen=True)
class Config(MethodConfig):
    """Noise and weights of the loss."""

    name: ClassVar[str] = "mdlm"

    eps: float = 1e-3
    """Share of tokens that are not masked at t = 1, and the first time that is drawn."""
    weight: Literal["elbo", "one"] = "elbo"
    """Weight of a masked token's cross-entropy: that of the bound, 1/t, or 1 for all times."""

    def __post_init__(self):
        if not 0 < self.eps < 1:
            raise UsageError(f"method.eps={self.eps} must be above 0 and below 1")


@dataclass(frozen=True)
class Options(SampleConfig):
    """Ancestral steps from all masks to none."""

    nfe: int = 16
    """Network evaluations: steps from t = 1 to t = 0."""
    temperature: float = 1.0
    """0 takes the most likely token."""
    top_p: float = 1.0
    """Draw from the most likely tokens that together reach this probability; 1 is off."""
    order: Literal["random", "confidence"] = "random"
    """What is unmasked in a step: each token by chance, or the positions of the highest probability."""

    def __post_init__(self):
        self.positive("nfe")
        self.not_negative("temperature")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"sample.top_p={self.top_p} must be above 0 and at most 1")


@register_method
class MDLM(Method[Config, Options]):
    """The masked-diffusion bound, Rao-Blackwellised over which tokens are masked next."""

    name = "mdlm"

    def build(self) -> Backbone:
        return Backbone(self.shape, self.config.model, extra_ids=1)

    @property
    def mask(self) -> int:
        """The id behind the task's tokens."""
        return self.shape.vocab

    def times(self, examples: Examples) -> Tensor:
        """t_B in [eps, 1], stratified over the step's whole batch."""
        return stratified(examples, TIME, self.config.train.batch, low=self.settings.eps)

    def masked(self, examples: Examples, t_B: Tensor, stream: int = MASK) -> Tensor:
        """Which tokens are masked at t: each with probability 1 - alpha_t, given ones never, (B, L) bool."""
        u_BL = rng.uniform(examples.key(stream), examples.tokens.shape[1])
        return ~examples.prompt & (u_BL < ((1 - self.settings.eps) * t_B)[:, None])

    def weight(self, t_B: Tensor) -> Tensor:
        """-alpha'_t / (1 - alpha_t) = 1 / t."""
        return torch.ones_like(t_B) if self.settings.weight == "one" else 1 / t_B

    def parts(self, examples: Examples) -> Iterator[Part]:
        """Weighted cross-entropy of the masked tokens, over all tokens that are not given."""
        t_B = self.times(examples)
        masked, tokens, network = self.masked(examples, t_B), examples.tokens, self.network
        rows = self.rows(masked)
        trunk, _ = network.hidden(network.embed_tokens(torch.where(masked, self.mask, tokens)))
        weight = (self.weight(t_B)[:, None] * masked).to(torch.promote_types(trunk.dtype, torch.float32))
        count = examples.count()
        beta = weight / count
        loss, per_token = cross_entropy(trunk, network.head, tokens, beta, rows)
        yield Part(loss, {"cross_entropy": losses.total(per_token * weight, count)})

    @torch.no_grad()
    def nll(self, network: Backbone, examples: Examples) -> Likelihood:
        """The negative evidence lower bound, at stratified times of every example. With linear alpha and eps -> 0 it is
        the mean over t of sum CE / t; at t = 1 everything is masked, so that nothing is lost at the ends.
        """
        target, total = ~examples.prompt, torch.zeros(len(examples.tokens), dtype=torch.float64)
        total = total.to(examples.tokens.device)
        for i in range(TIMES):
            u_B = rng.uniform(rng.fold(examples.sample_key, TIME, i), 1)[:, 0]
            t_B = (u_B + i) / TIMES
            u_BL = rng.uniform(rng.fold(examples.sample_key, MASK, i), examples.tokens.shape[1])
            masked = target & (u_BL < t_B[:, None])
            logits, _ = network.logits(network.embed_tokens(torch.where(masked, self.mask, examples.tokens)))
            log_p = logits.double().log_softmax(-1).gather(-1, examples.tokens[..., None]).squeeze(-1)
            total -= (log_p * masked).sum(-1) / t_B / TIMES
        return Likelihood(total, target.sum(-1), exact=False)

    def sample(self, network: Backbone, given: Given, options: Options, seed: int, watch: Watch) -> Trace:
        """k steps on t = 1, 1 - 1/k, ..., 0: a masked token is unmasked with probability (t - s) / t, in the last step
        with certainty, so that k evaluations suffice. Samples that are complete leave the batch.
        """
        k, length = options.nfe, given.tokens.shape[1]
        tokens_BL, masked_BL = torch.where(given.clean, given.tokens, self.mask), ~given.clean
        score_BL = given.clean.to(torch.float32)
        read = watch.counted(lambda h: network.hidden(h)[0])
        choice_BR, unmask_BR = given.keys(seed, CHOICE, k), given.keys(seed, UNMASK, k)
        active = masked_BL.any(-1).nonzero().squeeze(-1)
        for r in range(1, k + 1):
            if not len(active):
                break
            tokens, masked = tokens_BL[active], masked_BL[active]
            trunk = read(network.embed_tokens(tokens), rows=active)
            drawn, score = self._draw(network, trunk, masked, rng.uniform(choice_BR[active, r - 1], length), options)
            if options.order == "confidence":
                now = top(score, masked, floor_count(masked.sum(-1), r, k))
            else:
                now = masked & (rng.uniform(unmask_BR[active, r - 1], length) < 1 / (k - r + 1))
            masked_BL[active], tokens_BL[active] = masked & ~now, torch.where(now, drawn, tokens)
            if watch.tracing:
                proposed, shown = tokens_BL.clone(), score_BL.clone()
                proposed[active] = torch.where(masked, drawn, tokens)
                shown[active] = torch.where(masked, score.float(), score_BL[active])
                score_BL[active] = torch.where(now, score.float(), score_BL[active])
                watch.round(proposed, ~masked_BL, shown, time=1 - r / k)
            active = masked_BL.any(-1).nonzero().squeeze(-1)
        return watch.trace(tokens_BL, given.clean)

    def _draw(
        self, network: Backbone, trunk: Tensor, masked: Tensor, uniform_BL: Tensor, options: Options
    ) -> tuple[Tensor, Tensor]:
        """Tokens drawn at the masked positions, and their probabilities, (B, L); logits exist for some at a time."""
        drawn = torch.zeros(masked.shape, dtype=torch.int64, device=masked.device)
        score = torch.ones(masked.shape, dtype=torch.float64, device=masked.device)
        at_once = max(1, 2**28 // (8 * self.shape.vocab))
        for at in masked.flatten().nonzero().squeeze(-1).split(at_once):
            logits, _ = network.head(trunk.flatten(0, 1)[at])
            token = draw_categorical(logits, uniform_BL.flatten()[at], options.temperature, options.top_p)
            p = logits.double().softmax(-1)
            drawn.view(-1)[at] = token
            score.view(-1)[at] = p.gather(-1, token[:, None]).squeeze(-1)
        return drawn, score
