"""Adaptive depth: another number of loops equals a network built with that number, bit for bit."""

import copy
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from dbtm.config import RunConfig
from dbtm.core.errors import UsageError
from dbtm.evals.cost import cost, flops_of
from dbtm.evals.training_cost import run_flops
from dbtm.methods.dbtm import DBTM, Config, Options
from dbtm.methods.dbtm.evaluator import Evaluator
from tests.conftest import random_map, sampler_of
from tests.methods.dbtm.step import build, examples


def rebuilt(model, loops):
    """A separate network with so many loops and the same weights."""
    other = random_map(1, loops=loops, dropout=0.0)
    other.load_state_dict(model.state_dict())
    return other


@pytest.mark.parametrize("loops", [1, 2, 5])
@pytest.mark.parametrize(
    "way",
    [
        {"nfe": 3, "kappa": 0.6},
        {"nfe": 3, "check": 6, "kappa": 0.6},
        {"nfe": 4, "rule": "revise", "kappa": 0.6},
        {"sampler": "iterate"},
    ],
)
def test_samples_are_those_of_a_network_with_so_many_loops(loops, way):
    model = random_map(loops=2, dropout=0.0)
    ours = sampler_of(model).sample(6, loops=loops, trace=True, **way)
    theirs = sampler_of(rebuilt(model, loops)).sample(6, trace=True, **way)
    for one, other in zip(ours.rounds, theirs.rounds, strict=True):
        assert np.array_equal(one.tokens, other.tokens)
        assert np.array_equal(one.score, other.score)
    assert np.array_equal(ours.nfe, theirs.nfe)


def test_depths_differ_and_leave_the_network_as_it_was():
    sampler = sampler_of(random_map(loops=2, dropout=0.0))
    scores = [sampler.sample(6, nfe=1, loops=loops, trace=True).rounds[0].score for loops in (0, 1, 3, 0, 2)]
    assert np.array_equal(scores[0], scores[3])
    assert np.array_equal(scores[0], scores[4])
    assert not np.array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[1], scores[2])


def drawing(loops=(1, 2, 4)) -> DBTM:
    return build(loops=loops)


def test_every_number_is_drawn_and_depends_on_the_step_alone():
    method = drawing()
    drawn = [method.loops_at(step) for step in range(900)]
    other = drawing()
    assert drawn[::-1] == [other.loops_at(step) for step in reversed(range(900))]
    counts = Counter(drawn)
    assert counts.keys() == {1, 2, 4}
    assert all(240 < count < 360 for count in counts.values())
    assert [method.phase(step)[-1] for step in range(50)] == drawn[:50]  # one recording per number


@pytest.mark.usefixtures("double")
def test_a_step_learns_what_a_network_with_so_many_loops_would():
    method = drawing()
    for step in range(6):
        plain = build(model=replace(method.config.model, loops=method.loops_at(step)))
        ours, theirs = ([part.loss.item() for part in m.parts(examples(step))] for m in (method, plain))
        assert ours == theirs
        assert method.network.trunk.loops == 1
    assert len({method.loops_at(step) for step in range(6)}) > 1


def test_a_step_that_is_given_up_leaves_the_network_as_it_was():
    method = drawing((3,))
    parts = method.parts(examples())
    next(parts)
    assert method.network.trunk.loops == 3
    parts.close()
    assert method.network.trunk.loops == 1


def test_the_cost_of_an_answer_and_of_a_run():
    sampler = sampler_of(random_map(loops=2))
    deep = sampler_of(random_map(loops=5))
    assert flops_of(sampler, {"loops": 5}) == cost(sampler, 5)["flops_per_evaluation"]
    assert cost(sampler, 5) == cost(deep)
    assert flops_of(sampler, {}) == cost(sampler)["flops_per_evaluation"] < flops_of(sampler, {"loops": 5})
    steps = 40
    drawn: RunConfig = replace(drawing().config, train=replace(drawing().config.train, steps=steps))
    fixed = {
        n: run_flops(replace(build().config, model=replace(drawn.model, loops=n), train=drawn.train)) for n in (1, 2, 4)
    }
    expected = sum(fixed[drawing().loops_at(step)] / steps for step in range(steps))
    assert run_flops(drawn) == pytest.approx(expected, rel=1e-12)


def test_bad_numbers_are_refused():
    with pytest.raises(UsageError, match=r"method\.loops"):
        Config(loops=(0, 2))
    with pytest.raises(UsageError, match=r"sample\.loops"):
        Options(loops=-1)
    with pytest.raises(UsageError, match="integrate"):
        Options(loops=2, sampler="integrate")


def test_recordings_of_one_depth_do_not_serve_another():
    """Replaces CUDA graphs: a recording repeats the kernels of the first call."""
    model = random_map(loops=2, dropout=0.0)
    made = []

    def record(run, pool=None):
        made.append(run)
        return run

    evaluator = Evaluator.plain(model).replayed(record)
    h = torch.randn(3, 9, 16)
    with torch.no_grad():
        for loops in (0, 3, 1, 3, 2):
            expected = copy.deepcopy(model).hidden(h, loops=loops or 2)[0]
            assert torch.equal(evaluator.looped(loops).hidden(h), expected)
    assert len(made) == 3  # of 2 (the network's own), 3 and 1
