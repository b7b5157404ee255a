"""Stratified times: one in each interval, the same for any split of a batch, and separate draws are independent."""

import torch

from dbtm.core import rng
from dbtm.methods.base import Examples
from dbtm.methods.times import permutation, stratified

N = 512


def batch(rows=slice(0, N), seed=0, step=0):
    place = torch.arange(N)[rows]
    tokens = torch.zeros(len(place), 2, dtype=torch.int64)
    keys = rng.fold(seed, step, step * N + place)
    step_key = rng.fold(seed, step, -1).expand(len(place))
    return Examples(tokens, tokens > 0, keys, step, place=place, step_key=step_key)


def test_one_time_in_every_interval_in_order_or_permuted():
    plain, mixed = stratified(batch(), 1, N), stratified(batch(), 1, N, permuted=True)
    assert (plain * N).long().tolist() == list(range(N))
    assert sorted((mixed * N).long().tolist()) == list(range(N))
    assert (mixed * N).long().tolist() != list(range(N))


def test_a_part_of_the_batch_has_the_times_it_has_in_the_whole():
    for permuted in (False, True):
        whole = stratified(batch(), 1, N, permuted=permuted)
        parts = [stratified(batch(slice(i, i + 128)), 1, N, permuted=permuted) for i in range(0, N, 128)]
        assert torch.equal(torch.cat(parts), whole)


def test_the_scale_is_the_formula_to_the_last_bit():
    eps, examples = 1e-3, batch()
    u = rng.uniform(examples.key(7), 1)[:, 0]
    assert torch.equal(stratified(examples, 7, N, low=eps), eps + (1 - eps) * (u + torch.arange(N)) / N)


def test_permutations_differ_between_steps_streams_and_seeds():
    first = permutation(batch(), 1, N)
    for other in (permutation(batch(step=1), 1, N), permutation(batch(), 2, N), permutation(batch(seed=1), 1, N)):
        assert sorted(other.tolist()) == list(range(N))
        assert (other == first).double().mean() < 0.02


def test_separate_permuted_draws_are_uncorrelated():
    """Correlation of two draws over many steps: 0 within five standard errors; without the permutation it is 1."""
    pairs = [[stratified(batch(step=step), stream, N, permuted=True) for stream in (1, 2)] for step in range(20)]
    first, second = (torch.cat([pair[i] for pair in pairs]) for i in (0, 1))
    assert torch.corrcoef(torch.stack((first, second)))[0, 1].abs() < 5 / len(first) ** 0.5
    plain = torch.stack([stratified(batch(), stream, N) for stream in (1, 2)])
    assert torch.corrcoef(plain)[0, 1] > 0.99


def test_without_places_rows_count_from_the_first():
    examples = batch()
    bare = Examples(examples.tokens, examples.prompt, examples.sample_key, 0)
    assert torch.equal(stratified(bare, 1, N), stratified(examples, 1, N))
    assert sorted((stratified(bare, 1, N, permuted=True) * N).long().tolist()) == list(range(N))
