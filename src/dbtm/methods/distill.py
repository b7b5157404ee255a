"""Self-distillation: the map learns at every state of a frozen teacher's rollout what the teacher ends with.

The target is a function of the noise alone, so it cannot average over different data (app:ril-training): that is what
makes refinement in the loop work where nothing is given, as in text.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from dbtm import losses
from dbtm.config import DistillConfig
from dbtm.losses.head import predictions
from dbtm.losses.soft_head import SoftTarget, chunked_soft_head
from dbtm.methods.base import Part
from dbtm.nn import TransportMap
from dbtm.simplex import State, commit, spread


class Round(NamedTuple):
    """A state of the teacher's rollout: the committed or given tokens, what it holds softly, what it counts."""

    state: State
    held: Tensor | None  # (B, L) bool: non-committed mode, positions that hold their distribution
    p: Tensor | None  # (B, L, V) these distributions
    counted: Tensor  # (B, L) bool

    def embed(self, model: TransportMap, noise_BLD: Tensor) -> Tensor:
        h, _ = model.embed(self.state, noise_BLD)
        if self.held is None or self.p is None:
            return h
        return torch.where(self.held[..., None], model.embed_noise(self.p), h)


def distill_parts(
    model: TransportMap, teacher: TransportMap, config: DistillConfig, state: State, noise_BLD: Tensor, prompt: Tensor
) -> Iterator[Part]:
    """soft-ril: the student at every state of the teacher's own rollout, towards the teacher's last round."""
    rounds, target = teacher_rollout(teacher, config, state, prompt)
    inside = ~prompt
    for now in rounds:
        trunk, _ = model.hidden(now.embed(model, noise_BLD))
        beta = now.counted * (config.weight / inside.sum().clamp(min=1))
        loss, cross_entropy = chunked_soft_head(trunk.flatten(0, 1), model.head, target, beta.flatten())
        yield Part(loss, {"distill": losses.total(cross_entropy.view_as(inside) * now.counted, inside)})


@torch.no_grad()
def teacher_rollout(
    teacher: TransportMap, config: DistillConfig, state: State, prompt: Tensor
) -> tuple[list[Round], SoftTarget]:
    """The teacher's k rounds from x0, and what it ends with."""
    noise_BLD = teacher.embed_noise(state.noise)
    tokens, committed, p = state.tokens, prompt, None
    by_position = spread(tokens.shape[1], tokens.device) if config.scorer == "spread" else None
    rounds: list[Round] = []
    trunk = noise_BLD
    for r in range(1, config.depth + 1):
        if config.commit:
            now = Round(state.at_noise(committed, tokens), None, None, ~committed)
        else:
            now = Round(state.at_noise(prompt), committed & ~prompt, p, ~prompt)
        rounds.append(now)
        trunk, _ = teacher.hidden(now.embed(teacher, noise_BLD))
        score, proposed = predictions(trunk, teacher.head, now.counted)
        order = score if by_position is None else by_position.expand_as(score)
        after = commit(order, committed, r, config.depth, config.kappa)
        if config.commit:
            tokens = torch.where(after & ~committed, proposed, tokens)
        else:
            p = teacher.head(trunk)[0].softmax(-1)
        committed = after
    # committed mode: what was committed on the way to the last round keeps its token
    kept = ~rounds[-1].counted if config.commit else torch.zeros_like(prompt)
    end = SoftTarget(trunk.flatten(0, 1), tokens.flatten(), kept.flatten(), teacher.head, config.temperature)
    return rounds, end
