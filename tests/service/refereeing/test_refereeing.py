"""A comparison from a request to its report: budgets, folders, failures, merging."""

import json
from dataclasses import replace

import pytest

from dbtm.core.errors import UsageError
from dbtm.core.registry import METHODS
from dbtm.evals.referee.folder import Job, RefereeFolder
from dbtm.evals.training_cost import training_flops
from dbtm.methods import register_method
from dbtm.methods.base import Part
from dbtm.methods.mdlm import MDLM
from dbtm.service.progress import Cancelled, Progress
from dbtm.service.refereeing import RefereeRequest, merge, planned, referee, report

TINY = ("model.width=16", "model.depth=1", "model.heads=2", "train.batch=8", "task.vocab=4", "task.length=4")
FLOPS = 2e7


def request(folder, *methods, **more):
    values = {"seeds": 1, "nfe": (1, 2), "n": 20, "flops": FLOPS, "changes": TINY, "jobs": 0, "device": "cpu", **more}
    return RefereeRequest(task="markov", folder=folder, methods=methods or ("mdlm",), **values)


def numbers(document):
    """What must not depend on how often a comparison was interrupted, nor on where it was made."""
    return {
        (entry["label"], name): [found["values"], found["used"], found["flops_per_sample"]]
        for entry in document["entries"]
        for name, found in entry["budgets"].items()
    }


@pytest.fixture
def methods():
    """Methods of the tests' own, forgotten afterwards."""
    before = dict(METHODS.known)
    yield register_method
    METHODS.known.clear()
    METHODS.known.update(before)


def test_every_entry_has_its_rows_and_its_costs(tmp_path):
    result = referee(request(tmp_path, "dbtm", "dbtm-paper", "mdlm", "ar"))
    entries = {entry["label"]: entry for entry in result.document["entries"]}
    assert [*entries] == ["dbtm", "dbtm-paper", "ar", "mdlm"]
    assert {name: [*entry["budgets"]] for name, entry in entries.items()} == {
        "dbtm": ["1", "2"], "dbtm-paper": ["1", "2"], "ar": ["all"], "mdlm": ["1", "2"]
    }  # fmt: skip
    for entry in entries.values():
        assert entry["status"] == "done"
        (run,) = entry["runs"]
        assert run["sequences"] == 8 * run["steps"]
        config = planned(request(tmp_path, entry["label"])).entries[entry["label"]].config
        assert 0 <= FLOPS - run["flops"] < training_flops(config), "equal FLOPs within a step"
    assert {path.name for path in result.files} == {
        "referee.json", "referee.md", "referee.html", "quality-nfe.png", "quality-nfe.svg", "quality-flops.png",
        "quality-flops.svg",
    }  # fmt: skip
    assert all(path.is_file() for path in result.files)
    assert json.loads((tmp_path / "referee.json").read_text()) == result.document


def test_a_distilled_method_pays_for_its_teacher(tmp_path, methods):
    @methods
    class Student(MDLM):
        """Learns nothing new from its teacher."""

        name = "student"
        needs = frozenset({"teacher"})
        teacher = "mdlm"

    @methods
    class Second(Student):
        """Another one."""

        name = "second"

    document = referee(request(tmp_path, "student", "second", flops=1e8)).document
    folder = RefereeFolder(tmp_path)
    teachers = [path.name for path in (tmp_path / "runs").glob("teacher-*")]
    assert teachers == ["teacher-mdlm-seed0"], "students of one kind share it"
    for label in ("student", "second"):
        step = training_flops(planned(request(tmp_path, label)).entries[label].config)
        run = folder.training(Job(label, 0))
        assert 0 <= 0.8e8 - run["teacher"]["flops"] < step
        assert 0 <= 0.2e8 - run["student"]["flops"] < step
        assert run["flops"] == run["teacher"]["flops"] + run["student"]["flops"]
    assert {entry["teacher"] for entry in document["entries"]} == {"mdlm"}


def test_a_method_that_fails_has_a_row_that_says_so(tmp_path, methods):
    @methods
    class Diverges(MDLM):
        """A loss that is no number."""

        name = "diverges"

        def parts(self, examples):
            for part in super().parts(examples):
                yield Part(part.loss * float("nan"), part.terms)

    @methods
    class Broken(MDLM):
        """A mistake in the code of a sampler."""

        name = "broken"

        def sample(self, *what):
            raise ZeroDivisionError("by nothing")

    result = referee(request(tmp_path, "diverges", "broken", "mdlm"))
    entries = {entry["label"]: entry for entry in result.document["entries"]}
    assert entries["mdlm"]["status"] == "done"
    assert "non-finite" in entries["diverges"]["reasons"][0]
    assert entries["broken"]["reasons"] == ["seed 0: ZeroDivisionError: by nothing"]
    assert "diverges (failed: seed 0: the loss became non-finite" in (tmp_path / "referee.md").read_text()
    del Broken.sample
    again = referee(request(tmp_path, "diverges", "broken", "mdlm", retry=True)).document
    assert {entry["label"]: entry["status"] for entry in again["entries"]} == {
        "mdlm": "done", "diverges": "failed", "broken": "done"
    }  # fmt: skip


def test_methods_seeds_and_budgets_can_be_added_and_nothing_is_done_twice(tmp_path):
    referee(request(tmp_path / "one", "mdlm"))
    trained = (tmp_path / "one/runs/mdlm-seed0/training.json").read_bytes()
    grown = referee(request(tmp_path / "one", "ar", "mdlm", seeds=2, nfe=(1, 2, 4))).document
    assert (tmp_path / "one/runs/mdlm-seed0/training.json").read_bytes() == trained
    at_once = referee(request(tmp_path / "two", "ar", "mdlm", seeds=2, nfe=(1, 2, 4))).document
    assert numbers(grown) == numbers(at_once)


def test_merged_folders_are_their_union(tmp_path):
    referee(request(tmp_path / "here", "mdlm"))
    referee(request(tmp_path / "there", "ar"))
    both = referee(request(tmp_path / "both", "ar", "mdlm")).document
    found = merge(tmp_path / "all", (tmp_path / "here", tmp_path / "there"))
    assert numbers(found.document) == numbers(both)
    assert numbers(report(tmp_path / "all").document) == numbers(both)
    assert numbers(merge(tmp_path / "all", (tmp_path / "here",)).document) == numbers(both), "twice is once"
    with pytest.raises(UsageError, match="is not a comparison"):
        merge(tmp_path / "all", (tmp_path / "nowhere",))


def test_what_was_merged_is_kept_where_its_weights_are_not(tmp_path):
    before = referee(request(tmp_path / "there", "mdlm")).document
    merge(tmp_path / "here", (tmp_path / "there",))
    after = referee(request(tmp_path / "here", "mdlm", nfe=(1, 2, 4))).document
    (entry,) = after["entries"]
    assert entry["status"] == "missing"
    assert numbers(after) == numbers(before)


@pytest.mark.parametrize(
    "other", [{"flops": 3e7}, {"n": 30}, {"teacher_share": 0.5}, {"changes": (*TINY, "model.ffn=2")}, {"minutes": 1.0}]
)
def test_what_is_not_comparable_is_refused(tmp_path, other):
    plan = planned(request(tmp_path))
    RefereeFolder(tmp_path).extend(plan)
    values = {"flops": None, **other} if "minutes" in other else other
    with pytest.raises(UsageError, match="choose another folder"):
        RefereeFolder(tmp_path).extend(planned(replace(request(tmp_path), **values)))


def test_a_stopped_comparison_goes_on(tmp_path):
    class Impatient(Progress):
        asked = 0

        def cancelled(self):
            self.asked += 1
            return self.asked > 1

    whole = referee(request(tmp_path / "whole", "mdlm", "ar")).document
    with pytest.raises(Cancelled):
        referee(request(tmp_path / "parts", "mdlm", "ar"), Impatient())
    assert numbers(report(tmp_path / "parts").document) != numbers(whole)
    assert numbers(referee(request(tmp_path / "parts", "mdlm", "ar")).document) == numbers(whole)


def test_a_budget_of_minutes_is_minutes_of_training(tmp_path):
    document = referee(request(tmp_path, "mdlm", flops=None, minutes=0.02)).document
    (entry,) = document["entries"]
    assert entry["training"]["seconds"] <= 2
    assert entry["training"]["flops"] == pytest.approx(
        entry["training"]["steps"] * training_flops(planned(request(tmp_path / "x")).entries["mdlm"].config)
    )


def test_settings_of_one_method_can_be_changed(tmp_path):
    plan = planned(request(tmp_path, "mdlm", "ar", changes=(*TINY, "ar:optim.lr=0.5", "optim.clip=2")))
    assert plan.entries["ar"].config.optim.lr == 0.5
    assert plan.entries["mdlm"].config.optim.lr != 0.5
    assert {entry.config.optim.clip for entry in plan.entries.values()} == {2.0}
    both = ("dbtm:sample.mean_from=3", "dbtm:method.posterior.weight=1")  # the first needs the second
    sample = planned(request(tmp_path, "dbtm", changes=(*TINY, *both))).entries["dbtm"].config.sample
    assert sample.mean_from == 3
    with pytest.raises(UsageError, match="'flm', which is not in the comparison"):
        planned(request(tmp_path, "mdlm", changes=("flm:optim.lr=1",)))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"methods": ("mdml",)}, "did you mean 'mdlm'"),
        ({"flops": 1.0}, "one step of"),
        ({"n": 1}, "at least 2"),
        ({"nfe": ()}, "at least one"),
        ({"nfe": (0, 1)}, "at least one"),
    ],
)
def test_mistakes_are_a_line(tmp_path, wrong, said):
    values = {"methods": ("mdlm",), **wrong}
    methods = values.pop("methods")
    if "flops" in wrong:
        document = referee(request(tmp_path, *methods, **values)).document
        assert said in document["entries"][0]["reasons"][0]
        return
    with pytest.raises(UsageError, match=said):
        referee(request(tmp_path, *methods, **values))
