"""It learns: the toy recipes reach their known answers. Frequencies and agreement, never seconds."""

import json
from dataclasses import replace

import pytest

from dbtm.recipes import recipe
from dbtm.train.loop import fit


def evaluation(run, folder) -> dict[str, float]:
    """The last evaluation in metrics.jsonl."""
    fit(replace(run, train=replace(run.train, device="cpu")), folder)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return next(row for row in reversed(rows) if "eval/score" in row)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_simplex_map_is_the_exact_flows(tmp_path, seed):
    run = recipe("simplex")
    result = evaluation(replace(run, train=replace(run.train, seed=seed)), tmp_path)
    assert result["eval/total_variation"] <= 0.03
    assert result["eval/agreement"] >= 0.95


def test_one_step_knows_the_joint_distribution_and_refinement_knows_it_better(tmp_path):
    run = recipe("markov")
    half = replace(run, train=replace(run.train, steps=450))  # enough for the bound, and half the time
    result = evaluation(half, tmp_path)
    assert result["eval/pair_tv_1"] <= result["eval/independent"] / 2
    assert result["eval/pair_tv_4"] < result["eval/pair_tv_1"]
