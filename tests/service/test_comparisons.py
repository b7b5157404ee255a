"""Folders of comparisons are read strictly: a damaged one is a sentence, not a crash."""

import copy
import json

import pytest

from dbtm.core.errors import UsageError
from dbtm.service.comparisons import find_comparisons, read_comparison
from tests.studio.samples import REFEREE


def test_every_budget_of_every_entry_is_a_row(tmp_path):
    (tmp_path / "referee.json").write_text(json.dumps(REFEREE))
    told = read_comparison(tmp_path)
    assert [(row["label"], row["nfe"], row["value"]) for row in told["rows"]] == [
        ("dbtm", 1, 0.1), ("dbtm", 4, 0.025), ("mdlm", 1, 0.3), ("mdlm", 4, 0.075)
    ]  # fmt: skip
    assert told["budget"] == {"flops": 8e11, "minutes": None}


def test_a_method_without_a_budget_has_no_number_of_evaluations(tmp_path):
    document = copy.deepcopy(REFEREE)
    document["entries"][0]["budgets"] = {"all": document["entries"][0]["budgets"]["4"]}
    (tmp_path / "referee.json").write_text(json.dumps(document))
    assert [row["nfe"] for row in read_comparison(tmp_path)["rows"]] == [None, 1, 4]


@pytest.mark.parametrize("key", ["task", "metric", "entries", "settings", "hardware"])
@pytest.mark.parametrize("value", [None, 5, "x", [1], {"a": 1}])
def test_a_damaged_one_is_refused_in_a_line(tmp_path, key, value):
    if isinstance(value, type(REFEREE[key])) and key in ("task", "hardware"):
        pytest.skip("the value is valid: a name may be any text")
    (tmp_path / "referee.json").write_text(json.dumps({**REFEREE, key: value}))
    with pytest.raises(UsageError, match=r"referee\.json is damaged"):
        read_comparison(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", "null"])
def test_so_is_what_is_no_document(tmp_path, text):
    (tmp_path / "referee.json").write_text(text)
    with pytest.raises(UsageError, match="damaged"):
        read_comparison(tmp_path)


def test_numbers_that_are_none_are_null(tmp_path):
    document = copy.deepcopy(REFEREE)
    document["entries"][0]["budgets"]["1"]["value"] = "<b>"
    (tmp_path / "referee.json").write_text(json.dumps(document).replace('"high": 0.1', '"high": NaN'))
    row = read_comparison(tmp_path)["rows"][0]
    assert (row["value"], row["high"]) == (None, None)


def test_they_are_found_below_the_folders_that_are_named(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "referee.json").write_text("{}")
    assert find_comparisons([tmp_path]) == {"a/b": tmp_path / "a" / "b"}
