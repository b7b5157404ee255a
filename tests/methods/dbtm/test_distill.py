"""Self-distillation: the teacher's rollout recomputed with dense states, in float64."""

from dataclasses import replace

import pytest
import torch

from dbtm.config import Shape
from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.methods.base import backward
from dbtm.methods.dbtm import DistillConfig, LossConfig
from dbtm.methods.dbtm.distill import teacher_rollout
from dbtm.methods.dbtm.streams import TURN
from dbtm.simplex import spread
from dbtm.simplex.commit import commit
from tests.methods.dbtm.step import PROMPT, B, L, build, coupled_noise, examples, one_hot, perturbed

pytestmark = pytest.mark.usefixtures("double")


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("scorer", ["confidence", "spread"])
@pytest.mark.parametrize("commit_mode", ["C_r-1", "C_r", "soft"])
def test_self_distillation_targets_the_teachers_last_round(monkeypatch, commit_mode, scorer, small):
    """The teacher's rollout recomputed with dense states; it receives no gradient, and the prompt has no loss."""
    monkeypatch.setattr(Shape, "small_vocab", property(lambda self: small))
    committing, now = commit_mode != "soft", commit_mode != "C_r"
    distill = DistillConfig(weight=0.4, depth=3, start=0, kappa=0.6, temperature=0.7, scorer=scorer, commit=committing)
    distill = replace(distill, supervise="uncommitted" if now else "remaining")
    nothing_else = LossConfig(transport=0.0, anchor=0.0, boundary=0.0, quality=0.0)
    method, batch = build(distill=distill, loss=nothing_else), examples()
    teacher = perturbed(method.frozen["teacher"].double(), 11)
    x0, e = coupled_noise(method, batch), one_hot(batch.tokens)
    turn_B = (rng.uniform(batch.key(TURN), 1)[:, 0] * L).long()
    by_position = torch.stack([spread(L).roll(-int(turn)) for turn in turn_B])
    held, tokens, p, states = batch.prompt, batch.tokens, e, []
    for r in (1, 2, 3):
        known = one_hot(tokens) if committing else torch.where(batch.prompt[..., None], e, p)
        x = torch.where(held[..., None], known, x0)
        logits = teacher.logits(teacher.embed_dense(x)[0])[0].detach()
        p = logits.softmax(-1)
        before, held = held, commit(by_position if scorer == "spread" else p.amax(-1), held, r, 3, 0.6)
        tokens = torch.where(held & ~before, p.argmax(-1), tokens)
        counted = ~batch.prompt if not committing else ~before if now else ~held
        states.append((x, counted))
    target = (logits / 0.7).softmax(-1)
    if committing:
        target = torch.where(before[..., None], one_hot(tokens), target)
    want = torch.zeros(())
    for x, counted in states:
        want = want - ((target * method.network(x).log()).sum(-1) * counted).sum() / (B * (L - PROMPT))
    got, parameters = backward(method, batch), list(method.network.parameters())
    assert want > 0
    assert got["distill"].item() == pytest.approx(want.item(), rel=1e-9)
    assert got["loss"].item() == pytest.approx(0.4 * want.item(), rel=1e-9)
    for parameter, gradient in zip(parameters, torch.autograd.grad(0.4 * want, parameters, allow_unused=True)):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-7, atol=1e-10)
    assert all(q.grad is None for q in teacher.parameters())


def test_a_teacher_may_commit_positions_that_are_spread_from_another_place_in_every_row():
    distill = DistillConfig(weight=1.0, depth=2, start=0, scorer="spread")
    method, batch = build(distill=distill), examples()
    state, _ = method.draw_state(batch, method.draw_noise(batch))
    turn_B = torch.arange(B) + 3
    rounds, _ = teacher_rollout(method.frozen["teacher"].double(), distill, state, batch.prompt, turn_B, method.rows)
    for row, turn in enumerate(turn_B.tolist()):
        free, want = (~batch.prompt[row]).nonzero().flatten(), spread(L).roll(-turn)
        half = free[want[free].topk((len(free) + 1) // 2).indices]
        assert torch.equal(rounds[1].counted[row], ~batch.prompt[row] & ~torch.isin(torch.arange(L), half))


def test_a_state_may_learn_only_what_the_teacher_decides_later():
    """Of three rounds two states remain, and the loss of each is on positions still open in the next; same target."""
    every = DistillConfig(weight=1.0, depth=3, start=0, scorer="spread")
    later = replace(every, supervise="remaining")
    method, batch = build(distill=later), examples()
    state, _ = method.draw_state(batch, method.draw_noise(batch))
    teacher, turn_B = method.frozen["teacher"].double(), torch.arange(B)
    (all_rounds, end), (rounds, same) = (
        teacher_rollout(teacher, config, state, batch.prompt, turn_B, method.rows) for config in (every, later)
    )
    assert len(rounds) == 2
    for now, like, after in zip(rounds, all_rounds, all_rounds[1:], strict=False):
        assert torch.equal(now.state.dense(), like.state.dense())
        assert torch.equal(now.counted, after.counted)
        assert now.counted.any()
    index = torch.arange(B * L)
    assert torch.equal(same.probabilities(index), end.probabilities(index))
    for wrong in ({"depth": 1}, {"commit": False}):
        with pytest.raises(UsageError, match="at least 2"):
            replace(later, **wrong)


def test_the_teacher_follows_the_average_on_schedule():
    method = build(distill=DistillConfig(weight=1.0, depth=2, start=2, refresh=3))
    average = build().network
    before = method.frozen["teacher"].embedding.clone()
    for step, changed in ((1, False), (2, True), (3, False), (4, False), (5, True)):
        with torch.no_grad():
            average.embedding += 1
        old = method.frozen["teacher"].embedding.clone()
        method.after_step(step, average)
        assert torch.equal(method.frozen["teacher"].embedding, old) != changed
    assert not torch.equal(method.frozen["teacher"].embedding, before)
