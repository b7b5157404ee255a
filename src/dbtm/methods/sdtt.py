"""MDLM+SDTT: a masked-diffusion model that learns to combine two of its teacher's steps into one, in rounds.

From z_t the teacher makes two ancestral steps of size Delta. The target of a masked position is the teacher's
distribution at the step that unmasked it, or at the second step if it stayed masked. The student at z_t learns it by
KL(student || target). After every round the student becomes the teacher, and Delta doubles.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dbtm import losses
from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.losses.distill import student_first
from dbtm.methods import mdlm, register_method
from dbtm.methods.base import Examples, Part
from dbtm.methods.rounds import InRounds, RoundsConfig
from dbtm.methods.times import places

TIME, UNMASK, CHOICE = 41, 42, 43  # streams of random numbers
FIRST_TIME = 1e-5


@dataclass(frozen=True)
class SDTTConfig(RoundsConfig):
    """Settings of noise and rounds of distillation."""

    name: ClassVar[str] = "mdlm-sdtt"

    rounds: int = 7
    """Rounds of distillation; after each, the student becomes the teacher and steps become twice as long."""
    grid: int = 1_024
    """The teacher's steps in the first round, from t = 1 to t = 0."""
    eps: float = 1e-3
    """Share of tokens that are not masked at t = 1."""
    released_times: bool = False
    """Use the teacher's times of the released code: with e = t - 2 Delta, t + (1 - t) e and (1 - t) e instead of t and
    t - Delta."""

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.eps < 1:
            raise UsageError(f"method.eps={self.eps} must be above 0 and below 1")


@register_method
class SDTT(InRounds, mdlm.MDLM):
    """Self-distillation through time."""

    name = "mdlm-sdtt"
    Config = SDTTConfig
    teacher = "mdlm"
    settings: SDTTConfig

    def delta(self, step: int) -> float:
        """The teacher's step size."""
        return (1 - FIRST_TIME) / self.settings.grid * 2 ** self.rounds.number(step)

    def times(self, examples: Examples) -> Tensor:
        """t_B on [1e-5, 1]: one offset for the whole batch, (u + i) / B."""
        u = rng.uniform(rng.fold(examples.step_keys()[:1], TIME), 1)[0, 0]
        n = self.config.train.batch
        return FIRST_TIME + (1 - FIRST_TIME) * (u + places(examples) % n) / n

    def first_unmasking(self, t_B: Tensor, delta: float) -> Tensor:
        """The probability that the teacher's first step unmasks a token."""
        at = t_B
        if self.settings.released_times:
            at = t_B + (1 - t_B) * (t_B - 2 * delta)
        return (delta / at.clamp(min=FIRST_TIME)).clamp(max=1.0)

    @torch.no_grad()
    def target(self, z_BL: Tensor, masked_BL: Tensor, t_B: Tensor, delta: float, examples: Examples) -> Tensor:
        """The teacher's trunk states, (B, L, D), from which its head computes the targets: those of its first
        evaluation at positions unmasked by the first step, those of the second elsewhere.
        """
        teacher, length = self.frozen["teacher"], z_BL.shape[1]
        first = self.hidden(teacher, teacher.embed_tokens(z_BL), examples.sample_key)
        u_BL = rng.uniform(examples.key(UNMASK), length)
        now = masked_BL & (u_BL < self.first_unmasking(t_B, delta)[:, None])
        uniform_BL = rng.uniform(examples.key(CHOICE), length)
        drawn, _, _ = self._draw(teacher, first, now, uniform_BL, mdlm.Options())
        second = self.hidden(teacher, teacher.embed_tokens(torch.where(now, drawn, z_BL)), examples.sample_key)
        return torch.where(now[..., None], first, second)

    def parts(self, examples: Examples) -> Iterator[Part]:
        """Mean KL over masked tokens. It is divided by their expected number, half of the tokens that are not given, so
        that it does not depend on the split of a batch.
        """
        t_B = self.times(examples)
        masked, network = self.masked(examples, t_B), self.network
        z_BL = torch.where(masked, self.mask, examples.tokens)
        rows = self.rows(masked)
        towards = self.target(z_BL, masked, t_B, self.delta(examples.step), examples).flatten(0, 1)
        trunk, _ = network.hidden(network.embed_tokens(z_BL))
        count = examples.count() / 2
        beta, head = (masked / count).flatten(), self.frozen["teacher"].head
        loss, per_token = student_first(trunk.flatten(0, 1), network.head, towards, head, beta, rows)
        yield Part(loss, {"kl": losses.total(per_token.view_as(masked) * masked, count)})
