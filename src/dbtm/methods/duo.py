"""Duo: diffusion to uniform tokens, with a curriculum from the underlying Gaussian diffusion.

A token is kept at time t with probability alpha_t = 1 - (1 - eps) t and is uniform over the vocabulary otherwise. The
network reads -log alpha_t and the tokens, but not which of them are noise. It predicts every position. At its optimum
D_l is the distribution of x_l given the noisy tokens at the *other* positions, and the sampler adds the evidence of z_l
by Bayes' rule. During the curriculum the network reads softmax(x~ / tau) W of a Gaussian state x~ whose argmax is the
noisy token.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from dbtm import losses
from dbtm.config import MethodConfig, SampleConfig
from dbtm.core import rng
from dbtm.core.device import wide, wide_device, widest
from dbtm.core.errors import UsageError
from dbtm.losses.rows import chunked_rows
from dbtm.losses.uniform import uniform_bound
from dbtm.methods import register_method
from dbtm.methods.base import Examples, Likelihood, Method, Part
from dbtm.methods.times import stratified
from dbtm.nn import Backbone
from dbtm.sampling import Given, Trace, Watch
from dbtm.sampling.decode import invert, tempered
from dbtm.simplex import gaussian
from dbtm.simplex.categorical import renoised, uniform_posterior

TIME, NOISE, TOKEN, GAUSS = 21, 22, 23, 24  # streams of random numbers of training
START, CHOICE = 221, 222  # and of the sampler
TIMES = 16  # times per example for the bound
CLEAN, NOISY = 0.945, 0.05  # share of clean tokens at both ends of the curriculum


def check_noise(eps: float, gamma_min: float | None, gamma_max: float | None) -> None:
    """Refuse impossible noise levels."""
    if not 0 < eps < 1:
        raise UsageError(f"method.eps={eps} must be above 0 and below 1")
    for name, value in (("gamma_min", gamma_min), ("gamma_max", gamma_max)):
        if value is not None and not -8 <= value <= 8:
            raise UsageError(f"method.{name}={value} must be between -8 and 8")
    if gamma_min is not None and gamma_max is not None and gamma_min >= gamma_max:
        raise UsageError(f"method.gamma_min={gamma_min} must be below method.gamma_max={gamma_max}")


@dataclass(frozen=True)
class Config(MethodConfig):
    """Settings of noise and curriculum."""

    name: ClassVar[str] = "duo"

    eps: float = 1e-3
    """Share of tokens kept at t = 1, and the smallest time drawn."""
    curriculum: int = 0
    """Number of first steps in which the network reads softened one-hots; the published runs use half of the run for
    text, none for Sudoku and TinyGSM."""
    tau: float = 1e-3
    """Temperature of the softened one-hots."""
    top_k: int = 8
    """Tokens besides the clean one in a softened one-hot, those of the largest noise."""
    gamma_min: float | None = None
    """Log noise-to-signal ratio at t = 0 of the curriculum; null: the value at which 94.5 % of tokens are clean."""
    gamma_max: float | None = None
    """The same at t = 1; null: the value at which 5 % of tokens are clean."""

    def __post_init__(self):
        check_noise(self.eps, self.gamma_min, self.gamma_max)
        self.not_negative("curriculum")
        self.positive("tau", "top_k")


@dataclass(frozen=True)
class Options(SampleConfig):
    """Ancestral steps from uniform tokens."""

    nfe: int = 16
    """Network evaluations: steps from t = 1 to t = 0."""
    temperature: float = 1.0
    """Temperature of the predicted tokens; 0 takes the most likely one."""
    top_p: float = 1.0
    """Predict only the most likely tokens that together reach this probability; 1 is off."""
    tail: Literal["sample", "argmax"] = "sample"
    """The last step draws from the posterior without noise, or takes the most likely prediction."""
    psi: float = 1.0
    """Share of the posterior in a step; the rest draws a clean token and noises it again (psi-sampler)."""

    def __post_init__(self):
        self.positive("nfe")
        self.not_negative("temperature")
        self.in_range(0, 1, "psi")
        self.up_to_one("top_p")


@register_method
class Duo(Method[Config, Options]):
    """The bound of uniform-token diffusion."""

    name = "duo"

    @cached_property
    def gammas(self) -> tuple[float, float]:
        """The curriculum's noise levels at t = 0 and t = 1."""
        low, high, V = self.settings.gamma_min, self.settings.gamma_max, self.shape.vocab
        return (
            gaussian.gamma_at(CLEAN, V) if low is None else low,
            gaussian.gamma_at(NOISY, V) if high is None else high,
        )

    def build(self) -> Backbone:
        return Backbone(self.shape, self.config.model, times=1)

    # -- training --------------------------------------------------------------------------------------------------

    def phase(self, step: int) -> tuple[int, ...]:
        """Whether the curriculum is active."""
        return (int(step < self.settings.curriculum),)

    def times(self, examples: Examples) -> Tensor:
        """t_B on [eps, 1]."""
        return stratified(examples, TIME, self.config.train.batch, low=self.settings.eps)

    def noised(self, examples: Examples, noise_B: Tensor) -> Tensor:
        """z: tokens that are not given become uniform with probability 1 - alpha = noise."""
        keys = [examples.key(stream) for stream in (NOISE, TOKEN)]
        return uniform_noise(examples.tokens, ~examples.prompt, noise_B, keys[0], keys[1], self.shape.vocab)

    def parts(self, examples: Examples) -> Iterator[Part]:
        """The bound, averaged over the tokens that are not given."""
        t_B = self.times(examples)
        if self.phase(examples.step)[0]:
            z_BL, h_BLD, noise_B, rate_B = self.gaussian_state(examples, t_B)
        else:
            noise_B = (1 - self.settings.eps) * t_B
            rate_B = torch.full_like(noise_B, -(1 - self.settings.eps))
            z_BL = self.noised(examples, noise_B)
            h_BLD = self.network.embed_tokens(z_BL)
        target, count = ~examples.prompt, examples.count()
        rows = self.rows(target)
        trunk, _ = self.network.hidden(h_BLD, times=(-torch.log1p(-noise_B),))
        loss, per_token = self.bound(trunk, examples.tokens, z_BL, noise_B, rate_B, target / count, rows)
        yield Part(loss, {"bound": losses.total(per_token * target, count)})

    def bound(
        self,
        trunk_BLD: Tensor,
        x_BL: Tensor,
        z_BL: Tensor,
        noise_B: Tensor,
        rate_B: Tensor,
        beta_BL: Tensor,
        rows: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """sum_l beta_l l_l and l, (B, L), without dense logits; in float64 for small vocabularies."""
        x, z, length = x_BL.flatten(), z_BL.flatten(), x_BL.shape[1]

        def row_loss(logits: Tensor, index: Tensor) -> Tensor:
            b, at = index // length, logits.device
            logits = wide(logits) if self.shape.small_vocab else logits
            return uniform_bound(logits, x[index], z[index], noise_B[b], rate_B[b]).to(at, widest(at))

        loss, per_token = chunked_rows(trunk_BLD.flatten(0, 1), self.network.head, row_loss, beta_BL.flatten(), rows)
        return loss, per_token.view_as(x_BL)

    def gaussian_state(self, examples: Examples, t_B: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The curriculum: noisy tokens, the network's input, and their 1 - alpha and alpha'."""
        low, high = self.gammas
        gamma_B, V = low + t_B * (high - low), self.shape.vocab
        alpha_B, slope_B = gaussian.clean_share(gamma_B, V)
        own, values, others = gaussian.largest_noises(examples.key(GAUSS), examples.tokens, V, self.settings.top_k)
        z_BL = gaussian.argmax_token(examples.tokens, gamma_B, own, values[..., 0], others[..., 0])
        z_BL = torch.where(examples.prompt, examples.tokens, z_BL)
        weight_BLk = gaussian.soft_token(gamma_B, own, values, self.settings.tau)
        ids_BLk = torch.cat((examples.tokens[..., None], others), -1)
        clean, soft = self.network.embed_tokens(examples.tokens), self.embed_soft(ids_BLk, weight_BLk)
        h_BLD = torch.where(examples.prompt[..., None], clean, soft.to(clean.dtype))
        return z_BL, h_BLD, 1 - alpha_B, slope_B * (high - low)

    def embed_soft(self, ids_BLk: Tensor, weight_BLk: Tensor) -> Tensor:
        """sum_k weight_k W[id_k], (B, L, D), without storing the rows W[id_k]; a dense product for few tokens."""
        table = self.network.embedding
        weight_BLk = weight_BLk.to(table.dtype)
        if self.shape.small_vocab:
            dense_BLV = weight_BLk.new_zeros(*ids_BLk.shape[:2], len(table)).scatter_add_(-1, ids_BLk, weight_BLk)
            return dense_BLV @ table
        weights = weight_BLk.flatten(0, 1)
        rows = F.embedding_bag(ids_BLk.flatten(0, 1), table, mode="sum", per_sample_weights=weights)
        return rows.unflatten(0, ids_BLk.shape[:2])

    # -- likelihood and sampling -----------------------------------------------------------------------------------

    @torch.no_grad()
    def nll(self, network: Backbone, examples: Examples) -> Likelihood:
        """The negative evidence lower bound with alpha = 1 - t, at stratified times of every example. At t = 1 tokens
        are uniform and at t = 0 they are clean, so there are no further terms at the ends.
        """
        target = ~examples.prompt
        total = torch.zeros(len(target), dtype=torch.float64, device=wide_device(target.device))
        x, length = examples.tokens, target.shape[1]
        for i in range(TIMES):
            t_B = (rng.uniform(rng.fold(examples.sample_key, TIME, i), 1)[:, 0] + i) / TIMES
            keys = [rng.fold(examples.sample_key, stream, i) for stream in (NOISE, TOKEN)]
            z = uniform_noise(x, target, t_B, keys[0], keys[1], self.shape.vocab)
            told = t_B.clamp(max=1 - self.settings.eps)  # the largest noise in training
            trunk, _ = network.hidden(network.embed_tokens(z), times=(-torch.log1p(-told),))
            for at in target.flatten().nonzero().squeeze(-1).split(self.at_once):
                logits, b = network.head(trunk.flatten(0, 1)[at])[0], at // length
                l = uniform_bound(wide(logits), x.flatten()[at], z.flatten()[at], t_B[b], -torch.ones_like(t_B[b]))
                total.index_add_(0, b.to(l.device), l / TIMES)
        return Likelihood(total, target.sum(-1), exact=False)

    @property
    def at_once(self) -> int:
        """Number of positions whose float64 probabilities may exist at once."""
        return max(1, 2**28 // (8 * self.shape.vocab))

    def hidden(self, network: Backbone, h_BLD: Tensor, time_B: Tensor, key_B: Tensor) -> Tensor:
        """The trunk state of an evaluation; `key_B` is for methods whose network reads random numbers."""
        return network.hidden(h_BLD, times=(time_B,))[0]

    def sample(self, network: Backbone, given: Given, options: Options, seed: int, watch: Watch) -> Trace:
        """k steps on t = 1, 1 - 1/k, ..., 0 from uniform tokens, each a draw from the posterior given D. The last one
        goes to alpha = 1, so k evaluations suffice. Samples whose tokens are all given are not evaluated.
        """
        k, eps, L = options.nfe, self.settings.eps, given.tokens.shape[1]
        start_BL = (rng.uniform(rng.fold(seed, START, given.index), L) * self.shape.vocab).long()
        z_BL = torch.where(given.clean, given.tokens, start_BL)
        read = watch.counted(lambda h, t, key: self.hidden(network, h, t, key))
        choice_BR = given.keys(seed, CHOICE, k)
        rows = (~given.clean).any(-1).nonzero().squeeze(-1)
        free = ~given.clean[rows]
        score_BL = given.clean.to(widest(given.clean.device))
        for r in range(1, k + 1):
            if not len(rows):
                break
            alpha_t, alpha_s = (1 - (1 - eps) * (k - i) / k for i in (r - 1, r))
            key, z = choice_BR[rows, r - 1], z_BL[rows]
            time_B = torch.full((len(rows),), alpha_t, dtype=widest(z.device), device=z.device).log().neg()
            trunk = read(network.embed_tokens(z), time_B, key, rows=rows)
            greedy = r == k and options.tail == "argmax"
            z, score = self._step(network, trunk, z, free, rng.uniform(key, L), alpha_t, alpha_s, options, greedy)
            z_BL[rows], score_BL[rows] = z, score
            if watch.tracing:
                watch.round(
                    z_BL, given.clean if r < k else torch.ones_like(given.clean), score_BL.float(), time=1 - r / k
                )
        return watch.trace(z_BL, given.clean)

    def _step(
        self,
        network: Backbone,
        trunk: Tensor,
        z_BL: Tensor,
        free_BL: Tensor,
        uniform_BL: Tensor,
        alpha_t: float,
        alpha_s: float,
        options: Options,
        greedy: bool,
    ) -> tuple[Tensor, Tensor]:
        """Tokens of the next state, and their probabilities in D, (B, L), computed for some positions at a time."""
        z_BL, score_BL = z_BL.clone(), torch.ones(z_BL.shape, dtype=widest(z_BL.device), device=z_BL.device)
        for at in free_BL.flatten().nonzero().squeeze(-1).split(self.at_once):
            logits, _ = network.head(trunk.flatten(0, 1)[at])
            if greedy:
                D = wide(logits).softmax(-1)
                token = logits.argmax(-1).to(D.device)
            else:
                D = tempered(logits, options.temperature, options.top_p)
                D = D / D.sum(-1, keepdim=True)
                q = uniform_posterior(D, z_BL.view(-1)[at].to(D.device), alpha_t, alpha_s)
                if options.psi < 1:
                    q = options.psi * q + (1 - options.psi) * renoised(D, alpha_s)
                token = invert(q, uniform_BL.flatten()[at])
            z_BL.view(-1)[at] = token.to(z_BL.device)
            score_BL.view(-1)[at] = D.gather(-1, token[:, None]).squeeze(-1).to(score_BL)
        return z_BL, score_BL


def uniform_noise(
    tokens_BL: Tensor, free_BL: Tensor, noise_B: Tensor, flip_key_B: Tensor, token_key_B: Tensor, vocab: int
) -> Tensor:
    """Replace free tokens with probability `noise` by one drawn uniformly from the whole vocabulary."""
    length = tokens_BL.shape[1]
    flipped = free_BL & (rng.uniform(flip_key_B, length) < noise_B[:, None])
    return torch.where(flipped, (rng.uniform(token_key_B, length) * vocab).long(), tokens_BL)
