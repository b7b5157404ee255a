"""CANDI: masked and Gaussian diffusion combined. Some tokens are revealed; the others are one-hots with Gaussian noise.

A token is revealed at time t with probability alpha_t = 1 - (1 - eps) t; else it is x = e_x + sigma(t) eps. The rows of
W have norm 1. The network reads W[x] for a revealed token, half of a learned mask vector plus half of
x W / sqrt(1 + sigma^2) otherwise, and -log alpha_t. sigma follows from the probability r that noise makes a given other
token likelier than the right one; r rises with t from r_min to r_max. The loss is MDLM's, on tokens not revealed.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from dbtm import losses
from dbtm.config import MethodConfig, SampleConfig
from dbtm.core import rng
from dbtm.core.device import wide, widest
from dbtm.core.errors import UsageError
from dbtm.kernels import noise as prior
from dbtm.losses.head import cross_entropy
from dbtm.methods import register_method
from dbtm.methods.base import Examples, Method, Part
from dbtm.methods.times import stratified
from dbtm.nn import Backbone
from dbtm.sampling import Given, Trace, Watch
from dbtm.sampling.decode import invert, tempered
from dbtm.simplex.interpolant import one_hot
from dbtm.simplex.noise import Noise
from dbtm.simplex.sphere import unit

TIME, REVEAL, NOISE = 61, 62, 63  # streams of random numbers of training
START, CHOICE, SHOW = 261, 262, 263  # and of the sampler
LEAST_SIGMA, MOST_SIGMA = 0.2, 4.0
FIRST_TIME, LAST_TIME = 0.999, 1e-5  # of the sampler


@dataclass(frozen=True)
class Config(MethodConfig):
    """Settings of both kinds of noise."""

    name: ClassVar[str] = "candi"

    eps: float = 1e-3
    """Share of tokens revealed at t = 1, and the smallest time drawn."""
    r_min: float = 0.01
    """Share of misread tokens at t = 0, which gives the smallest sigma."""
    r_max: float = 0.25
    """The same at t = 1, the largest sigma."""

    def __post_init__(self):
        if not 0 < self.eps < 1:
            raise UsageError(f"method.eps={self.eps} must be above 0 and below 1")
        if not 0 < self.r_min <= self.r_max < 0.5:
            raise UsageError(
                f"method.r_min={self.r_min} and method.r_max={self.r_max} must be above 0 and below .5, in this order"
            )


@dataclass(frozen=True)
class Options(SampleConfig):
    """Steps that reduce the Gaussian noise and reveal tokens."""

    nfe: int = 16
    """Network evaluations; the last one gives all remaining tokens."""
    temperature: float = 1.0
    """0 takes the most likely token."""
    top_p: float = 1.0
    """Draw from the most likely tokens that together reach this probability; 1 is off."""
    step: Literal["released", "ode"] = "released"
    """Step of the noise: as in the released code, which divides by the square of the next sigma and gives the network
    that sigma, or by the probability-flow equation."""
    towards: Literal["sample", "mean"] = "sample"
    """A step moves towards the embedding of a drawn token, or towards the mean over the vocabulary."""

    def __post_init__(self):
        self.positive("nfe")
        self.not_negative("temperature")
        self.up_to_one("top_p")


def sigma_of(error: Tensor, vocab: int) -> Tensor:
    """sigma for the error probability r = `error`, from r = ((V - 1) / V) Phi(-1 / (sigma sqrt 2))."""
    z = torch.special.ndtri((error * vocab / (vocab - 1)).clamp(max=0.5 - 1e-6))
    return (-1 / (math.sqrt(2) * z)).clamp(LEAST_SIGMA, MOST_SIGMA)


@register_method
class CANDI(Method[Config, Options]):
    """Cross-entropy of the tokens that are not revealed."""

    name = "candi"

    def build(self) -> Backbone:
        return Backbone(self.shape, self.config.model, extra_ids=1, times=1)

    def sigma(self, noise: Tensor) -> Tensor:
        """sigma at the share `noise` = 1 - alpha of tokens that are not revealed."""
        low, high = self.settings.r_min, self.settings.r_max
        sigma = sigma_of(low + wide(noise) * (high - low), self.shape.vocab)
        return sigma.to(noise.device, widest(noise.device))

    # -- training --------------------------------------------------------------------------------------------------

    def times(self, examples: Examples) -> Tensor:
        """t_B on [eps, 1]."""
        return stratified(examples, TIME, self.config.train.batch, low=self.settings.eps)

    def hidden_tokens(self, examples: Examples, noise_B: Tensor) -> Tensor:
        """Mask of the tokens that are not revealed, (B, L) bool; given tokens are always revealed."""
        u_BL = rng.uniform(examples.key(REVEAL), examples.tokens.shape[1])
        return ~examples.prompt & (u_BL < noise_B[:, None])

    def embed(
        self, network: Backbone, tokens_BL: Tensor, corrupted_BL: Tensor, e_BLD: Tensor, sigma_B: Tensor
    ) -> Tensor:
        """The network's input: W[x] of revealed tokens, mask and noisy embedding e of the others."""
        table = unit(network.embedding)
        if self.shape.small_vocab:
            shown = one_hot(tokens_BL, len(table), table.dtype) @ table
        else:
            shown = unit(torch.nn.functional.embedding(tokens_BL, network.embedding))
        scale_B = torch.rsqrt(1 + sigma_B**2).to(table.dtype)
        noisy = 0.5 * table[self.shape.vocab] + 0.5 * scale_B[:, None, None] * e_BLD
        return torch.where(corrupted_BL[..., None], noisy, shown).to(network.dtype)

    def parts(self, examples: Examples) -> Iterator[Part]:
        """Cross-entropy / t of the tokens that are not revealed, divided by the number of tokens not given."""
        network, tokens, t_B = self.network, examples.tokens, self.times(examples)
        noise_B = (1 - self.settings.eps) * t_B
        sigma_B = self.sigma(noise_B)
        corrupted = self.hidden_tokens(examples, noise_B)
        rows = self.rows(corrupted)
        e_BLD = self.noisy(network, tokens, examples.key(NOISE), sigma_B)
        h_BLD = self.embed(network, tokens, corrupted, e_BLD, sigma_B)
        trunk, _ = network.hidden(h_BLD, times=(-torch.log1p(-noise_B),))
        weight = (corrupted / t_B[:, None]).to(torch.promote_types(trunk.dtype, torch.float32))
        count = examples.count()
        loss, per_token = cross_entropy(trunk, network.head, tokens, weight / count, rows)
        yield Part(loss, {"cross_entropy": losses.total(per_token * weight, count)})

    def noisy(self, network: Backbone, tokens_BL: Tensor, key_B: Tensor, sigma_B: Tensor) -> Tensor:
        """(e_x + sigma eps) W, (B, L, D), without the one-hots."""
        W = unit(network.token_embedding)
        if self.shape.small_vocab:
            clean = one_hot(tokens_BL, len(W), W.dtype) @ W
        else:
            clean = unit(torch.nn.functional.embedding(tokens_BL, network.embedding))
        noise = Noise(key_B, tokens_BL.shape[1], self.shape.vocab, dtype=W.dtype)
        return clean + sigma_B[:, None, None].to(W.dtype) * prior.embed(noise, W)

    # -- sampling --------------------------------------------------------------------------------------------------

    def start_noise(self, network: Backbone, given: Given, seed: int, sigma: float) -> Tensor:
        """sigma eps W of pure noise, (B, L, D)."""
        W = unit(network.token_embedding)
        noise = Noise(rng.fold(seed, START, given.index), given.tokens.shape[1], self.shape.vocab, dtype=W.dtype)
        return sigma * prior.embed(noise, W)

    def sample(self, network: Backbone, given: Given, options: Options, seed: int, watch: Watch) -> Trace:
        """k evaluations on times from .999 to 1e-5. Each draws x^ for the hidden tokens, moves e towards its embedding
        and reveals x^ with probability (t - s) / t; the last one reveals all. Samples without hidden tokens are not
        evaluated.
        """
        dtype = widest(given.clean.device)
        k, L, ode = options.nfe, given.tokens.shape[1], options.step == "ode"
        times = FIRST_TIME + (LAST_TIME - FIRST_TIME) * torch.arange(k + 1, dtype=torch.float64) / k
        noises = (1 - self.settings.eps) * times
        sigmas = self.sigma(noises)
        tokens_BL, hidden_BL = given.tokens.clone(), ~given.clean
        e_BLD = self.start_noise(network, given, seed, sigmas[0].item())
        score_BL = given.clean.to(dtype)
        read = watch.counted(lambda h, time: network.hidden(h, times=(time,))[0])
        choice_BR, show_BR = given.keys(seed, CHOICE, k), given.keys(seed, SHOW, k)
        for i in range(k):
            rows = hidden_BL.any(-1).nonzero().squeeze(-1)
            if not len(rows):
                break
            hidden, e, told = hidden_BL[rows], e_BLD[rows], sigmas[i if ode else i + 1]
            h = self.embed(network, tokens_BL[rows], hidden, e, told.to(e.device, dtype).expand(len(rows)))
            time_B = -torch.log1p(-noises[i]).to(e.device, dtype).expand(len(rows))
            trunk = read(h, time_B, rows=rows)
            uniform_BL = rng.uniform(choice_BR[rows, i], L)
            drawn, score, target = self._draw(network, trunk, hidden, uniform_BL, options)
            fall = (sigmas[i] - sigmas[i + 1]) / (sigmas[i] if ode else sigmas[i + 1] ** 2)
            e_BLD[rows] = e - fall.item() * (e - target)
            tokens_BL[rows] = torch.where(hidden, drawn, tokens_BL[rows])
            score_BL[rows] = torch.where(hidden, score, score_BL[rows])
            shown = (rng.uniform(show_BR[rows, i], L) < ((times[i] - times[i + 1]) / times[i]).item()) | (i == k - 1)
            hidden_BL[rows] = hidden & ~shown
            if watch.tracing:
                watch.round(tokens_BL, ~hidden_BL, score_BL.float(), time=times[i + 1].item())
        return watch.trace(tokens_BL, given.clean)

    def _draw(
        self, network: Backbone, trunk: Tensor, hidden: Tensor, uniform_BL: Tensor, options: Options
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Drawn tokens at hidden positions, their probabilities, and the target of e, (B, L, D)."""
        drawn = torch.zeros(hidden.shape, dtype=torch.int64, device=hidden.device)
        score = torch.ones(hidden.shape, dtype=widest(hidden.device), device=hidden.device)
        W = unit(network.token_embedding)
        target = W.new_zeros(*hidden.shape, W.shape[1])
        for at in hidden.flatten().nonzero().squeeze(-1).split(max(1, 2**28 // (8 * self.shape.vocab))):
            logits, _ = network.head(trunk.flatten(0, 1)[at])
            D = tempered(logits, options.temperature, options.top_p)
            D = D / D.sum(-1, keepdim=True)
            token = invert(D, uniform_BL.flatten()[at])
            score.view(-1)[at] = D.gather(-1, token[:, None]).squeeze(-1).to(score)
            drawn.view(-1)[at] = token = token.to(drawn.device)
            target.view(-1, W.shape[1])[at] = W[token] if options.towards == "sample" else D.to(W) @ W
        return drawn, score, target
