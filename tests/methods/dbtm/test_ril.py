"""Options of refinement in the loop against dense float64 transcriptions of alg:btm-ril and app:on-policy-rollouts."""

import math
from dataclasses import replace

import pytest
import torch
from torch.func import jvp

from dbtm.config import Shape
from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.methods.base import backward
from dbtm.methods.dbtm import LossConfig, PathConfig, RilConfig
from dbtm.methods.dbtm.streams import AGAIN, CONTEXT_TIME, OWN, ROUND
from tests.methods.dbtm.step import PROMPT, B, L, build, coupled_noise, examples, interpolant, one_hot, weighted_ce
from tests.train.test_resume import tiny_run

pytestmark = pytest.mark.usefixtures("double")

NOTHING = LossConfig(transport=0.0, boundary=0.0, anchor=0.0, quality=0.0)
K, KAPPA = 3, 0.5


def rollout(method, batch, x0, b, committing=True, k=K):
    """The states x_hat_0 .. x_hat_{k-1} of one sample, and C_0 .. C_k as sets, position by position."""
    e, prompt = one_hot(batch.tokens[b]), {l for l in range(L) if batch.prompt[b, l]}
    committed, p, states, sets = set(prompt), e, [], [set(prompt)]
    for r in range(1, k + 1):
        held = {l: e[l] if committing or l in prompt else p[l] for l in committed}
        noise = x0[r - 1] if isinstance(x0, list) else x0  # one per round, if redrawn
        x = torch.stack([held.get(l, noise[b, l]) for l in range(L)])
        p = method.network(x[None])[0].detach()
        remaining = [l for l in range(L) if l not in committed]
        right = {l: p[l, batch.tokens[b, l]].item() for l in remaining}
        floor = math.ceil(len(remaining) / (k - r + 1))
        committed = committed | {l for l in remaining if right[l] >= KAPPA}
        committed = committed | set(sorted(remaining, key=lambda l: -right[l])[:floor])
        states.append(x)
        sets.append(committed)
    return states, sets


def check(method, batch, want, **weights):
    """Terms, loss and all gradients."""
    got = backward(method, batch)
    for name, value in want.items():
        assert got[name].item() == pytest.approx(value.item(), rel=1e-9), name
    loss = sum(weights[name] * want[name] for name in weights)
    assert got["loss"].item() == pytest.approx(loss.item(), rel=1e-9)
    parameters = dict(method.network.named_parameters())
    gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    assert any(g is not None and g.abs().max() > 1e-6 for g in gradients)
    for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True):
        ours = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        theirs = torch.zeros_like(parameter) if gradient is None else gradient
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-10, msg=name)


# -- semi-r ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("kind", ["not in C_r-1", "not in C_r", "non-commit"])
def test_semi_r_shares_the_states_of_the_rollout(monkeypatch, kind, small):
    """CE(T(x_hat_{r-1}), sg T(x_hat_{k-1})) in addition to the data's cross-entropy, at the same states."""
    monkeypatch.setattr(Shape, "small_vocab", property(lambda self: small))
    committing, later = kind != "non-commit", kind == "not in C_r"
    ril = RilConfig(weight=0.6, semigroup=0.4, quality=0.0, depths=(K,), kappa=KAPPA, commit=committing)
    method = build(loss=NOTHING, ril=replace(ril, supervise="remaining" if later else "uncommitted"))
    batch = examples()
    x0, want = coupled_noise(method, batch), {"ril": torch.zeros(()), "semi_r": torch.zeros(())}
    for b in range(B):
        states, sets = rollout(method, batch, x0, b, committing)
        e, end = one_hot(batch.tokens[b]), method.network(states[-1][None])[0].detach()
        for r in range(1, K + 1):
            p, closed = method.network(states[r - 1][None])[0], sets[r if later else r - 1] if committing else sets[0]
            for l in set(range(L)) - closed:
                want["ril"] = want["ril"] + weighted_ce(p[l], e[l]) / (B * (L - PROMPT))
                want["semi_r"] = want["semi_r"] - (end[l] * p[l].log()).sum() / (B * (L - PROMPT))
    check(method, batch, want, ril=0.6, semi_r=0.4)


def test_semi_r_alone_makes_rollouts_from_its_first_step_on():
    method = build(loss=NOTHING, ril=RilConfig(semigroup=1.0, semigroup_start=2, quality=1.0, depths=(2,)))
    late = backward(method, examples(step=2))
    assert {"ril", "semi_r"} <= late.keys()
    assert "ril_quality" not in late, "without a weight the quality head does not run"
    assert late["loss"].item() == pytest.approx(late["semi_r"].item())
    assert "semi_r" not in backward(method, examples(step=1))


def test_semi_r_targets_are_made_without_dropout():
    """The target of a rollout of one round is the map itself, except for the dropout mask."""
    model = replace(tiny_run().model, dropout=0.5)
    method, batch = build(model=model, loss=NOTHING, ril=RilConfig(semigroup=1.0, depths=(1,))), examples()
    x0 = coupled_noise(method, batch)
    x = torch.where(batch.prompt[..., None], one_hot(batch.tokens), x0)
    target = method.network.eval()(x).detach()
    method.network.train()
    torch.manual_seed(8)
    p = method.network(x)
    torch.manual_seed(8)
    got = backward(method, batch)["semi_r"]
    assert method.network.training
    want = -((target * p.log()).sum(-1) * ~batch.prompt).sum() / (B * (L - PROMPT))
    assert got.item() == pytest.approx(want.item(), rel=1e-9)
    assert not torch.allclose(p, target)


def test_semi_r_needs_every_row_to_the_end():
    with pytest.raises(UsageError, match="later_fraction=1"):
        RilConfig(semigroup=1.0, later_fraction=0.5)


# -- contexts from rollouts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("terms", [("transport", "anchor"), ("anchor",), ("transport",)], ids="+".join)
def test_transport_and_anchor_at_contexts_of_the_rollout(terms, fresh):
    """At I_t(C_r), r < k, over the positions outside C_r, with tangents by torch.func.jvp."""
    a, c, r_, anchor_time = 2.0, 0.5, 0.7, 0.3
    weights = {"transport": 0.8, "anchor": 0.9}
    used = {name: weights[name] for name in terms}
    method = build(
        path=PathConfig(t_anchor=anchor_time, a=a),
        loss=replace(NOTHING, c=c, r=r_, endpoint_c=2.0, endpoint_r=0.3),
        ril=RilConfig(weight=0.7, quality=0.0, depths=(K,), kappa=KAPPA, fresh_noise=fresh, **used),
    )
    batch, T = examples(), method.network
    drawn = [coupled_noise(method, batch, *((ROUND, K, r) if fresh and r > 1 else ())) for r in range(1, K + 1)]
    want = {name: torch.zeros(()) for name in ("ril", *(f"ril_{n}" for n in terms))}
    for b in range(B):
        states, sets = rollout(method, batch, drawn, b)
        e = one_hot(batch.tokens[b])
        for r in range(1, K + 1):
            p = T(states[r - 1][None])[0]
            want["ril"] = want["ril"] + sum(weighted_ce(p[l], e[l], 2.0, 0.3) for l in set(range(L)) - sets[r - 1])
            free = set(range(L)) - sets[r]
            assert bool(free) == (r < K)
            if not free:
                continue
            t = rng.uniform(rng.fold(batch.sample_key[b : b + 1], CONTEXT_TIME, K, r), 1).item()
            share, rate = (1 - t) ** a, -a * (1 - t) ** (a - 1)
            noisy, x0 = torch.tensor([l in free for l in range(L)])[:, None], drawn[r - 1]
            x = torch.where(noisy, share * x0[b] + (1 - share) * e, e)
            dx = torch.where(noisy, rate * (x0[b] - e), 0.0)
            p, dp = (out[0] for out in jvp(T, (x[None],), (dx[None],)))
            if "transport" in terms:
                residual = p - (p + dp).detach()
                weight = ((residual**2).sum(-1) + c).detach() ** -r_
                want["ril_transport"] = want["ril_transport"] + sum(weight[l] * (residual[l] ** 2).sum() for l in free)
            if "anchor" in terms and t > anchor_time:
                want["ril_anchor"] = want["ril_anchor"] + sum(weighted_ce(p[l], e[l], 2.0, 0.3) for l in free)
    want = {name: value / (B * (L - PROMPT)) for name, value in want.items()}
    assert all(value > 0 for value in want.values())
    check(method, batch, want, ril=0.7, **{f"ril_{name}": weight for name, weight in used.items()})


def test_contexts_are_of_clean_tokens():
    with pytest.raises(UsageError, match="commit=true"):
        RilConfig(transport=1.0, commit=False)


# -- one round, several samples ----------------------------------------------------------------------------------------


def test_one_round_of_a_rollout_may_be_supervised():
    """The state of that round after the earlier rounds; no later round runs, and no earlier one has a gradient."""
    ril = RilConfig(weight=0.7, quality=0.0, depths=(K,), kappa=KAPPA, rounds="one")
    seen = set()
    for step in range(6):
        method, batch = build(loss=NOTHING, ril=ril), examples(step)
        r = method.supervised_round(step, K)
        seen.add(r)
        want, x0, passes = torch.zeros(()), coupled_noise(method, batch), []
        for b in range(B):
            states, sets = rollout(method, batch, x0, b)
            p, e = method.network(states[r - 1][None])[0], one_hot(batch.tokens[b])
            want = want + sum(weighted_ce(p[l], e[l]) for l in set(range(L)) - sets[r - 1]) / (B * (L - PROMPT))
        hidden = method.network.hidden
        method.network.hidden = lambda *h, run=hidden, of=passes: of.append(torch.is_grad_enabled()) or run(*h)
        check(method, batch, {"ril": want}, ril=0.7)
        assert passes == [False] * (r - 1) + [True], "the rollout's alone: nothing is learned at the interpolant"
    assert len(seen) > 1


def test_the_supervised_round_is_any_of_them():
    method = build(ril=RilConfig(weight=1.0, depths=(4,), rounds="one"))
    drawn = [method.supervised_round(step, 4) for step in range(2000)]
    assert {r: drawn.count(r) for r in (1, 2, 3, 4)} == {r: pytest.approx(500, abs=80) for r in (1, 2, 3, 4)}
    assert [method.phase(step)[-2] for step in range(50)] == drawn[:50], "a CUDA graph is recorded for each"


def test_several_rollouts_per_datum_start_from_noise_of_their_own():
    ril = RilConfig(weight=0.7, quality=0.0, depths=(K,), kappa=KAPPA, samples=3)
    method, batch = build(loss=NOTHING, ril=ril), examples()
    want = torch.zeros(())
    for sample in range(3):
        x0 = coupled_noise(method, batch, *((AGAIN, sample, K) if sample else ()))
        for b in range(B):
            states, sets = rollout(method, batch, x0, b)
            for r in range(1, K + 1):
                p, e = method.network(states[r - 1][None])[0], one_hot(batch.tokens[b])
                want = want + sum(weighted_ce(p[l], e[l]) for l in set(range(L)) - sets[r - 1])
    check(method, batch, {"ril": want / (3 * B * (L - PROMPT))}, ril=0.7)


def test_other_samples_draw_other_noise_in_every_round():
    ril = RilConfig(weight=1.0, quality=0.0, depths=(2,), kappa=1.0, fresh_noise=True)
    path = PathConfig(coupling="independent")
    drawn = []
    for samples in (1, 2):
        method = build(loss=NOTHING, ril=replace(ril, samples=samples), path=path)
        noise, keys = method.network.embed_noise, []
        method.network.embed_noise = lambda x, noise=noise, keys=keys: keys.append(x.key) or noise(x)
        backward(method, examples())
        drawn.append(torch.stack(keys))
    assert torch.equal(drawn[0], drawn[1][:2])
    assert len(drawn[1].unique()) == drawn[1].numel() == 4 * B


# -- the anchor on clean context ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("everywhere", [False, True])
def test_the_anchor_may_supervise_clean_context(everywhere):
    """eq:anchor-loss over all positions that are not given, with t_l = 1 on context (alg:btm-train-context)."""
    loss = replace(NOTHING, anchor=0.8, anchor_context=everywhere)
    method, batch = build(loss=loss, path=PathConfig(t_anchor=0.5)), examples()
    x, _, clean, t = interpolant(method, batch)
    p, e = method.network(x), one_hot(batch.tokens)
    times = torch.where(clean, 1.0, t)
    want, context = torch.zeros(()), 0
    for b in range(B):
        for l in range(PROMPT, L):
            if times[b, l] > 0.5 and (everywhere or not clean[b, l]):
                want = want + weighted_ce(p[b, l], e[b, l])
                context += bool(clean[b, l])
    assert (context > 0) == everywhere
    check(method, batch, {"anchor": want / (B * (L - PROMPT))}, anchor=0.8)


# -- the map's own choices ---------------------------------------------------------------------------------------------


def own_states(method, batch, x0, b):
    """States of a rollout that holds argmax T at positions chosen again in every round, by confidence."""
    e, prompt = one_hot(batch.tokens[b]), {l for l in range(L) if batch.prompt[b, l]}
    held, states = {l: e[l] for l in prompt}, []
    for r in range(1, K + 1):
        x = torch.stack([held.get(l, x0[b, l]) for l in range(L)])
        p = method.network(x[None])[0].detach()
        free = [l for l in range(L) if l not in prompt]
        top = sorted(free, key=lambda l: -p[l].max().item())[: math.ceil(len(free) / (K - r + 1))]
        chosen = {l for l in free if p[l].max().item() >= KAPPA or l in top}
        held = {l: e[l] if l in prompt else torch.eye(e.shape[1])[p[l].argmax()] for l in prompt | chosen}
        states.append(x)
    return states


@pytest.mark.parametrize("supervise", ["uncommitted", "remaining"])
@pytest.mark.parametrize("small", [True, False])
def test_rows_may_hold_the_maps_own_choices(monkeypatch, small, supervise):
    """Every position learns the data's token at every round, regardless of its held token."""
    monkeypatch.setattr(Shape, "small_vocab", property(lambda self: small))
    ril = RilConfig(weight=0.6, quality=0.0, depths=(K,), kappa=KAPPA, own=1.0, supervise=supervise)
    method, batch = build(loss=NOTHING, ril=ril), examples()
    x0, want, mistakes = coupled_noise(method, batch), torch.zeros(()), 0
    for b in range(B):
        e = one_hot(batch.tokens[b])
        for x in own_states(method, batch, x0, b):
            p = method.network(x[None])[0]
            mistakes += sum(bool((x[l] == 1).any()) and not torch.equal(x[l], e[l]) for l in range(PROMPT, L))
            for l in range(PROMPT, L):
                want = want + weighted_ce(p[l], e[l]) / (B * (L - PROMPT))
    assert mistakes, "an untrained map holds wrong tokens"
    check(method, batch, {"ril": want}, ril=0.6)


def test_some_rows_hold_their_own_choices_and_the_others_the_truth():
    """Each row is computed as if all rows were of its kind."""
    batch = examples()
    u_B = rng.uniform(rng.fold(batch.key(OWN), K, 0), 1)[:, 0]
    share = u_B.sort().values[1:3].mean().item()  # two rows below it, the others above

    def terms(own):
        ril = RilConfig(weight=1.0, quality=0.0, depths=(K,), kappa=KAPPA, own=own)
        method = build(loss=NOTHING, ril=ril, path=PathConfig(coupling="independent"))
        return torch.tensor([backward(method, row_of(batch, b))["ril"].item() for b in range(B)])

    truth, own = terms(0.0), terms(1.0)
    torch.testing.assert_close(terms(share), torch.where(u_B < share, own, truth))
    assert (truth != own).all()


def test_what_a_row_holds_of_its_own_may_stay():
    """Without un-commit, positions are added by confidence and keep their token."""
    ril = RilConfig(weight=0.6, quality=0.0, depths=(K,), kappa=KAPPA, own=1.0, uncommit=False)
    method, batch = build(loss=NOTHING, ril=ril), examples()
    x0, want, changed = coupled_noise(method, batch), torch.zeros(()), 0
    for b in range(B):
        e = one_hot(batch.tokens[b])
        held = {l: e[l] for l in range(PROMPT)}
        for r in range(1, K + 1):
            p = method.network(torch.stack([held.get(l, x0[b, l]) for l in range(L)])[None])[0]
            want = want + sum(weighted_ce(p[l], e[l]) for l in range(PROMPT, L)) / (B * (L - PROMPT))
            sure = {l: p[l].max().item() for l in range(L) if l not in held}
            changed += sum(not torch.equal(held[l], torch.eye(e.shape[1])[p[l].argmax()]) for l in held)
            best = sorted(sure, key=lambda l: -sure[l])[: math.ceil(len(sure) / (K - r + 1))]
            chosen = [l for l in sure if sure[l] >= KAPPA or l in best]
            held |= {l: torch.eye(e.shape[1])[p[l].argmax()] for l in chosen}
    assert changed, "the map would have changed a token"
    check(method, batch, {"ril": want}, ril=0.6)


@pytest.mark.parametrize("own", [0.0, 1.0])
@pytest.mark.parametrize("where", ["supervised", "open", "all"])
def test_where_the_quality_head_learns(own, where):
    """log q of the map's proposals at positions with a loss; at the others the head reads the current token."""
    ril = RilConfig(weight=0.6, quality=0.5, depths=(K,), kappa=KAPPA, own=own, quality_on=where)
    method, batch = build(loss=NOTHING, ril=ril), examples()
    x0, want, held_count = coupled_noise(method, batch), {"ril": torch.zeros(()), "ril_quality": torch.zeros(())}, 0
    for b in range(B):
        e = one_hot(batch.tokens[b])
        states = own_states(method, batch, x0, b) if own else rollout(method, batch, x0, b)[0]
        for x in states:
            p = method.network(x[None])[0]
            held = {l for l in range(PROMPT, L) if not torch.equal(x[l], x0[b, l])}
            held_count += len(held)
            free = [l for l in range(PROMPT, L) if own or l not in held]
            want["ril"] = want["ril"] + sum(weighted_ce(p[l], e[l]) for l in free)
            proposing = range(PROMPT, L) if where == "all" else free
            learning = [l for l in proposing if where != "open" or l not in held]
            proposed = batch.tokens[b].clone()
            for l in proposing:
                proposed[l] = p[l].argmax()
            trunk = method.network.hidden(method.network.embed_dense(x[None])[0])[0].detach()
            q = method.network.quality_logits(trunk, proposed[None])[0].sigmoid()
            want["ril_quality"] = want["ril_quality"] - sum(
                (q[l] if proposed[l] == batch.tokens[b, l] else 1 - q[l]).log() for l in learning
            )
    assert held_count
    check(method, batch, {name: x / (B * (L - PROMPT)) for name, x in want.items()}, ril=0.6, ril_quality=0.3)


def row_of(batch, b):
    one = slice(b, b + 1)
    return replace(batch, tokens=batch.tokens[one], prompt=batch.prompt[one], sample_key=batch.sample_key[one])


@pytest.mark.parametrize("other", [{"commit": False}, {"semigroup": 1.0}, {"anchor": 1.0}])
def test_own_choices_are_tokens(other):
    with pytest.raises(UsageError, match=r"method\.ril\.own holds tokens"):
        RilConfig(weight=1.0, own=0.5, **other)
