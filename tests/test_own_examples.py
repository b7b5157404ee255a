"""The examples of docs/own.md at a small size: their rows, their metrics, training and evaluation."""

import json

import pytest

from tests.scripts import load_script

SMALL = ("model.width=16", "model.depth=1", "model.heads=2", "train.steps=3", "train.batch=8", "optim.warmup=1",
         "train.device=cpu")  # fmt: skip


@pytest.fixture(scope="module")
def own():
    return load_script("own")


def test_the_rows_are_right_and_the_metrics_know_wrong_ones(own):
    assert all(own.is_sorted(own.sorted_rows(50).tolist()))
    assert own.is_sorted([[1, 2, 2], [2, 1, 3]]) == [True, False]
    rows = own.brackets(200)
    assert {len(row) for row in rows} == {24}
    assert all(own.is_balanced(rows))
    assert own.is_balanced(["()[]", "([)]", "((", ")("]) == [True, False, False, False]


def test_every_shape_of_brackets_is_equally_likely(own):
    """Three pairs have five shapes."""
    shapes = [row.replace("[", "(").replace("]", ")") for row in own.brackets(3000, pairs=3)]
    counts = {shape: shapes.count(shape) for shape in set(shapes)}
    assert len(counts) == 5
    assert max(abs(count - 600) for count in counts.values()) < 100  # over four standard deviations


@pytest.mark.parametrize("name", ["sorted", "brackets"])
def test_an_example_trains_and_is_measured(own, name, tmp_path):
    found = own.measure(name, tmp_path, n=60, changes=SMALL)
    metric = own.EXAMPLES[name].metric
    held, *samples = found["rows"]
    assert (held["kind"], held[metric]) == ("held out", 1.0)
    assert [row["settings"]["nfe"] for row in samples] == [1, 2, 4, 8, 16]
    assert all(0 <= row[metric] <= 1 for row in samples)
    assert "denoising" in found["held_out"]["kind"]
    assert found["data"]["held_out"] == 3
    json.dumps(found, allow_nan=False)
