"""The folder of a sweep: its plan, and what is drawn and judged."""

import numpy as np
import pytest

from dbtm.errors import UsageError
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
        (ORIGIN, 9, "use --n 8"),
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
    journal.append(folder.rows, row({"nfe": 1}, 5.0, 1.0))
    assert folder.judged({"name": "j", "dtype": "float32"}) == {}
    assert folder.judges() == [{"name": "j"}]
    assert len(folder.judged({"name": "j"})) == 1
