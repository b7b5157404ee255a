"""Duo+DCD: discrete consistency distillation along the Gaussian paths that underlie Duo.

One Gaussian noise eps per token gives a path of noisy tokens, z_t = argmax(a_t e_x + s_t eps). The student at z_t
learns the teacher's prediction at z_s, s = t - delta, on the same path, by KL(student || teacher). After every round
the student becomes the teacher, and delta doubles.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from dbtm import losses
from dbtm.losses.distill import student_first
from dbtm.methods import duo, register_method
from dbtm.methods.base import Examples, Part
from dbtm.methods.rounds import InRounds, RoundsConfig
from dbtm.methods.times import stratified
from dbtm.simplex import gaussian

TIME, GAUSS = 51, 52  # streams of random numbers
CLEAN, NOISY = 0.9987, 0.0062  # share of clean tokens at both ends of the published range, on OpenWebText


@dataclass(frozen=True)
class DCDConfig(RoundsConfig):
    """Settings of paths and rounds of distillation."""

    name: ClassVar[str] = "duo-dcd"

    rounds: int = 5
    """Rounds of distillation; after each, the student becomes the teacher and steps become twice as long."""
    grid: int = 512
    """Inverse of delta in the first round: steps from t = 1 to t = 0."""
    eps: float = 1e-3
    """Share of tokens kept at t = 1 of the sampler."""
    gamma_min: float | None = None
    """Log noise-to-signal ratio at t = 0; null: the value at which 99.87 % of tokens are clean."""
    gamma_max: float | None = None
    """The same at t = 1; null: the value at which .62 % of tokens are clean."""

    def __post_init__(self):
        super().__post_init__()
        duo.check_noise(self.eps, self.gamma_min, self.gamma_max)


@register_method
class DCD(InRounds, duo.Duo):
    """Consistency between two points of a path."""

    name = "duo-dcd"
    Config = DCDConfig
    teacher = "duo"
    settings: DCDConfig

    @cached_property
    def gammas(self) -> tuple[float, float]:
        """The noise levels at t = 0 and t = 1."""
        low, high, V = self.settings.gamma_min, self.settings.gamma_max, self.shape.vocab
        return (
            gaussian.gamma_at(CLEAN, V) if low is None else low,
            gaussian.gamma_at(NOISY, V) if high is None else high,
        )

    def pair(self, examples: Examples, t_B: Tensor, s_B: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """z_t, z_s (B, L) of one path each, given tokens in both, and -log alpha at t and s, (B,)."""
        low, high = self.gammas
        own, best, other = gaussian.largest_noises(examples.key(GAUSS), examples.tokens, self.shape.vocab, 1)
        tokens, times = [], []
        for at in (t_B, s_B):
            gamma = low + at * (high - low)
            z = gaussian.argmax_token(examples.tokens, gamma, own, best[..., 0], other[..., 0])
            tokens.append(torch.where(examples.prompt, examples.tokens, z))
            alpha = gaussian.clean_share(gamma, self.shape.vocab)[0]
            times.append(-torch.log(alpha.clamp(min=self.settings.eps, max=1.0)))
        return tokens[0], tokens[1], times[0], times[1]

    def parts(self, examples: Examples) -> Iterator[Part]:
        """Mean KL over the tokens that are not given."""
        delta = 2 ** self.rounds.number(examples.step) / self.settings.grid
        t_B = (stratified(examples, TIME, self.config.train.batch) + delta).clamp(max=1.0)
        z_t, z_s, time_t, time_s = self.pair(examples, t_B, t_B - delta)
        target, count, network, teacher = ~examples.prompt, examples.count(), self.network, self.frozen["teacher"]
        rows = self.rows(target)
        with torch.no_grad():
            towards, _ = teacher.hidden(teacher.embed_tokens(z_s), times=(time_s,))
        trunk, _ = network.hidden(network.embed_tokens(z_t), times=(time_t,))
        beta = (target / count).flatten()
        loss, per_token = student_first(
            trunk.flatten(0, 1), network.head, towards.flatten(0, 1), teacher.head, beta, rows
        )
        yield Part(loss, {"kl": losses.total(per_token.view_as(target) * target, count)})
