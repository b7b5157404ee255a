"""The training step against the paper's literal equations, naively, in float64: none of our interpretations is used.

`literal` is alg:btm-train-map with alg:btm-ril, `partial_context` the equations of sec:self-refinement. States are
dense, samples and positions are loops, d/dt T(I_t) is torch.func.jvp of t -> T(I_t), and the commit rule is written out
from eq:commit-rule. Only the draws (x0, t, f, c_l) are the method's. The settings are those for which the code follows
the paper literally: no prompt, sums over l not in C_r (ril.supervise=remaining), the anchor on every position with
t_l > t_anchor (loss.anchor_context). The paper divides by |B|, the code by B L.
"""

import math
from itertools import permutations

import pytest
import torch
from torch.func import jvp

from dbtm.core import rng
from dbtm.methods.base import Examples, backward
from dbtm.methods.dbtm import LossConfig, PathConfig, RilConfig
from dbtm.methods.dbtm.streams import CONTEXT, FRACTION, NOISE, TIME
from tests.methods.dbtm.step import B, L, V, build

pytestmark = pytest.mark.usefixtures("double")

SIGMA, A, T_ANCHOR, C, R, KAPPA, K = 0.8, 2.0, 0.35, 0.5, 0.7, 0.4, 3


def unprompted():
    torch.manual_seed(5)
    tokens = torch.randint(0, V, (B, L))
    return Examples(tokens, torch.zeros(B, L, dtype=torch.bool), rng.fold(2, 0, torch.arange(B) + 3), 0)


def vertices(tokens):
    """e_{x^l} of every position: the one-hot map."""
    out = torch.zeros(L, V)
    for l, token in enumerate(tokens.tolist()):
        out[l, token] = 1.0
    return out


def coupled(batch):
    """Pairs (x0, x1) of a minibatch: x0 ~ N(0, sigma^2 I), assigned so that the sum of |x0 - x1|^2 is least."""
    x1 = [vertices(row) for row in batch.tokens]
    x0 = SIGMA * rng.normal(rng.fold(batch.sample_key, NOISE), L, V, dtype=torch.float64)
    cost = lambda order: sum(((x0[i] - x1[j]) ** 2).sum() for j, i in enumerate(order))  # noqa: E731
    return [(x0[i], x1[j]) for j, i in enumerate(min(permutations(range(B)), key=cost))]


def times(batch):
    """t ~ U(0, 1) of every sample."""
    return [rng.uniform(batch.key(TIME), 1)[b, 0] for b in range(B)]


def weighted(ce, mismatch):
    """w(x) of app:training-hyperparams, gradient-detached."""
    return ((mismatch**2).sum() + C).detach() ** -R * ce


def CE(p, target):
    return -(target * p.log()).sum()


def endpoint(p, target):
    """A cross-entropy with the adaptive weight, whose mismatch is prediction minus target."""
    return weighted(CE(p, target), p - target)


def BCE(right, q):
    return -(q.log() if right else (1 - q).log())


def quality(method, x, tokens, committed=()):
    """q_phi(T(x)) and x_hat = argmax T(x). The paper does not specify the head's inputs besides T's hidden state: ours
    reads the resulting sequence, x_hat at proposed positions and the token at committed ones.
    """
    trunk, _ = method.network.hidden(method.network.embed_dense(x[None])[0])
    proposed = method.network.head(trunk)[0].argmax(-1)
    read = torch.tensor([[tokens[l] if l in committed else proposed[0, l] for l in range(L)]])
    return method.network.quality_logits(trunk, read)[0].sigmoid(), proposed[0]


def transport(T, I, t, positions):
    """sum_l |T(I_t)_l - sg(T(I_t) + d/dt T(I_t))_l|^2, each with its adaptive weight (loss:transport)."""
    p, dp = jvp(lambda s: T(I(s)), (t,), (torch.ones_like(t),))
    gap = p - (p + dp).detach()
    return sum(weighted((gap[l] ** 2).sum(), gap[l]) for l in positions)


def delta(q, uncommitted, r):
    """Delta C_r of eq:commit-rule: the threshold and the floor."""
    n = math.ceil(len(uncommitted) / (K - r + 1))
    ranked = sorted(uncommitted, key=lambda l: q[l], reverse=True)
    return {l for l in uncommitted if q[l] >= KAPPA} | set(ranked[:n])


def literal(method, batch):
    """alg:btm-train-map over all positions, L_phi of sec:quality-correct, loss:ril-c and loss:ril-phi: sums over B."""
    names = ("transport", "boundary", "anchor", "semigroup", "quality", "ril", "ril_quality")
    sums = dict.fromkeys(names, torch.zeros(()))
    T = lambda x: method.network(x[None])[0]  # noqa: E731
    for (x0, x1), t, tokens in zip(coupled(batch), times(batch), batch.tokens):
        everywhere = range(L)
        I = lambda s, x0=x0, x1=x1: (1 - s) ** A * x0 + (1 - (1 - s) ** A) * x1  # noqa: E731
        sums["transport"] = sums["transport"] + transport(T, I, t, everywhere)
        p, p1 = T(I(t)), T(x1)
        sums["boundary"] = sums["boundary"] + sum(endpoint(p1[l], x1[l]) for l in everywhere)
        if t > T_ANCHOR:
            sums["anchor"] = sums["anchor"] + sum(endpoint(p[l], x1[l]) for l in everywhere)
        twice = T(p).detach()
        sums["semigroup"] = sums["semigroup"] + sum(CE(p[l], twice[l]) for l in everywhere)
        q, proposed = quality(method, I(t), tokens)
        for l in everywhere:
            sums["quality"] = sums["quality"] + BCE(x1[l, proposed[l]] == 1, q[l])
        committed = set()
        for r in range(1, K + 1):
            state = torch.stack([x1[l] if l in committed else x0[l] for l in everywhere])
            p, (q, proposed) = T(state), quality(method, state, tokens, committed)
            on_x1 = [(p[l] * x1[l]).sum().item() for l in everywhere]
            committed = committed | delta(on_x1, set(everywhere) - committed, r)
            for l in set(everywhere) - committed:
                sums["ril"] = sums["ril"] + endpoint(p[l], x1[l])
                sums["ril_quality"] = sums["ril_quality"] + BCE(x1[l, proposed[l]] == 1, q[l])
        assert committed == set(everywhere)
    return sums


def partial_context(method, batch):
    """sec:self-refinement: I_t(C) holds x1 on C; loss:transport outside of C; anchor and boundary as the algorithm."""
    sums = dict.fromkeys(("transport", "boundary", "anchor"), torch.zeros(()))
    T = lambda x: method.network(x[None])[0]  # noqa: E731
    f, u = rng.uniform(batch.key(FRACTION), 1)[:, 0], rng.uniform(batch.key(CONTEXT), L)
    sizes = set()
    for b, ((x0, x1), t) in enumerate(zip(coupled(batch), times(batch))):
        clean = {l for l in range(L) if u[b, l] < f[b]}  # c_l ~ Bernoulli(f)
        sizes.add(len(clean))

        def at(s, x0=x0, x1=x1, clean=clean):
            alpha = (1 - s) ** A
            return torch.stack([x1[l] if l in clean else alpha * x0[l] + (1 - alpha) * x1[l] for l in range(L)])

        sums["transport"] = sums["transport"] + transport(T, at, t, set(range(L)) - clean)
        p, p1 = T(at(t)), T(x1)
        for l in range(L):
            sums["boundary"] = sums["boundary"] + endpoint(p1[l], x1[l])
            if (1.0 if l in clean else t) > T_ANCHOR:
                sums["anchor"] = sums["anchor"] + endpoint(p[l], x1[l])
    assert len(sizes) > 1
    return sums


def check(method, batch, sums, weights):
    """Each term, the total and every gradient; the paper divides by |B|, the code by B L."""
    got = backward(method, batch)
    for name, value in sums.items():
        assert got[name].item() * L == pytest.approx(value.item() / B, rel=1e-9), name
    total = sum(weights[name] * value for name, value in sums.items()) / B
    assert got["loss"].item() * L == pytest.approx(total.item(), rel=1e-9)
    names, parameters = zip(*method.network.named_parameters())
    gradients = torch.autograd.grad(total, parameters, allow_unused=True)
    for name, parameter, gradient in zip(names, parameters, gradients):
        ours = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad * L
        theirs = torch.zeros_like(parameter) if gradient is None else gradient
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-9, msg=name)


ADAPTIVE = {"c": C, "r": R, "endpoint_c": C, "endpoint_r": R}


def test_the_step_is_the_papers():
    """The full objective at the end of sec:refinement-in-loop, with a separate lambda for every term."""
    lambdas = {"transport": 1.0, "boundary": 0.8, "anchor": 1.3, "semigroup": 0.6, "quality": 0.9}
    batch = unprompted()
    method = build(
        path=PathConfig(sigma=SIGMA, a=A, t_anchor=T_ANCHOR, context=False),
        loss=LossConfig(**lambdas, **ADAPTIVE, semigroup_depths=(2,)),
        ril=RilConfig(weight=0.7, quality=0.5, depths=(K,), kappa=KAPPA, supervise="remaining"),
    )
    check(method, batch, literal(method, batch), lambdas | {"ril": 0.7, "ril_quality": 0.7 * 0.5})


def test_the_step_with_context_is_the_papers():
    lambdas = {"transport": 1.0, "boundary": 0.8, "anchor": 1.3}
    method = build(
        path=PathConfig(sigma=SIGMA, a=A, t_anchor=T_ANCHOR),
        loss=LossConfig(**lambdas, **ADAPTIVE, quality=0.0, anchor_context=True),
    )
    batch = unprompted()
    check(method, batch, partial_context(method, batch), lambdas)
