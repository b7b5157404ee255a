"""benchmarks/ablations.py: its arms are runs that exist, and its report reads what runs write."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from dbtm.config import override
from dbtm.recipes import recipe
from tests.scripts import load_script


@pytest.fixture(scope="module")
def ablations():
    return load_script("ablations")


def test_arms_differ_from_the_base_and_from_each_other(ablations):
    for study in ablations.STUDIES.values():
        runs = [override(recipe(study.recipe), [*study.shared, *arm.settings]) for arm in study.arms]
        assert len({repr(run) for run in runs}) >= len(runs) - 1  # one may spell out a setting of the recipe
        assert len({ablations.folder(Path("out"), arm) for arm in study.arms}) == len(runs)


def test_report(ablations, tmp_path, capsys):
    study = ablations.STUDIES["mini"]
    for i, arm in enumerate(study.arms):
        run = ablations.folder(tmp_path, arm)
        run.mkdir()
        lines = [{"step": 5, "loss": 1.0, "seconds": 2.5}, {"step": 5, "eval/solved_4": 0.25 * i, "eval/score": 1.0}]
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (ablations.folder(tmp_path, study.arms[0]) / "judged.json").write_text(
        '{"judge": {"name": "smollm2"}, "samples": [], "rows": [{"nfe": 1, "perplexity": 7.0}]}'
    )
    ablations.report(study, tmp_path, tmp_path / "out.json")
    first, second = json.loads((tmp_path / "out.json").read_text())["arms"]
    assert first["curve"] == [{"step": 5, "seconds": 2.5, "solved_4": 0.0, "score": 1.0}]
    assert first["judged"] == [{"nfe": 1, "perplexity": 7.0}]
    assert first["judge"] == {"name": "smollm2"}
    assert second["arm"] == "no transport"
    assert "judged" not in second
    assert (tmp_path / "out.svg").read_text().startswith("<?xml")
    assert "no transport" in capsys.readouterr().out


def test_a_report_of_judged_arms_draws_perplexity_against_entropy(ablations, tmp_path):
    study = ablations.STUDIES["text"]
    for i, arm in enumerate(study.arms):
        run = ablations.folder(tmp_path, arm)
        run.mkdir()
        (run / "metrics.jsonl").write_text(
            '{"step": 5, "seconds": 2.0, "eval/entropy_1": 4.0, "eval/entropy_data": 4.4}'
        )
        rows = [{"settings": {"nfe": nfe}, "perplexity": 100.0 + i, "entropy": 4.0} for nfe in (1, 4, 16)]
        (run / "judged.json").write_text(json.dumps({"judge": {"name": "smollm2"}, "samples": [], "rows": rows}))
    ablations.report(study, tmp_path, tmp_path / "out.json")
    drawn = (tmp_path / "out.svg").read_text()
    assert all(f"perplexity at {nfe} NFE" in drawn for nfe in (1, 4, 16))
    assert all(arm.name in drawn for arm in study.arms)


def test_a_report_goes_on_without_an_arm_that_got_nowhere(ablations, tmp_path):
    study = ablations.STUDIES["mini"]
    for arm, points in zip(study.arms, ([{"step": 5, "eval/solved_4": 0.5}], [{"step": 1, "loss": 1.0}]), strict=True):
        ablations.folder(tmp_path, arm).mkdir()
        text = "".join(json.dumps(point) + "\n" for point in points)
        (ablations.folder(tmp_path, arm) / "metrics.jsonl").write_text(text)
    ablations.report(study, tmp_path, tmp_path / "out.json")
    assert [len(row["curve"]) for row in json.loads((tmp_path / "out.json").read_text())["arms"]] == [1, 0]


class Finished:
    """A process that has ended."""

    def __init__(self, code):
        self.code = code

    def wait(self):
        return self.code


def test_rounds_train_then_draw_and_failures_are_named(ablations, tmp_path, monkeypatch, capsys):
    calls = []

    def dbtm(*words, **_):
        calls.append(words)
        return Finished(int(words[0] == "train" and "method.loss.transport=0" in words))

    monkeypatch.setattr(ablations, "dbtm", dbtm)
    study = ablations.STUDIES["text"]
    wanted = ["all of it", "no transport", "no OT"]
    ablations.run(study, wanted, 2.0, 2, tmp_path, "data")
    assert [words[0] for words in calls] == ["train", "train", "eval", "train", "eval"], "what failed draws nothing"
    assert all(("--data", "data") in pairwise(words) for words in calls)
    how = json.loads((tmp_path / "how.json").read_text())
    assert (how["minutes"], how["at_once"], how["failed"], how["data"]) == (2.0, 2, ["no transport"], "data")
    assert {"hardware", "torch", "commit", "date"} <= how.keys(), "of the machine that trained, whichever reports"
    assert "no transport: exit code 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"), [(["report", "text"], "no arm of the study"), (["run", "text", "--arms", "no ot"], "'no ot'")]
)
def test_nothing_to_report_and_arms_there_are_not(ablations, tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.setattr("sys.argv", ["ablations.py", *words, "--out", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        ablations.main()
    assert said in f"{stopped.value} {capsys.readouterr().err}"
    assert not list(tmp_path.iterdir())


def test_what_has_been_judged_stays(ablations, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(ablations, "dbtm", lambda *words, **_: calls.append(words) or Finished(0))
    study = ablations.STUDIES["text"]
    drawn, judged = (ablations.folder(tmp_path, arm) for arm in study.arms[:2])
    for path in (drawn, judged):
        path.mkdir()
        (path / "samples.jsonl.gz").touch()
    (judged / "judged.json").touch()
    ablations.judge(study, "smollm2", 3, tmp_path)
    (words,) = calls
    assert words == ("eval", "text", "--samples", f"{drawn}/samples.jsonl.gz", "--judge", "smollm2", *words[-2:])
    assert words[-1] == f"{drawn}/judged.json"
