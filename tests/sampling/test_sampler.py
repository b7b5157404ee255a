"""The user's sampler: batches, seeds, refused requests, and changing weights."""

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from tests.conftest import random_map, sampler_of
from tests.sampling.given import V, prompts


@pytest.fixture(scope="module")
def sampler():
    return sampler_of(random_map(dropout=0.0), batch=64)


@pytest.mark.parametrize("changes", [{}, {"temperature": 1.3}, {"commit": False}, {"repetition_penalty": 1.0}])
def test_results_do_not_depend_on_the_batch_size(changes):
    model = random_map(dropout=0.0).double()
    whole = sampler_of(model, batch=64).sample(23, nfe=4, seed=5, **changes)
    parts = sampler_of(model, batch=4).sample(23, nfe=4, seed=5, **changes)
    assert np.array_equal(whole.tokens, parts.tokens)
    assert np.array_equal(whole.nfe, parts.nfe)


def test_bad_requests_are_refused(sampler):
    with pytest.raises(UsageError, match="did you mean 'kappa'"):
        sampler.sample(2, kapa=0.3)
    with pytest.raises(UsageError, match="no quality head"):
        sampler_of(random_map(quality=None)).sample(2, scorer="quality")
    with pytest.raises(UsageError, match="at least 1"):
        sampler.sample(0)
    with pytest.raises(UsageError, match="either"):
        sampler.sample()
    with pytest.raises(UsageError, match="did you mean 'quality'"):
        sampler.sample(2, scorer="qualty")
    tokens, clean = prompts(2)
    for bad, mask, message in (
        (tokens, None, "need `clean`"),
        (tokens[:, :5], clean[:, :5], "must be integers"),
        (tokens, clean.astype(int), "must be booleans"),
        (tokens + V, clean, "outside"),
    ):
        with pytest.raises(UsageError, match=message):
            sampler.sample(tokens=bad, clean=mask)


def test_compiled_rounds_agree_with_eager_ones():
    """Capture without code generation; batches shrink as samples finish, so any size must work."""
    model = random_map(dropout=0.0).double()
    eager = sampler_of(model, batch=16).sample(23, nfe=4, kappa=0.5)
    compiled = sampler_of(model, batch=16).compile("aot_eager").sample(23, nfe=4, kappa=0.5)
    assert np.array_equal(eager.tokens, compiled.tokens)
    assert len(set(eager.nfe.tolist())) > 1


def test_new_weights_are_seen():
    """Prior and recordings depend on the weights: after loading or folding, the old ones are not used."""
    model = random_map(dropout=0.0).requires_grad_(False).eval()
    sampler = sampler_of(model)
    made = sampler.evaluator()
    assert sampler.evaluator() is made
    model.fold()
    folded = sampler.evaluator()
    assert folded is not made
    model.unfold()
    model.fold()  # the same values in new tensors, which the old recording does not read
    again = sampler.evaluator()
    assert again is not folded
    model.load_state_dict(random_map(dropout=0.0).state_dict())
    assert sampler.evaluator() is not again
