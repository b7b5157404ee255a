"""Self-distillation: the map learns at every state of a frozen teacher's rollout what the teacher ends with.

The target is a function of the noise alone, so it cannot average over different data (app:ril-training): that is what
makes refinement in the loop work where nothing is given, as in text.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from dbtm import losses
from dbtm.config import DistillConfig
from dbtm.losses.head import predictions
from dbtm.losses.soft_head import SoftTarget, chunked_soft_head
from dbtm.methods.base import Part
from dbtm.nn import TransportMap
from dbtm.simplex import State, commit


def distill_parts(
    model: TransportMap, teacher: TransportMap, config: DistillConfig, state: State, noise_BLD: Tensor, prompt: Tensor
) -> Iterator[Part]:
    """soft-ril: the student at every state of the teacher's own rollout, towards the teacher's last round."""
    states, target = teacher_rollout(teacher, config, state, prompt)
    inside = ~prompt
    for x, counted in states:
        h, _ = model.embed(x, noise_BLD) if isinstance(x, State) else model.embed_dense(x)
        trunk, _ = model.hidden(h)
        beta = counted * (config.weight / inside.sum().clamp(min=1))
        loss, cross_entropy = chunked_soft_head(trunk.flatten(0, 1), model.head, target, beta.flatten())
        yield Part(loss, {"distill": losses.total(cross_entropy.view_as(counted) * counted, inside)})


@torch.no_grad()
def teacher_rollout(
    teacher: TransportMap, config: DistillConfig, state: State, prompt: Tensor
) -> tuple[list[tuple[State | Tensor, Tensor]], SoftTarget]:
    """The teacher's k rounds from x0: every round's input with the positions it counts, and what it ends with."""
    noise_BLD = teacher.embed_noise(state.noise)
    tokens, committed, p = state.tokens, prompt, None
    states: list[tuple[State | Tensor, Tensor]] = []
    trunk = noise_BLD
    for r in range(1, config.depth + 1):
        now: State | Tensor = state.at_noise(committed if config.commit else prompt, tokens)
        if not config.commit and p is not None:
            assert isinstance(now, State)
            now = torch.where((committed & ~prompt)[..., None], p, now.dense())
        counted = ~committed if config.commit else ~prompt
        states.append((now, counted))
        h, _ = teacher.embed(now, noise_BLD) if isinstance(now, State) else teacher.embed_dense(now)
        trunk, _ = teacher.hidden(h)
        score, proposed = predictions(trunk, teacher.head, counted)
        if not config.commit:
            p = teacher.head(trunk)[0].softmax(-1)
        after = commit(score, committed, r, config.depth, config.kappa)
        if config.commit:
            tokens = torch.where(after & ~committed, proposed, tokens)
        committed = after
    # committed mode: what was committed on the way to the last round keeps its token
    kept = ~states[-1][1] if config.commit else torch.zeros_like(prompt)
    return states, SoftTarget(trunk.flatten(0, 1), tokens.flatten(), kept.flatten(), teacher.head, config.temperature)
