"""Evaluations, sweeps and likelihoods as requests: results so far, progress, notes, and cancellation."""

import json
import shutil

import numpy as np
import pytest

import dbtm
from dbtm.core.errors import UsageError
from dbtm.evals.perplexity import NoReferenceError
from dbtm.evals.samples import write_sets
from dbtm.service.evaluation.generated_text import TextEvaluationRequest, evaluate_text
from dbtm.service.evaluation.programs import ProgramsEvaluationRequest, evaluate_programs
from dbtm.service.evaluation.sudoku import SudokuEvaluationRequest, evaluate_sudoku
from dbtm.service.likelihood import LikelihoodRequest, NoTextError, evaluate_likelihood
from dbtm.service.progress import Cancelled, Progress
from dbtm.service.sweeping import ComparisonRequest, SweepRequest, compare_sweeps, run_sweep
from dbtm.tasks.gsm8k.synthetic import problem
from tests.evals.judges import gguf_writer
from tests.evals.tiny import letters, mini_sudoku, write_checkpoint
from tests.service.conftest import TINY


class Heard(Progress):
    """Remembers what it is told, and cancels once so many units of a stage are done."""

    def __init__(self, stage: str = "", most: int = 1 << 30):
        self.stages: list[list] = []
        self.notes: list[str] = []
        self.last, self.most = stage, most

    def stage(self, name, total=None):
        self.stages.append([name, total, 0])

    def advance(self, done, total=None):
        assert done >= self.stages[-1][2], "progress does not go back"
        self.stages[-1][1:] = [total or self.stages[-1][1], done]

    def note(self, text):
        self.notes.append(text)

    def cancelled(self):
        return bool(self.stages) and self.last in self.stages[-1][0] and self.stages[-1][2] >= self.most


@pytest.fixture(scope="module")
def sudoku(tmp_path_factory):
    return str(write_checkpoint(mini_sudoku(), tmp_path_factory.mktemp("sudoku")))


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return str(write_checkpoint(letters("mdlm"), tmp_path_factory.mktemp("text")))


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    return str(gguf_writer.model_file(tmp_path_factory.mktemp("judge") / "tiny.gguf"))


def test_sudoku_yields_what_it_has_so_far(sudoku):
    heard = Heard()
    request = SudokuEvaluationRequest(checkpoint=sudoku, clues=(5, 6), n=4, seed=7, budgets=(1, 2), batch=3)
    results = list(evaluate_sudoku(request, heard))
    assert [[len(group.scores) for group in result.sets] for result in results] == [[1, 0], [2, 0], [2, 1], [2, 2]]
    rows = results[-1].document()["rows"]
    assert [(row["clues"], row["nfe"]) for row in rows] == [(5, 1), (5, 2), (6, 1), (6, 2)]
    assert [stage[1:] for stage in heard.stages] == [[4, 4], [4, 4], [8, 8], [8, 8]]
    assert json.loads(json.dumps(results[-1].document())) == results[-1].document()


@pytest.mark.parametrize(("stage", "most"), [("making", 4), ("solving", 3)])
def test_sudoku_can_be_cancelled(sudoku, stage, most):
    request = SudokuEvaluationRequest(checkpoint=sudoku, clues=(5, 6), n=4, seed=7, budgets=(1, 2), batch=3)
    with pytest.raises(Cancelled):
        next(evaluate_sudoku(request, Heard(stage, most)))


def test_a_request_names_puzzles_in_one_way(sudoku, tmp_path):
    for wrong in ({}, {"clues": (5,), "puzzles": tmp_path / "x.csv"}):
        with pytest.raises(UsageError, match="either a file of puzzles or numbers of clues"):
            next(evaluate_sudoku(SudokuEvaluationRequest(checkpoint=sudoku, **wrong)))


def test_given_programs_can_be_cancelled_and_a_weak_sandbox_is_noted(tmp_path, monkeypatch):
    from dbtm.sandbox import Sandbox

    monkeypatch.setattr(Sandbox, "missing", ["seccomp"])
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps(problem(key)._asdict()) + "\n" for key in range(6)))
    heard = Heard()
    *_, result = evaluate_programs(ProgramsEvaluationRequest(programs=path, n=5), heard)
    assert (result.scores[0].correct, result.scores[0].total, result.model) == (5, 5, None)
    assert heard.stages == [["running 5 programs", 5, 5]]
    (note,) = heard.notes
    assert "lacks seccomp" in note
    assert result.document()["sandbox_without"] == ["seccomp"]
    with pytest.raises(Cancelled):
        list(evaluate_programs(ProgramsEvaluationRequest(programs=path), Heard("running", 2)))
    with pytest.raises(UsageError, match="either a checkpoint or a file of programs"):
        next(evaluate_programs(ProgramsEvaluationRequest()))


def test_programs_of_a_model_count_twice_as_they_are_made_and_run(prepared, tmp_path):
    data = [f"task.data={prepared['gsm-small']}", *_sizes(prepared["gsm-small"])]
    config = dbtm.override(
        dbtm.recipe("gsm-small").by("ar"), [*data, "model.width=16", "model.depth=1", "model.heads=2"]
    )
    folder = write_checkpoint(config, tmp_path)
    heard = Heard()
    *_, result = evaluate_programs(ProgramsEvaluationRequest(checkpoint=str(folder), n=3, batch=2), heard)
    assert heard.stages == [["solving 3 problems", 6, 6]]
    assert [line["index"] for line in result.lines()] == [0, 1, 2]
    assert "nfe" not in next(result.lines())
    with pytest.raises(Cancelled):
        list(evaluate_programs(ProgramsEvaluationRequest(checkpoint=str(folder), n=3, batch=2), Heard("solving", 2)))


def test_text_is_drawn_then_judged_and_files_are_judged_alone(text, judge, tmp_path):
    heard = Heard()
    request = TextEvaluationRequest(checkpoint=text, judge=judge, n=4, budgets=(1, 2), batch=3)
    results = list(evaluate_text(request, heard))
    assert [(len(result.sets), len(result.scores)) for result in results] == [(4, n) for n in range(5)]
    assert [stage[0] for stage in heard.stages] == ["drawing samples", *(f"judging set {i} of 4" for i in range(1, 5))]
    assert heard.stages[0][1:] == [8, 8]
    assert all(done == total > 0 for _, total, done in heard.stages)
    write_sets(tmp_path / "s.jsonl", results[0].sets)
    *_, again = evaluate_text(TextEvaluationRequest(samples=tmp_path / "s.jsonl", judge=judge))
    assert [score.perplexity for score in again.scores] == [score.perplexity for score in results[-1].scores]
    assert again.document()["samples"] == results[-1].document()["samples"]


def test_text_can_be_cancelled_while_drawn_and_while_judged(text, judge):
    request = TextEvaluationRequest(checkpoint=text, judge=judge, n=4, budgets=(1, 2), batch=3)
    with pytest.raises(Cancelled):
        list(evaluate_text(request, Heard("drawing", 3)))
    results = evaluate_text(request, Heard("judging set 2", 0))
    assert [len(next(results).scores) for _ in range(2)] == [0, 1]
    with pytest.raises(Cancelled):
        next(results)


def test_no_real_text_is_an_error_of_its_own(tmp_path):
    folder = write_checkpoint(letters("ar", blocks=0), tmp_path)
    with pytest.raises(NoReferenceError, match="nothing was held out"):
        list(evaluate_text(TextEvaluationRequest(checkpoint=str(folder), judge=None, n=2)))


def test_a_cancelled_sweep_goes_on_where_it_stopped(text, judge, tmp_path):
    values = {"nfe": (1, 2), "temperature": (0.5, 1.0)}
    whole, broken = (
        SweepRequest(folder=tmp_path / name / "s", checkpoint=text, values=values, judge=judge, n=4, batch=4)
        for name in ("whole", "broken")
    )
    first = run_sweep(whole)
    for stopped in (Heard("drawing", 8), Heard("drawing", 12), Heard("judging set 3", 0)):
        with pytest.raises(Cancelled):
            run_sweep(broken, stopped)
    drawn = (broken.folder / "samples.jsonl").read_bytes()
    second = run_sweep(broken)
    assert (broken.folder / "samples.jsonl").read_bytes() == drawn, "nothing is drawn twice"
    assert second.frontiers.records == first.frontiers.records
    assert [path.name for path in second.files] == ["sweep.json", "frontier.png", "frontier.svg"]
    drop = ("seconds", "judged_by")
    plain = [{k: v for k, v in row.items() if k not in drop} for row in second.rows.values()]
    assert plain == [{k: v for k, v in row.items() if k not in drop} for row in first.rows.values()]
    again = run_sweep(SweepRequest(folder=broken.folder, judge=judge))
    assert again.rows == second.rows


def test_sweeps_of_different_methods_are_compared(judge, tmp_path):
    folders = []
    for method in ("mdlm", "ar"):
        folder = write_checkpoint(letters(method), tmp_path / "runs" / method)
        values = {"temperature": (0.5, 1.0), **({"nfe": (2,)} if method == "mdlm" else {})}
        folders.append(tmp_path / method)
        run_sweep(SweepRequest(folder=folders[-1], checkpoint=str(folder), values=values, judge=judge, n=4))
    frontiers = compare_sweeps(ComparisonRequest(folders=tuple(folders), entropies=(2.0,)))
    assert [(r["nfe"], r["label"], [*r["matched"]]) for r in frontiers.records] == [
        (2, "mdlm", ["2.00"]),
        (12, "ar", ["2.00"]),
    ]
    assert [path.name for path in frontiers.save_figure(tmp_path / "f")] == ["f.png", "f.svg"]
    with pytest.raises(UsageError, match="no judged samples"):
        compare_sweeps(ComparisonRequest(folders=(tmp_path / "none",)))


def _sizes(folder) -> list[str]:
    manifest = json.loads((folder / "manifest.json").read_text())
    return [f"task.vocab={manifest['vocab']}", f"task.length={manifest['length']}"]


def test_the_likelihood_of_text_that_lies_elsewhere_now(prepared, tmp_path):
    """Trained on a set that moves: it is found where the request says, and other text is noted."""
    data = shutil.copytree(prepared["text-small"], tmp_path / "data")
    config = dbtm.override(dbtm.recipe("text-small").by("ar"), [f"task.data={data}", *_sizes(data), *TINY])
    folder = str(dbtm.fit(config, tmp_path / "run"))
    here = evaluate_likelihood(LikelihoodRequest(checkpoint=folder, n=6))
    data.rename(tmp_path / "moved")
    with pytest.raises(NoTextError, match=r"no held-out text: .*data is not prepared text"):
        evaluate_likelihood(LikelihoodRequest(checkpoint=folder, n=6))
    heard = Heard()
    moved = evaluate_likelihood(LikelihoodRequest(checkpoint=folder, n=6, data=tmp_path / "moved"), heard)
    assert moved.score.nats_per_token == here.score.nats_per_token
    assert heard.notes == []
    assert heard.stages[-1] == ["measuring 6 examples", 6, 6]
    assert moved.data == {"task": "text", "data": str(tmp_path / "moved"), "n": 6, "seed": 0}
    assert np.isfinite(moved.score.perplexity.value)
    manifest = tmp_path / "moved" / "manifest.json"
    manifest.write_text(manifest.read_text() + "\n")
    evaluate_likelihood(LikelihoodRequest(checkpoint=folder, n=6, data=tmp_path / "moved"), heard)
    (note,) = heard.notes
    assert "was not trained on" in note
    request = LikelihoodRequest(checkpoint=folder, n=6, batch=2, data=tmp_path / "moved")
    with pytest.raises(Cancelled):
        evaluate_likelihood(request, Heard("measuring", 2))
