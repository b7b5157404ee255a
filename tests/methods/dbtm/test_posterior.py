"""The posterior at the prior's mean: the term, what it converges to, and the rounds that draw from it."""

from dataclasses import replace
from itertools import product

import pytest
import torch

from dbtm.config import Shape
from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.methods.base import Examples, backward
from dbtm.methods.dbtm import Config, LossConfig, Options, PathConfig, PosteriorConfig
from dbtm.methods.dbtm.streams import KNOWN
from dbtm.tasks.own import Own
from tests.conftest import random_map, sampler_of, with_positions
from tests.methods.dbtm.oracle import dense_rounds
from tests.methods.dbtm.step import PROMPT, B, L, build, examples, one_hot
from tests.sampling.given import prompts
from tests.train.test_resume import tiny_run

STEPS = 300
ALONE = LossConfig(transport=0.0, boundary=0.0, anchor=0.0, quality=0.0)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_the_term_recomputed_with_dense_states(monkeypatch, small, spread):
    """Plain cross-entropy with x1 on a random context and 1/V elsewhere, one sample at a time, with its gradients."""
    monkeypatch.setattr(Shape, "small_vocab", property(lambda self: small))
    method = build(loss=ALONE, posterior=PosteriorConfig(weight=0.7, spread=spread))
    batch = examples()
    got = backward(method, batch)
    gradients = {n: p.grad for n, p in method.network.named_parameters() if p.grad is not None and p.grad.any()}
    method.network.zero_grad()
    order, want = [0, 4, 2, 1, 5, 3], torch.zeros(())  # of six positions, what spread commits take first
    for b in range(B):
        key = rng.fold(batch.key(KNOWN)[b : b + 1], 0)
        f, u = rng.uniform(key, 1)[0, 0], rng.uniform(rng.fold(batch.key(KNOWN)[b : b + 1], 1), L)[0]
        chosen = [(order.index(l) + 1) / L < f for l in range(L)] if spread else [u[l] < f for l in range(L)]
        known = [l < PROMPT or bool(chosen[l]) for l in range(L)]
        e = one_hot(batch.tokens[b])
        p = method.network(torch.where(torch.tensor(known)[:, None], e, 1 / e.shape[-1])[None])[0]
        want = want + sum(-p[l, batch.tokens[b, l]].log() for l in range(L) if not known[l])
    want = want / (B * (L - PROMPT))
    assert got["posterior"].item() == pytest.approx(want.item(), rel=1e-9)
    assert got["loss"].item() == pytest.approx(0.7 * want.item(), rel=1e-9)
    (0.7 * want).backward()
    wanted = {n: p.grad for n, p in method.network.named_parameters() if p.grad is not None and p.grad.any()}
    assert gradients.keys() == wanted.keys()
    for name, gradient in wanted.items():
        torch.testing.assert_close(gradients[name], gradient, rtol=1e-7, atol=1e-10, msg=name)


def test_a_row_without_context_does_not_explode_the_gradient():
    """At 0 it would: every norm of a zero vector multiplies the gradient by 1 / sqrt(eps) = 1000."""
    torch.manual_seed(0)
    method = build(
        model=replace(tiny_run().model, depth=8, loops=2, dropout=0.0), posterior=PosteriorConfig(weight=1.0)
    )
    network = method.network
    with torch.no_grad():
        network.head.weight.normal_(std=0.1)
    tokens = examples().tokens
    known = torch.zeros_like(tokens, dtype=torch.bool)
    known[1:, ::2] = True
    h = network.embed_known(tokens, known)
    gradient = torch.autograd.grad(-network.logits(h)[0].log_softmax(-1)[..., 0].sum(), h)[0].norm(dim=(1, 2))
    assert gradient[0] < 100 * gradient[1:].mean()
    network.zero_grad()
    network.logits(network.embed_known(tokens, known))[0].log_softmax(-1)[..., 0].sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in network.parameters())


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_late_contexts_are_from_a_beta_law(spread):
    """Of L positions in order, m are known where m <= L f < m + 1; at random, L f of them on average."""
    rows, late = 4000, 2.5
    method = build(posterior=PosteriorConfig(weight=1.0))
    tokens = torch.zeros(rows, 8, dtype=torch.long)
    batch = Examples(tokens, tokens > 0, rng.fold(7, torch.arange(rows)), step=0)
    count = method.drawn_context(batch, KNOWN, 0.0, spread, late).sum(-1)
    if spread:
        law = [((m + 1) / 8) ** late - (m / 8) ** late for m in range(8)]
        assert (torch.bincount(count, minlength=8) / rows).tolist() == pytest.approx(law, abs=0.025)
    assert count.double().mean() / 8 == pytest.approx(late / (late + 1) - spread / 16, abs=0.015)


def test_a_share_of_the_rows_is_an_unbiased_estimate():
    """Half of the rows count twice: the term is that of a batch of these rows alone."""
    batch = examples()
    rows = Examples(batch.tokens[:2], batch.prompt[:2], batch.sample_key[:2], batch.step)
    half = backward(build(loss=ALONE, posterior=PosteriorConfig(weight=1.0, fraction=0.5)), batch)
    alone = backward(build(loss=ALONE, posterior=PosteriorConfig(weight=1.0)), rows)
    assert half["posterior"].item() == pytest.approx(alone["posterior"].item(), rel=1e-6)


@pytest.mark.usefixtures("double")
def test_trained_to_its_end_it_is_the_exact_posterior():
    """A joint law of two ternary tokens: every conditional law, of every context, comes out of one map."""
    law = torch.distributions.Dirichlet(torch.full((9,), 0.4)).sample().reshape(3, 3)
    counts = (law * 512).round().long()
    law, states = counts / counts.sum(), torch.tensor([*product(range(3), repeat=2)])
    tokens = states.repeat_interleave(counts.flatten(), 0)
    nothing = torch.zeros_like(tokens, dtype=torch.bool)
    method = build(
        task=Own(vocab=3, length=2),
        model=replace(tiny_run().model, dropout=0.0, position_axes=(2,)),
        path=PathConfig(coupling="independent"),
        loss=ALONE,
        posterior=PosteriorConfig(weight=1.0),
    )
    optimizer = torch.optim.Adam(method.network.parameters())
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = 5e-3 * (1 - step / STEPS)
        optimizer.zero_grad()
        backward(method, Examples(tokens, nothing, rng.fold(1, step, torch.arange(len(tokens))), step))
        optimizer.step()
    for context in product((None, 0, 1, 2), repeat=2):
        given = law[tuple(slice(None) if token is None else slice(token, token + 1) for token in context)]
        if given.sum() < 0.1:
            continue  # too rare to be learned well
        T = method.network(
            torch.stack([torch.eye(3)[token] if token is not None else torch.full((3,), 1 / 3) for token in context])[
                None
            ]
        )[0]
        for l in (l for l in range(2) if context[l] is None):
            exact = given.sum(1 - l) / given.sum()
            assert T[l].tolist() == pytest.approx(exact.tolist(), abs=0.03), (context, l)


@torch.no_grad()
@pytest.mark.parametrize(("mean_from", "mean_temperature"), [(1, 1.0), (2, 1.0), (2, 0.0), (3, 0.7), (9, 1.0)])
def test_rounds_from_mean_from_on_draw_at_the_mean(mean_from, mean_temperature):
    mean = {"mean_from": mean_from, "mean_temperature": mean_temperature}
    options = Options(nfe=3, kappa=0.45, sigma=1.4, **mean)
    model = with_positions(random_map(shape=Shape(7, 6), dropout=0.0, position_axes=(6,)).double())
    tokens, clean = (x[:, :6] for x in prompts(5))
    trace = sampler_of(model, options).sample(tokens=tokens, clean=clean, seed=8, trace=True)
    for b in range(5):
        given = [int(token) if known else None for token, known in zip(tokens[b], clean[b])]
        want = dense_rounds(model, b, given, options, seed=8)
        assert trace.nfe[b] == len(want)
        for r, got in enumerate(trace.rounds):
            now = want[min(r, len(want) - 1)]
            assert (got.tokens[b].tolist(), got.committed[b].tolist()) == (now[0], now[1])
            assert got.score[b].tolist() == pytest.approx(now[2], rel=1e-6)


@torch.no_grad()
def test_a_budget_of_one_evaluation_starts_from_noise():
    sampler = sampler_of(random_map().double(), Options(scorer="spread", mean_from=1))
    plain, mean = (sampler.sample(6, nfe=1, seed=3, mean_from=mean_from).tokens for mean_from in (0, 1))
    assert (plain == mean).all()
    assert not (plain == sampler.sample(6, nfe=2, seed=3, mean_from=1).tokens).all()
    larger = {nfe: sampler.sample(6, nfe=nfe, seed=3, mean_from=1, mean_budget=3).tokens for nfe in (2, 3)}
    assert (larger[2] == sampler.sample(6, nfe=2, seed=3, mean_from=0).tokens).all(), "below the budget, too"
    assert (larger[3] == sampler.sample(6, nfe=3, seed=3, mean_from=1).tokens).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mean_from": 2, "rule": "revise"}, "sample.mean_from needs sample.sampler=refine"),
        ({"mean_from": 2, "commit": False}, "sample.mean_from needs sample.sampler=refine"),
        ({"mean_from": 2, "sampler": "iterate"}, "sample.mean_from needs sample.sampler=refine"),
        ({"mean_from": 2, "scorer": "quality"}, "was trained at noisy states"),
        ({"mean_from": -1}, "mean_from"),
        ({"mean_from": 2, "mean_budget": 1}, "mean_budget"),
        ({"mean_temperature": -1.0}, "mean_temperature"),
    ],
)
def test_options_that_do_not_go_together(options, message):
    with pytest.raises(UsageError, match=message):
        Options(**options)


def test_a_map_that_was_not_trained_there_is_refused():
    sampler = sampler_of(random_map())
    with pytest.raises(UsageError, match=r"set method\.posterior\.weight=1"):
        sampler.sample(2, nfe=2, mean_from=2)
    with pytest.raises(UsageError, match=r"set method\.posterior\.weight=1"):
        tiny_run(sample=Options(mean_from=2))
    assert tiny_run(sample=Options(mean_from=2), posterior=PosteriorConfig(weight=1.0)).sample.mean_from == 2


@pytest.mark.parametrize("values", [{"weight": -1.0}, {"fraction": 0.0}, {"fraction": 2.0}, {"spread": 1.5}])
def test_values_out_of_range_are_named(values):
    with pytest.raises(UsageError, match=f"method.posterior.{next(iter(values))}"):
        PosteriorConfig(**values)


def test_it_is_off_unless_asked_for():
    assert not Config().posterior.weight
    assert not Options().mean_from
