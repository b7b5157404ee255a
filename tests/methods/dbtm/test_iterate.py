"""The iterated map and the flow of its field, against dense float64 loops."""

import numpy as np
import pytest
import torch

from dbtm.config import Shape
from dbtm.core.errors import UsageError
from dbtm.methods.dbtm.evaluator import noise
from dbtm.methods.dbtm.refine import NOISE
from tests.conftest import random_map, sampler_of
from tests.sampling.given import L, V, prompts


def dense_flow(model, given, step, steps, seed):
    """Euler steps of size `step` from the dense x0, given positions clean; step 1 is the iterated map."""
    x0 = noise(model, given.keys(seed, NOISE, 1)[:, 0], 1.0).dense()
    clean = given.clean[..., None]
    given_x = torch.nn.functional.one_hot(given.tokens, V).to(x0.dtype)
    x = torch.where(clean, given_x, x0)
    for _ in range(steps):
        x = torch.where(clean, given_x, (1 - step) * x + step * model(x))
    return x.argmax(-1).numpy()


def test_iterating_is_the_dense_map_again_and_again():
    """T^k in float64; its first application equals the single evaluation of `refine`."""
    sampler = sampler_of(random_map(dropout=0.0).double())
    tokens, clean = prompts(40)
    given = sampler.given(tokens, clean)
    found = [sampler.sample(tokens=tokens, clean=clean, sampler="iterate", nfe=times, seed=3) for times in (1, 3)]
    for times, trace in zip((1, 3), found):
        assert np.array_equal(trace.tokens, dense_flow(sampler.network, given, 1.0, times, 3))
        assert (trace.nfe == times).all()
    assert not np.array_equal(found[0].tokens, found[1].tokens)
    assert np.array_equal(found[0].tokens, sampler.sample(tokens=tokens, clean=clean, nfe=1, seed=3).tokens)


def dense_to_a_fixed_point(model, given, index, tolerance, most, seed):
    """T applied to one dense sample up to a fixed point: tokens, and the number of applications."""
    clean, tokens = given.clean[index], given.tokens[index]
    x0 = noise(model, given.keys(seed, NOISE, 1)[:, 0], 1.0).dense()[index]
    known = torch.eye(V, dtype=x0.dtype)[tokens]
    x = torch.where(clean[:, None], known, x0)
    for times in range(1, most + 1):
        p = model(x[None])[0]
        after = torch.where(clean[:, None], known, p)
        if times > 1 and (after - x).abs().max() <= tolerance:
            break
        x = after
    return torch.where(clean, tokens, p.argmax(-1)).numpy(), times


def test_iterating_may_stop_at_a_fixed_point():
    """Each sample stops by itself, as in a dense float64 loop; its NFE is the number of evaluations used."""
    model = random_map(dropout=0.0).double()
    model.head.weight.data *= 0.5  # a map that converges
    sampler = sampler_of(model)
    tokens, clean = prompts(12)
    given = sampler.given(tokens, clean)
    options = {"tokens": tokens, "clean": clean, "sampler": "iterate", "seed": 3}
    trace = sampler.sample(**options, nfe=40, tolerance=1e-3, trace=True)
    want = [dense_to_a_fixed_point(sampler.network, given, i, 1e-3, 40, 3) for i in range(12)]
    assert np.array_equal(trace.tokens, np.stack([row for row, _ in want]))
    assert trace.nfe.tolist() == [times for _, times in want]
    assert len(set(trace.nfe.tolist()) - {40}) > 1
    assert len(trace.rounds) == trace.nfe.max()
    assert (sampler.sample(**options, nfe=6).nfe == 6).all(), "off by default"
    assert sampler.sample(**options, nfe=1, tolerance=1e-3).nfe.tolist() == [1] * 12
    assert "tolerance" not in sampler.with_options(sampler="iterate").shown()
    assert sampler.with_options(sampler="iterate", tolerance=0.5).shown()["tolerance"] == 0.5


@pytest.mark.parametrize("wrong", [{"tolerance": 0.1}, {"tolerance": 0.1, "sampler": "integrate"}, {"tolerance": -1.0}])
def test_a_tolerance_is_for_what_is_held(wrong):
    with pytest.raises(UsageError, match="tolerance"):
        sampler_of(random_map(dropout=0.0)).with_options(**wrong)


def test_iterating_and_refining_start_from_the_same_noise():
    """Also for a vocabulary larger than the width, where x0 W is drawn with the Cholesky factor."""
    sampler = sampler_of(random_map(shape=Shape(40, L), dropout=0.0).double())
    assert sampler.evaluator().prior.factor_DD is not None
    iterated, refined = (sampler.sample(20, sampler=name, nfe=1, seed=3).tokens for name in ("iterate", "refine"))
    assert np.array_equal(iterated, refined)


def test_integration_takes_euler_steps():
    """Against a dense float64 loop; steps of another size than H / N end elsewhere."""
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
