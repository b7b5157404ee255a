from itertools import permutations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dbtm.simplex import assignment, one_hot, ot_cost


def problem(seed, B=5, L=4, V=3):
    torch.manual_seed(seed)
    prompt = torch.rand(B, L) < 0.3
    return torch.randn(B, L, V, dtype=torch.float64), torch.randint(0, V, (B, L)), ~prompt


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_optimal_against_brute_force(seed):
    noise, tokens, target = problem(seed)
    x1 = one_hot(tokens, 3, torch.float64)

    def reward(permutation):
        return sum((noise[i] * x1[j] * target[j, :, None]).sum() for j, i in enumerate(permutation))

    best = max(reward(p) for p in permutations(range(5)))
    got = assignment(ot_cost(noise, tokens, target))
    torch.testing.assert_close(reward(got.tolist()), best)


def test_it_is_the_squared_distance_where_targets_agree():
    noise, tokens, _ = problem(3)
    target = torch.ones_like(tokens, dtype=torch.bool)
    target[:, 0] = False
    distance = (noise[:, None, 1:] - one_hot(tokens, 3, torch.float64)[None, :, 1:]).square().sum((-1, -2))
    assert torch.equal(assignment(ot_cost(noise, tokens, target)), assignment(distance))


def test_both_marginals_are_preserved():
    """The noise rows are permuted: each is used once; the data stays in place."""
    noise, tokens, target = problem(1, B=40)
    permutation = assignment(ot_cost(noise, tokens, target))
    assert sorted(permutation.tolist()) == list(range(40))


def test_prompt_positions_do_not_count():
    noise, tokens, target = problem(2, B=8)
    changed = noise.clone()
    target[:] = target[:1]
    changed[:, ~target[0]] = 100 * torch.randn_like(changed[:, ~target[0]])
    assert torch.equal(assignment(ot_cost(noise, tokens, target)), assignment(ot_cost(changed, tokens, target)))
