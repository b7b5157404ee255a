"""Self-distillation: at every state of a frozen teacher's rollout, the map learns the rollout's final distribution.

The target is a function of the noise only, so it cannot average over different data (app:ril-training). This makes
refinement in the loop work without given tokens, as in text.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from dbtm import losses
from dbtm.losses.head import predictions
from dbtm.losses.soft_head import SoftTarget, chunked_soft_head
from dbtm.methods.base import Part
from dbtm.methods.dbtm.config import DistillConfig
from dbtm.methods.dbtm.network import TransportMap
from dbtm.simplex import State, commit, spread

Visit = Callable[[Tensor], Tensor]  # from a mask (B, L) to the positions that a head visits, numbered through the batch


class TeacherState(NamedTuple):
    """A state of the teacher's rollout: committed or given tokens, held distributions, positions with a loss."""

    state: State
    held: Tensor | None  # (B, L) bool: in non-commit mode, positions that hold their distribution
    p: Tensor | None  # (B, L, V) these distributions
    counted: Tensor  # (B, L) bool

    def embed(self, model: TransportMap, noise_BLD: Tensor) -> Tensor:
        h, _ = model.embed(self.state, noise_BLD)
        if self.held is None or self.p is None:
            return h
        return torch.where(self.held[..., None], model.embed_noise(self.p), h)


def distill_parts(
    model: TransportMap,
    rounds: list[TeacherState],
    end: SoftTarget,
    noise_BLD: Tensor,
    count: Tensor,
    weight: float,
    visit: Visit,
) -> Iterator[Part]:
    """soft-ril: the student at every state of the teacher's rollout, with the teacher's final output as target."""
    for now in rounds:
        rows = visit(now.counted)
        trunk, _ = model.hidden(now.embed(model, noise_BLD))
        beta = now.counted * (weight / count)
        loss, cross_entropy = chunked_soft_head(trunk.flatten(0, 1), model.head, end, beta.flatten(), rows)
        yield Part(loss, {"distill": losses.total(cross_entropy.view_as(now.counted) * now.counted, count)})


@torch.no_grad()
def teacher_rollout(
    teacher: TransportMap, config: DistillConfig, state: State, prompt: Tensor, turn_B: Tensor, visit: Visit
) -> tuple[list[TeacherState], SoftTarget]:
    """The teacher's k rounds from x0, and its final output.

    `turn_B` rotates the order of spread commits by a different number in every row. Otherwise the teacher would always
    commit some positions first, from noise only, and could never teach the student anything there.
    """
    noise_BLD = teacher.embed_noise(state.noise)
    tokens, committed, p = state.tokens, prompt, None
    by_position = spread(tokens.shape[1], tokens.device, turn_B) if config.scorer == "spread" else None
    rounds: list[TeacherState] = []
    for r in range(1, config.depth + 1):
        if config.commit:
            now = TeacherState(state.at_noise(committed, tokens), None, None, ~committed)
        else:
            now = TeacherState(state.at_noise(prompt), committed & ~prompt, p, ~prompt)
        rows = visit(now.counted)
        trunk, _ = teacher.hidden(now.embed(teacher, noise_BLD))
        score, proposed = predictions(trunk, teacher.head, rows)
        after = commit(score if by_position is None else by_position, committed, r, config.depth, config.kappa)
        if config.supervise == "uncommitted":
            rounds.append(now)
        elif r < config.depth:
            rounds.append(now._replace(counted=~after))
        if config.commit:
            tokens = torch.where(after & ~committed, proposed, tokens)
        elif r < config.depth:
            p = teacher.head(trunk)[0].softmax(-1)
        committed = after
    # commit mode: positions committed before the last round keep their token
    kept = ~now.counted if config.commit else torch.zeros_like(prompt)
    return rounds, SoftTarget(trunk.flatten(0, 1), tokens.flatten(), kept.flatten(), teacher.head, config.temperature)
