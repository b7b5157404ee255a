"""The interpolant I_t (eq:interpolant), its velocity, and the partial-context family (sec:self-refinement)."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from dbtm.simplex.noise import Noise
from dbtm.simplex.schedule import alpha, alpha_rate


def one_hot(tokens_BL: Tensor, vocab: int, dtype: torch.dtype) -> Tensor:
    """Tokens as vertices of the simplex (eq:data-manifold)."""
    return F.one_hot(tokens_BL, vocab).to(dtype)


@dataclass(frozen=True)
class State:
    """A point x = alpha x0 + (1 - alpha) e_tokens stored in parts; alpha is 0 exactly on the clean positions.

    All states in commit mode have this form: the interpolant with its clean context, the boundary (alpha = 0
    everywhere) and the rollout states (alpha 0 on committed positions, 1 elsewhere). The velocity is
    dx/dt = rate (x0 - e_tokens) with rate = d alpha / dt, 0 on clean positions.
    """

    tokens: Tensor  # (B, L) int64: x1, the token of a position, or the one it moves to
    alpha: Tensor  # (B, L) float: share of noise
    noise: Tensor | Noise  # (B, L, V) float: x0, or its keys
    rate: Tensor | None = None  # (B, L) float: d alpha / dt, needed for a velocity

    @property
    def clean(self) -> Tensor:
        """(B, L) bool: positions that are exactly their token."""
        return self.alpha == 0

    def x0(self) -> Tensor:
        """The noise as a (B, L, V) tensor."""
        return self.noise.dense() if isinstance(self.noise, Noise) else self.noise

    def dense(self) -> Tensor:
        """I_t as a (B, L, V) tensor, eq:interpolant: the reference path."""
        x0_BLV = self.x0()
        x1_BLV = one_hot(self.tokens, x0_BLV.shape[-1], x0_BLV.dtype)
        return torch.where(self.clean[..., None], x1_BLV, torch.lerp(x1_BLV, x0_BLV, self.alpha[..., None]))

    def velocity(self) -> Tensor:
        """dI_t/dt = alpha'_t (x0 - x1) as a (B, L, V) tensor; 0 on clean positions."""
        if self.rate is None:
            raise ValueError("this state was built without a rate: it has no velocity")
        x0_BLV = self.x0()
        return self.rate[..., None] * (x0_BLV - one_hot(self.tokens, x0_BLV.shape[-1], x0_BLV.dtype))

    def at_noise(self, clean_BL: Tensor, tokens_BL: Tensor | None = None) -> "State":
        """The rollout state of eq:commit-rule: tokens where clean, x0 elsewhere."""
        return replace(
            self,
            tokens=self.tokens if tokens_BL is None else tokens_BL,
            alpha=(~clean_BL).to(self.alpha.dtype),
            rate=None,
        )

    def at_data(self) -> "State":
        """The data itself, x1, with velocity 0: the boundary."""
        nothing = torch.zeros_like(self.alpha)
        return replace(self, alpha=nothing, rate=None if self.rate is None else nothing)

    def joined(self, other: "State") -> "State":
        """Both states as one batch."""
        noise: Tensor | Noise
        if isinstance(self.noise, Noise) and isinstance(other.noise, Noise):
            noise = replace(self.noise, key=torch.cat((self.noise.key, other.noise.key)))
        else:
            noise = torch.cat((self.x0(), other.x0()))
        rate = None if self.rate is None or other.rate is None else torch.cat((self.rate, other.rate))
        return State(torch.cat((self.tokens, other.tokens)), torch.cat((self.alpha, other.alpha)), noise, rate)

    def rows(self, index: Tensor | slice) -> "State":
        """The state of some of the samples."""
        rate = None if self.rate is None else self.rate[index]
        return State(self.tokens[index], self.alpha[index], self.noise[index], rate)


def partial_context(t_B: Tensor, fraction_B: Tensor, uniform_BL: Tensor, prompt_BL: Tensor) -> tuple[Tensor, Tensor]:
    """Draw the clean context C: Bernoulli(f) per position, prompts always clean; per-position times t_l.

    Returns (clean_BL, t_BL) with t_l = 1 on clean positions and the sample's t elsewhere (alg:btm-train-context).
    """
    clean_BL = prompt_BL | (uniform_BL < fraction_B[:, None])
    t_BL = torch.where(clean_BL, torch.ones_like(t_B)[:, None], t_B[:, None])
    return clean_BL, t_BL


def interpolate(tokens_BL: Tensor, noise: Tensor | Noise, clean_BL: Tensor, t_BL: Tensor, a: float = 1.0) -> State:
    """The partial-context interpolant I_t(C) with its velocity, in parts; t is ignored on clean positions."""
    zero = torch.zeros((), dtype=t_BL.dtype, device=t_BL.device)
    return State(
        tokens=tokens_BL,
        alpha=torch.where(clean_BL, zero, alpha(t_BL, a)),
        noise=noise,
        rate=torch.where(clean_BL, zero, alpha_rate(t_BL, a)),
    )
