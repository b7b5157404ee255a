"""It learns: the toy recipes reach their known answers. Frequencies and agreement, never seconds.

Shorter runs than the recipes', and a smaller network: their answers come long before the recipes end.
"""

from dataclasses import replace
from pathlib import Path

import pytest

import dbtm
from dbtm.config import RunConfig
from dbtm.evals import quick
from dbtm.recipes import recipe
from dbtm.sampling import Sampler
from dbtm.train.loop import fit


def trained(run: RunConfig, folder: Path, **settings) -> Sampler:
    """The averaged weights at the end of a run."""
    return dbtm.load(fit(replace(run, train=replace(run.train, device="cpu", **settings)), folder))


@pytest.mark.parametrize("seed", [0, 1])
def test_the_simplex_map_is_the_exact_flows(tmp_path, seed):
    run = recipe("simplex")
    small = replace(run, model=replace(run.model, depth=1))
    result = quick.evaluate(trained(small, tmp_path, steps=350, seed=seed), seed)
    assert result["total_variation"] <= 0.03
    assert result["agreement"] >= 0.95


def test_one_step_knows_the_joint_distribution_and_refinement_knows_it_better(tmp_path):
    run = recipe("markov")
    small = replace(run, model=replace(run.model, width=48, depth=2))
    sampler = trained(small, tmp_path, steps=450, batch=128)
    one, four = (sampler.task.pair_distance(sampler.sample(5_000, nfe=nfe, seed=0).tokens) for nfe in (1, 4))
    assert one <= sampler.task.independent_bound / 2
    assert four < one
