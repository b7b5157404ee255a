"""FMLM+ on the reference problem: zero gradient at the exact map, the distribution of posterior refinement."""

import numpy as np
import pytest
import torch

from dbtm.core.errors import UsageError
from dbtm.evals.training_cost import Pass, count_passes
from dbtm.methods.flow import fmlm_plus
from dbtm.methods.flow.fmlm_plus import FMLMPlus
from dbtm.methods.flow.pairs import Pairs
from dbtm.recipes import recipe
from tests.methods.flow.exact import Exact, X, denoiser, two_time_of_tokens
from tests.methods.flow.test_flm import posterior
from tests.methods.reference import ALL, SECOND, P, V, chi_square, examples, run_of, sampled

N = 5_000


def at(*t):
    return torch.tensor(t, dtype=torch.float64)


def exact(steps=40, **more) -> Exact:
    return Exact(lambda x, s, t: two_time_of_tokens(x, s, t, steps), **more)


def marginal(x, s, t):
    """D(noise, 0 | context): the distribution of each position given the clean tokens."""
    return denoiser(x, torch.zeros(len(x), dtype=torch.float64), s == 1)


def test_no_gradient_at_the_exact_map_off_the_diagonal(monkeypatch):
    method = run_of(FMLMPlus, logit_cap=0)
    method.network = exact(steps=1_000, rows=2)
    pairs = Pairs(at(0.4, 0.2), at(0.4, 0.7), slice(0, 0), slice(0, None))
    monkeypatch.setattr(fmlm_plus, "draw_pairs", lambda *_: pairs)
    method.clean = lambda batch: torch.tensor([[False, False], [False, True]])
    (part,) = method.parts(examples(ALL[[2, 5]]))
    part.loss.backward()
    assert method.network.free.grad.abs().max() < 1e-9


def test_the_diagonal_learns_the_denoiser(monkeypatch):
    """The mean gradient over the sequences' posterior at x is zero, and that of one sequence is not."""
    method = run_of(FMLMPlus, logit_cap=0)
    pairs = Pairs(at(0.6), at(0.6), slice(0, None), slice(0, 0))
    monkeypatch.setattr(fmlm_plus, "draw_pairs", lambda *_: pairs)
    method.clean = lambda batch: batch.prompt
    network = method.network = exact()
    network.embed = lambda state, noise=None: (X, None)
    total = torch.zeros(1, 2, V, dtype=torch.float64)
    for sequence, weight in zip(ALL, posterior(X, at(0.6)), strict=True):
        (part,) = method.parts(examples(sequence[None]))
        network.zero_grad()
        part.loss.backward()
        total += weight * network.free.grad
    assert total.abs().max() < 1e-10
    assert network.free.grad.abs().max() > 1e-3


def test_context_has_time_one_in_every_pass():
    method, seen = run_of(FMLMPlus), []
    network = method.network = exact(rows=1)
    hidden = network.hidden
    network.hidden = lambda h, **more: (seen.append((h.detach(), more["times"])), hidden(h, **more))[1]
    network.free = None
    clean = torch.arange(9)[:, None] % 2 == torch.tensor([0, 1])
    method.clean = lambda batch: clean
    (part,) = method.parts(examples(ALL))
    assert part.loss.isfinite()
    assert len(seen) == 3
    odd = clean[1::2]
    for (h, times), where in zip(seen, (odd, odd, clean), strict=True):
        assert all((t[where] == 1).all() for t in times)
        assert all((t[~where] < 1).any() for t in times)
        tokens = ALL if where is clean else ALL[1::2]
        torch.testing.assert_close(h[where], torch.nn.functional.one_hot(tokens, V).double()[where])


def test_the_share_of_context_is_even_and_the_prompt_is_in_it():
    method, n = run_of(FMLMPlus), 9 * 500
    prompt = torch.zeros(n, 2, dtype=torch.bool)
    prompt[:, 0] = True
    clean = method.clean(examples(torch.zeros(n, 2, dtype=torch.int64), prompt))
    assert clean[:, 0].all()
    assert clean[:, 1].double().mean() == pytest.approx(0.5, abs=0.03)
    assert torch.equal(run_of(FMLMPlus, context=False).clean(examples(ALL)), torch.zeros(9, 2, dtype=torch.bool))


@pytest.mark.parametrize(("nfe", "substeps"), [(1, 1), (3, 1), (2, 2)])
def test_the_exact_map_commits_everything_at_once_to_the_law(nfe, substeps):
    trace = sampled(run_of(FMLMPlus, logit_cap=0), exact(learn=False), N, nfe=nfe, substeps=substeps)
    assert (trace.nfe == substeps).mean() > 0.99  # every confidence is 1, except for trajectories between two vertices
    assert chi_square(trace.tokens, P) > 1e-4


def test_one_drawn_token_per_round_is_any_order_ar():
    method = run_of(FMLMPlus, logit_cap=0)
    trace = sampled(method, Exact(marginal, learn=False), N, nfe=2, threshold=2.0, temperature=1.0)
    assert (trace.nfe == 2).all()
    assert chi_square(trace.tokens, P) > 1e-4
    at_once = sampled(method, Exact(marginal, learn=False), N, nfe=1, temperature=1.0)
    assert chi_square(at_once.tokens, P) < 1e-4


def test_argmax_commits_are_one_sequence_in_the_order_of_confidence():
    """p1 = (.40, .25, .35), p2 = (.36, .26, .38): position 1 first, token 0; then position 2 given it, token 0."""
    trace = sampled(run_of(FMLMPlus, logit_cap=0), Exact(marginal, learn=False), 20, nfe=2)
    assert (trace.tokens == [0, 0]).all()
    assert (trace.rounds[0].committed == [True, False]).all()


def test_the_threshold_commits_more_and_top_k_a_fixed_number():
    method, network = run_of(FMLMPlus, logit_cap=0), Exact(marginal, learn=False)
    assert (sampled(method, network, 5, nfe=4, threshold=0.3).nfe == 1).all()
    assert (sampled(method, network, 5, nfe=4).nfe == 2).all()  # at least one per round
    assert (sampled(method, network, 5, nfe=4, top_k=2).nfe == 1).all()


def test_given_tokens_stay_and_the_rest_follows_them():
    clean = torch.tensor([[False, True]]).expand(N, 2)
    method = run_of(FMLMPlus, logit_cap=0)
    trace = sampled(method, exact(learn=False), N, tokens=torch.full((N, 2), 1), clean=clean, nfe=2)
    assert (trace.tokens[:, 1] == 1).all()
    first = np.bincount(trace.tokens[:, 0], minlength=V) / N
    np.testing.assert_allclose(first, P[:, 1] / SECOND[1], atol=0.02)


def test_a_budget_that_does_not_divide_is_refused():
    method = run_of(FMLMPlus)
    with pytest.raises(UsageError, match="must be a multiple of"):
        method.check_options(method.Options(nfe=3, substeps=2))


def test_a_step_costs_four_forward_passes():
    passes = count_passes(recipe("markov").by("fmlm-plus"))
    assert passes == {Pass("map", gradient=True): 64, Pass("map", gradient=False): 64}  # 3 + 1: two passes of half
