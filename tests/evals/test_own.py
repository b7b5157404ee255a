"""Numbers of rows of one's own, against counts by hand."""

import math

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.evals.own import as_users_rows, cross_entropy, load_metric, row_scores
from dbtm.methods.base import method_of
from dbtm.recipes import recipe
from dbtm.tasks.own import Own
from tests.conftest import tiny_config


def sampler_on(task, method="dbtm"):
    from dataclasses import replace

    config = replace(recipe("own").on(task), model=tiny_config(dropout=0.0)).by(method)
    made = method_of(config).start()
    return made.sampler(made.network.eval())


@pytest.fixture
def task(tmp_path):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).integers(0, 2, (400, 3)))
    return Own(data=str(tmp_path / "a.npy"), vocab=2, length=3)


def test_copies_are_rows_of_the_training_data(task):
    """Eight rows are possible, and all of them are trained on: everything is a copy."""
    held, samples = row_scores(sampler_on(task), [{"nfe": 2}], n=50)
    assert (held.kind, held.n, held.copies.value) == ("held out", 20, 1.0)
    assert (samples.n, samples.copies.value) == (50, 1.0)
    assert samples.distinct <= 8 / 50


def test_nothing_is_a_copy_of_rows_that_are_not_there(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((40, 3), dtype=int))
    sampler = sampler_on(Own(data=str(tmp_path / "a.npy"), vocab=2, length=3))
    *_, samples = row_scores(sampler, [{"nfe": 1}], n=64)
    tokens = sampler.sample(64, nfe=1).tokens
    assert samples.copies.value == pytest.approx((tokens == 0).all(1).mean())


@pytest.mark.parametrize(("method", "kind"), [("dbtm", "denoising"), ("mdlm", "upper bound"), ("ar", "likelihood")])
def test_the_cross_entropy_says_which_it_is(task, method, kind):
    """An untrained network's output head is zero: every token costs log 2, whatever the method."""
    sampler = sampler_on(task, method)
    found = cross_entropy(sampler, task.held_out_examples(20))
    assert kind in found.kind
    assert found.n == 20
    sampler.network.head.weight.data.zero_()
    sampler.network.head.bias.data.zero_()
    rate = cross_entropy(sampler, task.held_out_examples(20)).nats_per_token.value
    assert rate == pytest.approx(math.log(2), abs=0.3 if method == "mdlm" else 1e-6)  # a bound is drawn at random


# -- a metric of the user's --------------------------------------------------------------------------------------------


def metric(tmp_path, body):
    (tmp_path / "mine.py").write_text(f"def good(rows):\n    return {body}\n")
    return load_metric(f"{tmp_path / 'mine.py'}:good")


def test_a_metric_gives_a_number_one_per_row_or_several(tmp_path):
    rows = [[0, 1], [1, 1], [1, 0], [0, 0]]
    each = metric(tmp_path, "[row[0] == 0 for row in rows]")(rows)["good"]
    assert each.value == 0.5
    assert each.low < 0.5 < each.high
    assert metric(tmp_path, "len(rows)")(rows)["good"].value == 4
    both = metric(tmp_path, "{'a': 1.5, 'b': [sum(row) for row in rows]}")(rows)
    assert {name: value.value for name, value in both.items()} == {"a": 1.5, "b": 1.0}


@pytest.mark.parametrize("body", ["'many'", "[1, 2]", "None"])
def test_anything_else_is_refused(tmp_path, body):
    with pytest.raises(UsageError, match="must return a number"):
        metric(tmp_path, body)([[0], [1], [2]])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("mine.py", r"given as file\.py:function"),
        ("nowhere.py:good", "does not exist"),
        ("{}/mine.py:bad", "has no function 'bad'"),
        ("{}/broken.py:good", "cannot be imported: ZeroDivisionError"),
    ],
)
def test_a_metric_that_is_not_there_is_refused(tmp_path, words, message):
    (tmp_path / "mine.py").write_text("good = len\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with pytest.raises(UsageError, match=message):
        load_metric(words.format(tmp_path))


@pytest.mark.parametrize(
    ("name", "text", "rows"),
    [("a.txt", "ab\nba\n", ["ab", "ba"]), ("a.csv", "x1,y\ny,y\n", [["x1", "y"], ["y", "y"]])],
)
def test_rows_come_as_the_users_file_has_them(tmp_path, name, text, rows):
    (tmp_path / name).write_text(text)
    task = Own(data=str(tmp_path / name), vocab=2, length=2)
    assert as_users_rows(task, task.rows.tokens_NL) == rows
