"""The map again and again, and the flow of its field, against dense float64 loops."""

import numpy as np
import pytest
import torch

from dbtm.config import Shape
from dbtm.methods.dbtm.refine import NOISE, noise
from tests.conftest import random_map, sampler_of
from tests.sampling.given import L, V, prompts


def dense_flow(model, given, step, steps, seed):
    """Euler steps of the size `step` from the dense x0, given positions clean; with step 1 the map again and again."""
    x0 = noise(model, given.keys(seed, NOISE, 1)[:, 0], 1.0).dense()
    clean = given.clean[..., None]
    given_x = torch.nn.functional.one_hot(given.tokens, V).to(x0.dtype)
    x = torch.where(clean, given_x, x0)
    for _ in range(steps):
        x = torch.where(clean, given_x, (1 - step) * x + step * model(x))
    return x.argmax(-1).numpy()


def test_iterating_is_the_dense_map_again_and_again():
    """T^k of float64, whose first application is the one evaluation of `refine`."""
    sampler = sampler_of(random_map(dropout=0.0).double())
    tokens, clean = prompts(40)
    given = sampler.given(tokens, clean)
    found = [sampler.sample(tokens=tokens, clean=clean, sampler="iterate", nfe=times, seed=3) for times in (1, 3)]
    for times, trace in zip((1, 3), found):
        assert np.array_equal(trace.tokens, dense_flow(sampler.network, given, 1.0, times, 3))
        assert (trace.nfe == times).all()
    assert not np.array_equal(found[0].tokens, found[1].tokens)
    assert np.array_equal(found[0].tokens, sampler.sample(tokens=tokens, clean=clean, nfe=1, seed=3).tokens)


def test_iterating_and_refining_start_from_the_same_noise():
    """Also where the vocabulary is larger than the width, and x0 W is drawn by its factor."""
    sampler = sampler_of(random_map(shape=Shape(40, L), dropout=0.0).double())
    assert sampler.evaluator().prior.factor_DD is not None
    iterated, refined = (sampler.sample(20, sampler=name, nfe=1, seed=3).tokens for name in ("iterate", "refine"))
    assert np.array_equal(iterated, refined)


def test_integration_takes_euler_steps():
    """A dense float64 loop; steps of another size than H / N end elsewhere."""
    sampler = sampler_of(random_map(dropout=0.0).double())
    model, (tokens, clean) = sampler.network, prompts(40)
    given = sampler.given(tokens, clean)
    for steps, horizon in ((6, 1.5), (6, 3.0), (12, 1.5)):
        trace = sampler.sample(
            tokens=tokens, clean=clean, sampler="integrate", nfe=steps, horizon=horizon, seed=2, trace=True
        )
        assert np.array_equal(trace.tokens, dense_flow(model, given, horizon / steps, steps, 2))
        assert not np.array_equal(trace.tokens, dense_flow(model, given, 1.0, steps, 2))
        assert (trace.tokens[clean] == tokens[clean]).all()
        assert (trace.nfe == steps).all()
        assert [state.time for state in trace.rounds] == pytest.approx(np.arange(1, steps + 1) * horizon / steps)
        assert trace.rounds[0].committed is None
        for r in (1, steps):
            assert np.array_equal(trace.rounds[r - 1].tokens, dense_flow(model, given, horizon / steps, r, 2))
