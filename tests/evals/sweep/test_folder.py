"""The folder of a sweep: its plan, and what is drawn and judged."""

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.evals.samples import SampleSet
from dbtm.evals.sweep import journal
from dbtm.evals.sweep.folder import SweepFolder
from tests.evals.sweep.cells import ORIGIN, planned, row


def test_a_plan_grows_and_is_not_mixed_with_another(tmp_path):
    folder = SweepFolder(tmp_path / "new" / "s")
    assert folder.plan is None
    first = folder.extend(ORIGIN, 8, planned("frontier"))
    assert folder.plan == first
    both = folder.extend(ORIGIN | {"checkpoint": "elsewhere"}, 8, planned("scorer"))
    assert both == folder.plan
    assert {c.study for c in both.cells} == {"frontier", "scorer"}
    assert folder.extend(ORIGIN, 8, planned("scorer")) == both, "asked for again, it is there once"
    for origin, n, words in (
        (ORIGIN | {"sha256": "other"}, 8, "another checkpoint"),
        (ORIGIN | {"seed": 4}, 8, "another seed"),
        (ORIGIN, 9, "8 samples per setting"),
    ):
        with pytest.raises(UsageError, match=words):
            folder.extend(origin, n, planned("scorer"))
    (folder.path / "plan.json").write_text('{"cells": [')
    with pytest.raises(UsageError, match=r"plan\.json is damaged"):
        folder.plan  # noqa: B018


def test_what_is_drawn_and_judged_is_remembered_by_judge(tmp_path):
    folder = SweepFolder(tmp_path)
    judge = {"name": "j", "dtype": "float32", "sha256": "a", "context": 64}
    assert (folder.drawn(), folder.judged(judge), folder.judges()) == (set(), {}, [])
    folder.add_samples(SampleSet(np.array([[1, 2]]), ["a"], settings={"nfe": 1}))
    others = [judge | change for change in ({"name": "k"}, {"dtype": "bfloat16"}, {"sha256": "b"}, {"revision": "r"})]
    for perplexity, each in enumerate([judge, *others]):
        folder.add_row(row({"nfe": 1}, perplexity, 1.0, judge=each["name"]), each)
    (key,) = folder.drawn()
    for perplexity, each in enumerate([judge, *others]):
        assert folder.judged(each)[key]["perplexity"] == perplexity
        assert folder.judged(each)[key]["judged_by"] == each
    assert folder.judges() == [judge, *others]


def test_rows_that_do_not_say_who_judged_are_by_nobody_else(tmp_path):
    folder = SweepFolder(tmp_path)
    journal.append_record(folder.rows, row({"nfe": 1}, 5.0, 1.0))
    assert folder.judged({"name": "j", "dtype": "float32"}) == {}
    assert folder.judges() == [{"name": "j"}]
    assert len(folder.judged({"name": "j"})) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": ...}, r"line 2 is damaged \(see kind\)"),
        ({"kind": []}, "see kind"),
        ({"settings": ...}, "see settings"),
        ({"settings": [4]}, "see settings"),
        ({"judge": ...}, "see judge"),
        ({"judged_by": "j"}, "see judged_by"),
        ({"perplexity": ...}, "see perplexity"),
        ({"entropy": None}, "see entropy"),
        ({"n": "many", "entropy_low": ...}, "see entropy_low, n"),
    ],
)
def test_a_damaged_row_is_named(tmp_path, change, words):
    folder, good = SweepFolder(tmp_path), row({"nfe": 1}, None, 1.0)
    bad = {name: value for name, value in (good | change).items() if value is not ...}
    journal.append_record(folder.rows, good)
    assert len(folder.judged({"name": "j"})) == 1
    journal.append_record(folder.rows, bad)
    for look in (folder.judges, lambda: folder.judged({"name": "j"})):
        with pytest.raises(UsageError, match=words):
            look()


def test_the_real_text_is_one(tmp_path):
    folder = SweepFolder(tmp_path)
    one, moved, other = ({"data": d, "sha256": s} for d, s in (("a", "1"), ("b", "1"), ("c", "2")))
    folder.add_samples(SampleSet(np.array([[1, 2]]), ["a"], settings={"nfe": 1}))
    assert folder.real_text() is None
    folder.refuse_other_text(one)
    folder.add_samples(SampleSet(np.array([[1, 2]]), ["a"], "real", origin=one))
    assert folder.real_text() == one
    folder.refuse_other_text(moved)
    with pytest.raises(UsageError, match="compares with other real text, a: choose another folder"):
        folder.refuse_other_text(other)
