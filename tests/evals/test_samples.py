"""Files of samples: what is written is read, and what is wrong is named."""

import json

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.evals import samples
from dbtm.evals.samples import SampleSet

SET = SampleSet(
    np.array([[1, 2], [3, 70_000]]), ["a<|endoftext|>", "ü"], "sample", {"nfe": 4}, {"seed": 1}, nfe=2.5, seconds=0.1
)


@pytest.mark.parametrize("name", ["s.jsonl", "s.jsonl.gz"])
def test_round_trip(tmp_path, name):
    samples.write_sets(tmp_path / name, [SET, SampleSet(SET.tokens_BL, SET.texts, "real")])
    first, second = samples.read_sets(tmp_path / name)
    assert first.record() == SET.record()
    assert (second.kind, second.nfe, second.settings) == ("real", None, {})
    assert first.tokens_BL.dtype.kind == "i"


@pytest.mark.parametrize("end", ["\n", ""])
def test_samples_of_other_programs_need_tokens_and_texts_alone(tmp_path, end):
    path = tmp_path / "s.jsonl"
    line = '{"tokens": [[1, 2]], "texts": ["ab"]}'
    path.write_text(f"{line}\n{line}{end}")
    assert [each.kind for each in samples.read_sets(path)] == ["sample"] * 2, "with and without an end of the last line"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "reel"}, "did you mean 'real'"),
        ({"kind": []}, "is not known"),
        ({"tokens": [[1, 2], [3]]}, "line 1: `tokens` must be"),
        ({"tokens": [[0.5, 2], [3, 4]]}, "`tokens` must be"),
        ({"tokens": []}, "`tokens` must be"),
        ({"tokens": None}, "`tokens` must be"),
        ({"texts": ["one"]}, "`texts` must be a list of 2"),
        ({"texts": [1, 2]}, "`texts` must be a list of 2"),
        ({"settings": 3}, "`settings` and `origin`"),
        ({"nfe": "four"}, "`nfe` must be a number"),
        ({"seconds": True}, "`seconds` must be a number"),
        ({"nfe": 10**400}, "`nfe` must be a number"),
        ({"settings": {"kappa": "high"}}, "`settings.kappa` must be a number"),
        ({"settings": {"nfe": None}}, "`settings.nfe` must be a number"),
        ({"settings": {"sigma": float("nan")}}, "`settings.sigma` must be a number"),
        ({"settings": {"sampler": 3}}, "`settings.sampler` must be a text"),
        ({"settings": {"mine": float("inf")}}, "a number that is not finite"),
        ({"texts": ["a", "\ud800"]}, "half of a surrogate pair"),
        ({"settings": {"sampler": "\udfff"}}, "half of a surrogate pair"),
    ],
)
def test_bad_lines_are_named(tmp_path, change, words):
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(SET.record() | change) + "\n")
    with pytest.raises(UsageError, match=words):
        samples.read_sets(path)


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "s.jsonl").write_text("")
    with pytest.raises(UsageError, match="no samples"):
        samples.read_sets(tmp_path / "s.jsonl")


def test_equal_settings_have_one_key():
    assert samples.key({"a": 1, "b": 2.0}) == samples.key({"b": 2.0, "a": 1}) != samples.key({"a": 1})
