"""Our one-hot analogue of FMLM*: a denoiser that reads its own last prediction, and a map distilled from it.

FMLM* itself works on latents of a language model, which has no counterpart here. This version keeps self-conditioning,
trained on half of the rows; a teacher iterated to (near) its fixed point under self-conditioning; and a student without
self-conditioning, which learns the flow map of the iterated teacher like FMLM.

    flm-self    FLM whose network also reads D of an earlier pass at the same state, D R, R starting at zero
    fmlm-star   FMLM with the teacher  D_0 = D(x), D_{i+1} = D(x, D_i)
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dbtm.core.limits import MOST_ROUNDS
from dbtm.losses.soft_head import Target
from dbtm.methods import register_method
from dbtm.methods.base import Examples
from dbtm.methods.flow import flm, fmlm
from dbtm.methods.flow.pairs import Pairs
from dbtm.methods.flow.readout import Readout
from dbtm.methods.times import places
from dbtm.nn import Backbone
from dbtm.simplex import State


@register_method
class SelfConditionedFLM(flm.FLM):
    """FLM with self-conditioning. In training, every second row reads the prediction of a pass without it; in sampling,
    the network reads the previous step's prediction.
    """

    name = "flm-self"

    def build(self) -> Backbone:
        return Backbone(self.shape, replace(self.config.model, self_condition=True), times=1)

    def conditioned(self, h: Tensor, tau_B: Tensor, examples: Examples) -> Tensor:
        odd = places(examples) % 2 == 1
        some = slice(1, None, 2) if len(odd) % 2 == 0 else odd.nonzero().squeeze(-1)
        with torch.no_grad():
            first, _ = self.network.hidden(h.detach()[some], times=(tau_B[some],))
        slot = torch.zeros_like(h)
        slot[some] = Readout(self.network, self.settings.logit_cap).recalled(first).to(h.dtype)
        return h + slot


@dataclass(frozen=True)
class Config(fmlm.Config):
    """Settings of the teacher's iteration."""

    name = "fmlm-star"

    iterations: int = 3
    """Passes in which the teacher reads its own prediction, after one pass without."""

    def __post_init__(self):
        super().__post_init__()
        self.in_range(1, MOST_ROUNDS, "iterations")


@register_method
class FMLMStar(fmlm.FMLM):
    """FMLM with a teacher at the fixed point of its own predictions."""

    name = "fmlm-star"
    teacher = "flm-self"
    Config = Config
    left_behind = frozenset({"recall"})

    def build_teacher(self) -> Backbone:
        return Backbone(self.shape, replace(self.config.model, self_condition=True), times=1)

    @torch.no_grad()
    def taught(self, state: State, pairs: Pairs) -> Target:
        """The iterated teacher's distributions on the rows with s = t."""
        teacher = self.frozen["teacher"]
        readout, times = Readout(teacher, self.settings.logit_cap), (pairs.s[pairs.same],)
        h, _ = teacher.embed(state.rows(pairs.same))
        trunk, _ = teacher.hidden(h, times=times)
        for _ in range(self.settings.iterations):  # type: ignore[attr-defined]
            trunk, _ = teacher.hidden(h + readout.recalled(trunk).to(h.dtype), times=times)
        flat = trunk.flatten(0, 1)
        return lambda index: readout.probabilities(flat[index])
