"""Masked diffusion (MDLM): noising masks tokens one by one, and sampling unmasks a few at a time.

A token is masked at time t with probability 1 - alpha_t, alpha_t = 1 - (1 - eps) t. The network reads tokens and masks,
but no time, and predicts the masked tokens. The mask itself is never predicted, and unmasked tokens stay (SUBS). The
sampler may also remask tokens (ReMDM), so that it can correct them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from dbtm import losses
from dbtm.config import MethodConfig, SampleConfig
from dbtm.core import rng
from dbtm.core.device import wide, wide_device, widest
from dbtm.core.errors import UsageError
from dbtm.losses.head import cross_entropy
from dbtm.methods import register_method
from dbtm.methods.base import Examples, Likelihood, Method, Part
from dbtm.methods.times import stratified
from dbtm.nn import Backbone
from dbtm.sampling import Given, Trace, Watch
from dbtm.sampling.decode import draw_categorical, token_log_p
from dbtm.simplex import floor_count
from dbtm.simplex.categorical import confident, loop_alpha, most_remasked, unmask_probability
from dbtm.simplex.commit import top

TIME, MASK = 11, 12  # streams of random numbers of training
CHOICE, UNMASK, REMASK = 211, 212, 213  # and of the sampler
TIMES = 16  # times per example for the bound
ETA = {"cap": 0.008, "rescale": 0.02, "loop": 0.02}  # published for cap and loop; ours for rescale


@dataclass(frozen=True)
class Config(MethodConfig):
    """Settings of noise and loss weights."""

    name: ClassVar[str] = "mdlm"

    eps: float = 1e-3
    """Share of tokens that are not masked at t = 1, and the smallest time drawn."""
    weight: Literal["elbo", "one"] = "elbo"
    """Weight of a masked token's cross-entropy: 1/t, as in the bound, or 1 for all times."""

    def __post_init__(self):
        if not 0 < self.eps < 1:
            raise UsageError(f"method.eps={self.eps} must be above 0 and below 1")


@dataclass(frozen=True)
class Options(SampleConfig):
    """Ancestral steps from fully masked to unmasked."""

    nfe: int = 16
    """Network evaluations: steps from t = 1 to t = 0."""
    temperature: float = 1.0
    """0 takes the most likely token."""
    top_p: float = 1.0
    """Draw from the most likely tokens that together reach this probability; 1 is off."""
    order: Literal["random", "confidence", "drawn"] = "random"
    """Tokens unmasked in a step: random ones, or the positions whose most likely token, or whose drawn token, has the
    highest probability."""
    tail: Literal["sample", "argmax"] = "sample"
    """The last step draws the remaining masked tokens, or takes the most likely ones."""
    remask: Literal["none", "cap", "rescale", "confidence", "loop"] = "none"
    """Remask tokens (ReMDM), with probability min(eta, most), eta x most, more for unlikely tokens, or eta while the
    share of masks stays constant (loop)."""
    eta: float | None = None
    """Strength of remasking; null: .008 for cap, .02 for rescale and loop. Confidence does not use it."""
    loop_start: float = 0.55
    """Time at which the loop begins."""
    loop_end: float = 0.05
    """Time at which the loop ends."""
    loop_alpha: float = 0.9
    """Share of unmasked tokens within the loop."""

    def __post_init__(self):
        self.positive("nfe")
        self.not_negative("temperature")
        self.up_to_one("top_p")
        if self.eta is not None and not 0 <= self.eta <= 1:
            raise UsageError(f"sample.eta={self.eta} must be between 0 and 1")
        if self.eta is not None and self.remask not in ETA:
            raise UsageError(f"sample.eta={self.eta} has no meaning with sample.remask={self.remask}: leave it out")
        if not 0 < self.loop_end <= self.loop_start < 1 or not 0 < self.loop_alpha < 1:
            raise UsageError(
                "sample.loop_start, sample.loop_end and sample.loop_alpha must be between 0 and 1, the end at most the "
                "start"
            )
        if self.remask != "none" and self.order != "random":
            raise UsageError(f"sample.remask={self.remask} needs sample.order=random, not {self.order}")

    def shown(self) -> dict[str, Any]:
        """The strength of remasking and its loop matter only if tokens are remasked."""
        left_out = set() if self.remask in ETA else {"eta"}
        left_out |= set() if self.remask == "loop" else {"loop_start", "loop_end", "loop_alpha"}
        return {name: value for name, value in super().shown().items() if name not in left_out}

    def alpha(self, t: float) -> float:
        """The sampler's share of unmasked tokens at time t."""
        return loop_alpha(t, self.loop_start, self.loop_end, self.loop_alpha) if self.remask == "loop" else 1 - t

    def sigma(self, t: float, s: float, score_BL: Tensor, unmasked_BL: Tensor) -> Tensor:
        """Probabilities that the step from t to s remasks an unmasked position, (B, L)."""
        most = most_remasked(self.alpha(t), self.alpha(s))
        if self.remask == "confidence":
            return most * confident(score_BL, unmasked_BL)
        eta = ETA.get(self.remask, 0.0) if self.eta is None else self.eta
        if self.remask == "loop" and not (self.loop_end <= s and t <= self.loop_start):
            eta = 0.0
        return torch.full_like(score_BL, eta * most if self.remask == "rescale" else min(eta, most))


@register_method
class MDLM(Method[Config, Options]):
    """The masked-diffusion bound, Rao-Blackwellised over the tokens masked next."""

    name = "mdlm"

    def build(self) -> Backbone:
        return Backbone(self.shape, self.config.model, extra_ids=1)

    @property
    def mask(self) -> int:
        """The mask's id, after the task's tokens."""
        return self.shape.vocab

    def times(self, examples: Examples) -> Tensor:
        """t_B in [eps, 1], stratified over the step's whole batch."""
        return stratified(examples, TIME, self.config.train.batch, low=self.settings.eps)

    def masked(self, examples: Examples, t_B: Tensor, stream: int = MASK) -> Tensor:
        """Mask of the tokens masked at t: each with probability 1 - alpha_t, given ones never, (B, L) bool."""
        u_BL = rng.uniform(examples.key(stream), examples.tokens.shape[1])
        return ~examples.prompt & (u_BL < ((1 - self.settings.eps) * t_B)[:, None])

    def weight(self, t_B: Tensor) -> Tensor:
        """-alpha'_t / (1 - alpha_t) = 1 / t."""
        return torch.ones_like(t_B) if self.settings.weight == "one" else 1 / t_B

    def parts(self, examples: Examples) -> Iterator[Part]:
        """Weighted cross-entropy of the masked tokens, divided by the number of tokens not given."""
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
        the mean over t of sum CE / t; at t = 1 everything is masked, so there are no further terms at the ends.
        """
        target, at = ~examples.prompt, wide_device(examples.tokens.device)
        total = torch.zeros(len(examples.tokens), dtype=torch.float64, device=at)
        for i in range(TIMES):
            u_B = rng.uniform(rng.fold(examples.sample_key, TIME, i), 1)[:, 0]
            t_B = (u_B + i) / TIMES
            u_BL = rng.uniform(rng.fold(examples.sample_key, MASK, i), examples.tokens.shape[1])
            masked = target & (u_BL < t_B[:, None])
            logits, _ = network.logits(network.embed_tokens(torch.where(masked, self.mask, examples.tokens)))
            log_p = token_log_p(logits, examples.tokens)
            total -= (log_p * masked.to(at)).sum(-1) / t_B.to(at) / TIMES
        return Likelihood(total, target.sum(-1), exact=False)

    def hidden(self, network: Backbone, h_BLD: Tensor, key_B: Tensor) -> Tensor:
        """The trunk state of an evaluation; `key_B` is for methods whose network reads random numbers."""
        return network.hidden(h_BLD)[0]

    def sample(self, network: Backbone, given: Given, options: Options, seed: int, watch: Watch) -> Trace:
        """k steps on t = 1, 1 - 1/k, ..., 0. A masked token is unmasked with probability (alpha_s - alpha_t) / (1 -
        alpha_t), higher with remasking, and 1 in the last step, so k evaluations suffice. Samples without masks are not
        evaluated.
        """
        k, length, again = options.nfe, given.tokens.shape[1], options.remask != "none"
        tokens_BL, masked_BL = torch.where(given.clean, given.tokens, self.mask), ~given.clean
        score_BL = given.clean.to(widest(given.clean.device))
        read = watch.counted(lambda h, key: self.hidden(network, h, key))
        choice_BR, unmask_BR, remask_BR = (given.keys(seed, stream, k) for stream in (CHOICE, UNMASK, REMASK))
        for r in range(1, k + 1):
            if not (again or masked_BL.any()):
                break
            t, s, unmasked_BL = 1 - (r - 1) / k, 1 - r / k, ~masked_BL & ~given.clean
            sigma_BL = options.sigma(t, s, score_BL, unmasked_BL)
            if again:
                again_BL = unmasked_BL & (rng.uniform(remask_BR[:, r - 1], length) < sigma_BL)
            rows = masked_BL.any(-1).nonzero().squeeze(-1)
            proposed_BL, shown_BL = tokens_BL.clone(), score_BL.clone()
            if len(rows):
                tokens, masked, key = tokens_BL[rows], masked_BL[rows], choice_BR[rows, r - 1]
                trunk = read(network.embed_tokens(tokens), key, rows=rows)
                greedy = options.tail == "argmax" and r == k
                step = replace(options, temperature=0.0) if greedy else options
                drawn, score, best = self._draw(network, trunk, masked, rng.uniform(key, length), step)
                if options.order == "random":
                    p = unmask_probability(options.alpha(t), options.alpha(s), sigma_BL[rows])
                    now = masked & (rng.uniform(unmask_BR[rows, r - 1], length) < p)
                else:
                    by = best if options.order == "confidence" else score
                    now = top(by, masked, floor_count(masked.sum(-1), r, k))
                proposed_BL[rows] = torch.where(masked, drawn, tokens)
                shown_BL[rows] = torch.where(masked, score, score_BL[rows])
                masked_BL[rows], tokens_BL[rows] = masked & ~now, torch.where(now, drawn, tokens)
                score_BL[rows] = torch.where(now, score, score_BL[rows])
            if again:
                masked_BL, tokens_BL = masked_BL | again_BL, tokens_BL.masked_fill(again_BL, self.mask)
            if watch.tracing:
                watch.round(proposed_BL, ~masked_BL, shown_BL.float(), time=s)
        return watch.trace(tokens_BL, given.clean)

    def _draw(
        self, network: Backbone, trunk: Tensor, masked: Tensor, uniform_BL: Tensor, options: Options
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens drawn at the masked positions, their probabilities and the highest ones, (B, L), computed for some
        positions at a time.
        """
        drawn = torch.zeros(masked.shape, dtype=torch.int64, device=masked.device)
        dtype = widest(masked.device)
        score, best = (torch.ones(masked.shape, dtype=dtype, device=masked.device) for _ in range(2))
        at_once = max(1, 2**28 // (8 * self.shape.vocab))
        for at in masked.flatten().nonzero().squeeze(-1).split(at_once):
            logits, _ = network.head(trunk.flatten(0, 1)[at])
            token = draw_categorical(logits, uniform_BL.flatten()[at], options.temperature, options.top_p)
            p = wide(logits).softmax(-1)
            drawn.view(-1)[at] = token
            score.view(-1)[at] = p.gather(-1, token[:, None].to(p.device)).squeeze(-1).to(score)
            best.view(-1)[at] = p.amax(-1).to(best)
        return drawn, score, best
