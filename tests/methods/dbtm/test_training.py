"""The training step against a slow transcription of alg:btm-train-context and alg:btm-ril as paper-map.md reads them
(prompts, fractions of a batch, l not in C_{r-1}), in float64; `test_paper` has the paper's letter.
"""

import math
from dataclasses import replace
from itertools import permutations

import pytest
import torch
from torch.func import jvp

from dbtm.config import Shape
from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.methods.base import Examples, backward
from dbtm.methods.dbtm import LossConfig, PathConfig, RilConfig
from dbtm.methods.dbtm.streams import ROUND
from dbtm.simplex import ot_cost
from dbtm.simplex.commit import commit
from tests.methods.dbtm.step import PROMPT, B, L, V, build, coupled_noise, examples, interpolant, one_hot, weighted_ce
from tests.train.test_resume import tiny_run

pytestmark = pytest.mark.usefixtures("double")


def transcription(method, batch):
    """The sums of our readings, one sample at a time, with dense states and tangents by torch.func.jvp."""
    noise, (I, dI, cleans, t), loss = coupled_noise(method, batch), interpolant(method, batch), method.settings.loss
    T = lambda x: method.network(x)  # noqa: E731 - the paper's letter
    ce = lambda p, e: weighted_ce(p, e, loss.endpoint_c, loss.endpoint_r)  # noqa: E731
    terms = dict.fromkeys(("transport", "anchor", "boundary", "ril", "quality", "ril_quality"), 0.0)
    for b in range(B):
        e, clean, x = one_hot(batch.tokens[b]), cleans[b], I[b : b + 1]
        p, dp = jvp(T, (x,), (dI[b : b + 1],))
        residual = (p - (p + dp).detach())[0]
        weight = ((residual**2).sum(-1) + loss.c).detach() ** -loss.r
        terms["transport"] = terms["transport"] + sum(
            weight[l] * (residual[l] ** 2).sum() for l in range(L) if not clean[l]
        )
        terms["anchor"] = terms["anchor"] + sum(ce(p[0, l], e[l]) for l in range(L) if not clean[l] and t[b] > 0.4)
        p1 = T(e[None])[0]
        terms["boundary"] = terms["boundary"] + sum(ce(p1[l], e[l]) for l in range(PROMPT, L))
        terms["quality"] = terms["quality"] + quality_sum(method, x, batch.tokens[b], ~clean)
        committed, k = batch.prompt[b : b + 1], 3
        for r in range(1, k + 1):
            x = torch.where(committed[0][:, None], e, noise[b])[None]
            p = T(x)[0]
            free = ~committed[0]
            terms["ril"] = terms["ril"] + sum(ce(p[l], e[l]) for l in range(L) if free[l])
            terms["ril_quality"] = terms["ril_quality"] + quality_sum(method, x, batch.tokens[b], free)
            committed = commit((p * e).sum(-1)[None].detach(), committed, r, k, 0.9)
    return {name: value / (B * (L - PROMPT)) for name, value in terms.items()}


def quality_sum(method, x, tokens, counted):
    trunk, _ = method.network.hidden(method.network.embed_dense(x)[0])
    proposed = torch.where(counted, method.network.head(trunk)[0].argmax(-1), tokens)
    q = method.network.quality_logits(trunk, proposed)[0].sigmoid()
    right, positive = proposed[0] == tokens, method.settings.loss.positive_weight
    return sum(-(positive * q[l].log() if right[l] else (1 - q[l]).log()) for l in range(L) if counted[l])


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("fraction", [1.0, 0.25])
@pytest.mark.parametrize("context", [True, False])
def test_the_step_is_the_papers_as_we_read_it(monkeypatch, small, fraction, context):
    """For small and large vocabularies, with boundary rows in a pass of their own and in the batch at I_t, with and
    without context; nothing is 1 where the paper has a letter.
    """
    monkeypatch.setattr(Shape, "small_vocab", property(lambda self: small))
    monkeypatch.setattr(Examples, "first", lambda self, share: self)  # whatever the fraction: all rows, as in the paper
    if fraction < 1:
        monkeypatch.setattr("dbtm.methods.dbtm.training.SHARED_PASS_LIMIT", 1.0)
    weights = {"transport": 0.6, "anchor": 1.3, "boundary": 0.8, "quality": 0.9}
    adaptive = {"c": 0.5, "r": 0.7, "endpoint_c": 2.0, "endpoint_r": 0.3}
    method = build(
        path=PathConfig(sigma=0.8, a=2.0, t_anchor=0.4, context=context),
        loss=LossConfig(**weights, **adaptive, positive_weight=1.7, boundary_fraction=fraction),
        ril=RilConfig(weight=0.7, depths=(3,), quality=0.5),
    )
    batch = examples()
    got = backward(method, batch)
    gradients = {n: p.grad.clone() for n, p in method.network.named_parameters()}
    method.network.zero_grad()
    want = transcription(method, batch)
    for name, value in want.items():
        assert got[name].item() == pytest.approx(value.item(), rel=1e-9), name
    total = sum(weight * want[name] for name, weight in weights.items())
    total = total + 0.7 * (want["ril"] + 0.5 * want["ril_quality"])
    assert got["loss"].item() == pytest.approx(total.item(), rel=1e-9)
    total.backward()
    for name, parameter in method.network.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, rtol=1e-7, atol=1e-10, msg=name)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_semigroup_term_iterates_the_map_and_holds_the_context(dropout):
    """The first application is the pass at I_t, dropout and all; the others are made without."""
    loss = LossConfig(boundary=0.0, semigroup=2.0, semigroup_depths=(1, 3))
    method = build(model=replace(tiny_run().model, dropout=dropout), loss=loss)
    batch = examples()
    torch.manual_seed(5)
    got = backward(method, batch)
    assert method.network.training
    x, _, clean, _ = interpolant(method, batch)
    torch.manual_seed(5)  # the same dropout mask
    p = first = method.network(x)
    method.network.eval()
    want = torch.zeros(())
    for k in (1, 2, 3):
        p = method.network(torch.where(clean[..., None], one_hot(batch.tokens), p)) if k > 1 else p
        if k in (1, 3):
            want = want + (-(p.detach() * first.log()).sum(-1) * ~clean).sum() / (B * (L - PROMPT))
    assert got["semigroup"].item() == pytest.approx(want.item(), rel=1e-9)
    others = got["transport"] + got["anchor"] + got["quality"]
    assert got["loss"].item() == pytest.approx((others + 2.0 * want).item(), rel=1e-9)
    backward(method, batch)
    assert not method.network.training


@pytest.mark.parametrize("context", [0.0, 0.3])
def test_non_committed_rollouts_hold_distributions_and_count_what_was_not_given(context):
    method = build(ril=RilConfig(weight=1.0, depths=(3,), kappa=0.5, commit=False, context=context))
    batch = examples()
    noise, e = coupled_noise(method, batch), one_hot(batch.tokens)
    given = method.rollout_start(batch)
    assert (given != batch.prompt).any() == bool(context)
    held, p, want = given, e, torch.zeros(())
    for r in range(1, 4):
        x = torch.where(held[..., None], torch.where(given[..., None], e, p), noise)
        p = method.network(x)
        want = want + (weighted_ce(p, e) * ~given).sum() / (B * (L - PROMPT))
        p = p.detach()
        held = commit((p * e).sum(-1), held, r, 3, 0.5)
    assert backward(method, batch)["ril"].item() == pytest.approx(want.item(), rel=1e-9)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize(
    "ril",
    [
        RilConfig(weight=1.0, depths=(3,), kappa=0.5, supervise="remaining"),
        RilConfig(weight=1.0, depths=(3,), kappa=0.5, fresh_noise=True),
        RilConfig(weight=1.0, depths=(3,), kappa=0.5, context=0.3),
    ],
    ids=["not in C_r", "fresh noise", "context"],
)
def test_other_rollouts_recomputed_with_dense_states(monkeypatch, ril, small):
    monkeypatch.setattr(Shape, "small_vocab", property(lambda self: small))
    method, batch = build(ril=ril), examples()
    e, target, want = one_hot(batch.tokens), ~batch.prompt, torch.zeros(())
    committed = method.rollout_start(batch)
    assert (committed & target).any() == bool(ril.context)
    for r in range(1, 4):
        fresh = ril.fresh_noise and r > 1
        x0 = coupled_noise(method, batch, *((ROUND, 3, r) if fresh else ()))
        p = method.network(torch.where(committed[..., None], e, x0))
        after = commit((p * e).sum(-1).detach(), committed, r, 3, 0.5)
        counted = target & ~(committed if ril.supervise == "uncommitted" else after)
        want = want + (weighted_ce(p, e) * counted).sum() / (B * (L - PROMPT))
        committed = after
    got = backward(method, batch)
    assert got["ril"].item() == pytest.approx(want.item(), rel=1e-9)
    gradients = {n: p.grad.clone() for n, p in method.network.named_parameters() if p.grad is not None}
    method.network.zero_grad()
    nothing_else = LossConfig(transport=0, anchor=0, boundary=0, quality=0, semigroup=0)
    alone = build(ril=replace(ril, quality=0.0), loss=nothing_else)
    backward(alone, batch)
    want.backward()
    for (name, a), b in zip(alone.network.named_parameters(), method.network.parameters(), strict=True):
        if b.grad is not None and name in gradients:
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-7, atol=1e-10, msg=name)


def test_rollouts_start_where_at_least_a_share_is_clean():
    """The share is uniform from ril.context to 1, and which positions are clean is left to chance."""
    method = build(ril=RilConfig(weight=1.0, context=0.4))
    rows, length = 400, 500
    batch = Examples(
        torch.zeros(rows, length, dtype=torch.long),
        torch.zeros(rows, length, dtype=torch.bool),
        rng.fold(1, 0, torch.arange(rows)),
        0,
    )
    clean = method.rollout_start(batch)
    share = clean.double().mean(1)
    assert share.min() > 0.4 - 0.08
    assert share.quantile(torch.tensor([0.25, 0.5, 0.75])).tolist() == pytest.approx([0.55, 0.7, 0.85], abs=0.04)
    assert clean.double().mean(0).tolist() == pytest.approx([0.7] * length, abs=0.1)


def test_rollouts_may_start_where_spread_commits_would_be():
    """Of 8 positions 0, 4, 2, 6, 1, 5, 3, 7 are committed in this order: what is clean is a beginning of that list."""
    rows, order = 600, [0, 4, 2, 6, 1, 5, 3, 7]
    batch = Examples(
        torch.zeros(rows, 8, dtype=torch.long),
        torch.zeros(rows, 8, dtype=torch.bool),
        rng.fold(1, 0, torch.arange(rows)),
        0,
    )
    beginnings = [sorted(order[:n]) for n in range(8)]
    everywhere = build(ril=RilConfig(weight=1.0, context=0.1, spread=1.0)).rollout_start(batch)
    starts = [row.nonzero()[:, 0].tolist() for row in everywhere]
    assert all(start in beginnings for start in starts)
    assert {len(start) for start in starts} == {*range(8)}
    half = build(ril=RilConfig(weight=1.0, context=0.1, spread=0.5)).rollout_start(batch)
    plain = build(ril=RilConfig(weight=1.0, context=0.1)).rollout_start(batch)
    chosen = (half == everywhere).all(1)
    assert torch.equal(half[~chosen], plain[~chosen])
    assert chosen.double().mean() == pytest.approx(0.5, abs=0.12)  # a few of the others are the same by chance
    with pytest.raises(UsageError, match=r"set method\.ril\.context too"):
        RilConfig(weight=1.0, spread=0.5)


def test_the_anchor_starts_at_the_commitment_time_unless_told():
    root = 0.5 * math.sqrt(2 * math.log(V))
    for a in (1.0, 2.0):
        method = build(path=PathConfig(t_anchor=None, sigma=0.5, a=a))
        assert method.t_anchor == pytest.approx(1 - (1 + root) ** (-1 / a))
    assert build(path=PathConfig(t_anchor=0.3)).t_anchor == 0.3


def test_self_conditioned_rollouts_read_the_round_before():
    config = tiny_run().model
    ril = RilConfig(weight=1.0, depths=(2,), kappa=0.5)
    method, batch = build(model=replace(config, dropout=0.0, self_condition=True), ril=ril), examples()
    e, target, want, p = one_hot(batch.tokens), ~batch.prompt, torch.zeros(()), None
    committed, x0 = batch.prompt, coupled_noise(method, batch)
    for r in (1, 2):
        h, _ = method.network.embed_dense(torch.where(committed[..., None], e, x0))
        h = h if p is None else h + p @ method.network.recall
        p = method.network.logits(h)[0].softmax(-1).detach()
        want = want + (weighted_ce(p, e) * (target & ~committed)).sum() / (B * (L - PROMPT))
        committed = commit((p * e).sum(-1), committed, r, 2, 0.5)
    assert backward(method, batch)["ril"].item() == pytest.approx(want.item(), rel=1e-9)


def test_noise_is_permuted_by_the_coupling_and_prompts_stay():
    coupled, independent = build(), build(path=PathConfig(coupling="independent"))
    batch = examples()
    rows = {tuple(r) for r in independent.draw_noise(batch).dense().flatten(1).tolist()}
    assert {tuple(r) for r in coupled.draw_noise(batch).dense().flatten(1).tolist()} == rows
    state, _ = coupled.draw_state(batch, coupled.draw_noise(batch))
    assert state.clean[batch.prompt].all()
    assert torch.equal(state.tokens, batch.tokens)


def test_the_coupling_may_be_prepared():
    method, batch = build(), examples()
    ahead = method.prepare(batch)
    assert sorted(ahead.noise_rows.tolist()) == list(range(B))
    assert torch.equal(method.draw_noise(ahead).key, method.draw_noise(batch).key)
    cost = ot_cost(method.noise(batch, 0), batch.tokens, ~batch.prompt)
    best = min(sum(cost[p[j], j] for j in range(B)) for p in permutations(range(B)))
    assert sum(cost[ahead.noise_rows[j], j] for j in range(B)).item() == pytest.approx(best.item())
    assert build(path=PathConfig(coupling="independent")).prepare(batch) is batch


def test_noise_depends_on_seed_step_and_sample_only():
    method = build(path=PathConfig(coupling="independent"))
    whole, part = examples(), examples()
    part = replace(part, tokens=part.tokens[2:], prompt=part.prompt[2:], sample_key=part.sample_key[2:])
    assert torch.equal(method.draw_noise(whole).dense()[2:], method.draw_noise(part).dense())
    assert not torch.equal(method.draw_noise(whole).dense(), method.draw_noise(examples(step=1)).dense())


def test_fractions_of_the_batch_stay_unbiased_estimates():
    """Half of the rows cost half and estimate the same mean: with equal rows they are equal."""
    batch = examples()
    batch = replace(batch, tokens=batch.tokens[:1].expand(B, L), sample_key=batch.sample_key[:1].expand(B))
    path = PathConfig(coupling="independent")
    whole = backward(build(path=path, ril=RilConfig(weight=1.0, depths=(2,))), batch)
    parts = backward(
        build(
            path=path,
            loss=LossConfig(interpolant_fraction=0.5, boundary_fraction=0.25),
            ril=RilConfig(weight=1.0, depths=(2,), later_fraction=0.5),
        ),
        batch,
    )
    for name in whole:
        assert whole[name].item() == pytest.approx(parts[name].item(), rel=1e-9), name


def test_compiled_and_eager_agree():
    method, batch = build(ril=RilConfig(weight=1.0, depths=(2,))), examples()
    eager = backward(method, batch)
    gradients = {n: p.grad.clone() for n, p in method.network.named_parameters()}
    method.network.zero_grad()
    for layer in method.network.repeated():
        layer.compile(
            backend="aot_eager"
        )  # capture, functionalisation and autograd, without minutes of code generation
    compiled = backward(method, batch)
    for name in eager:
        assert compiled[name].item() == pytest.approx(eager[name].item(), rel=1e-9), name
    for name, parameter in method.network.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-7, atol=1e-10)
