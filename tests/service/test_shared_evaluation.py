"""Evaluations by several processes: the numbers of one, by work of all. One of them prints and writes."""

import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
import typer

from dbtm.cli import main
from dbtm.core.errors import UsageError
from dbtm.evals.judges.gguf import GGUFJudge
from dbtm.methods.mdlm import MDLM
from dbtm.service.evaluation.generated_text import TextEvaluationRequest, evaluate_text
from dbtm.service.evaluation.own_rows import OwnEvaluationRequest, evaluate_own
from dbtm.service.evaluation.sudoku import SudokuEvaluationRequest, evaluate_sudoku
from dbtm.service.evaluation.together import joined
from dbtm.service.likelihood import LikelihoodRequest, evaluate_likelihood
from dbtm.service.progress import Cancelled, Progress
from dbtm.tasks.own import Own
from dbtm.train.team import Team
from tests.evals.judges import gguf_writer
from tests.evals.tiny import letters, mini_sudoku, write_checkpoint
from tests.processes import wait_until
from tests.train import workers

pytest.importorskip("resource", reason="processes are forked")

SOLUTION = "1234341221434321"
METRIC = """
def sums(rows):
    return {"sum": [float(sum(row)) for row in rows], "same": len({tuple(row) for row in rows})}
"""


@pytest.fixture(autouse=True)
def doubles():
    """float64, so that a batch's size changes no sample."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Checkpoints that have learned nothing, a judge, rows and a metric."""
    folder = tmp_path_factory.mktemp("shared")
    rows = folder / "rows.npy"
    np.save(rows, np.random.default_rng(0).integers(0, 4, (60, 6)))
    (folder / "metric.py").write_text(METRIC)
    own = replace(letters("mdlm").on(Own(data=str(rows), vocab=4, length=6)), recipe="own")
    for name, config in (("sudoku", mini_sudoku()), ("text", letters("mdlm", blocks=40)), ("own", own)):
        write_checkpoint(config, folder / name)
    gguf_writer.model_file(folder / "tiny.gguf")
    lines = [f"{SOLUTION[:i]}0{SOLUTION[i + 1 :]},{SOLUTION}" for i in range(7)]
    (folder / "puzzles.csv").write_text("\n".join(["puzzle,solution", *lines, ""]))
    return folder


def numbers(document):
    """A JSON without the times that work took."""
    if isinstance(document, dict):
        kept = {k: v for k, v in document.items() if "second" not in k and k not in ("date", "commit", "hardware")}
        return {name: numbers(value) for name, value in kept.items()}
    return [numbers(each) for each in document] if isinstance(document, list) else document


def rounded(document):
    """A JSON with numbers of 12 digits."""
    if isinstance(document, dict):
        return {name: rounded(value) for name, value in document.items()}
    if isinstance(document, list):
        return [rounded(each) for each in document]
    return float(f"{document:.12g}") if isinstance(document, float) else document


def evaluations(files):
    """Every kind, at numbers of samples that do not split evenly."""
    text = TextEvaluationRequest(checkpoint=str(files / "text"), judge=str(files / "tiny.gguf"), n=19, budgets=(2,))
    metric = f"{files / 'metric.py'}:sums"
    own = OwnEvaluationRequest(checkpoint=str(files / "own"), n=17, budgets=(2, 3), metric=metric, batch=4)
    sudoku = SudokuEvaluationRequest(checkpoint=str(files / "sudoku"), puzzles=files / "puzzles.csv", budgets=(1, 2))
    nll = LikelihoodRequest(checkpoint=str(files / "text"), n=11, batch=2)
    results = [*evaluate_text(text)][-1], [*evaluate_own(own)][-1], [*evaluate_sudoku(sudoku)][-1]
    return json.dumps([numbers(each.document()) for each in (*results, evaluate_likelihood(nll))])


def counted(does, *args):
    """What an evaluation gives, and how many samples, judged rows and measured rows this process had."""
    counts = {"drawn": 0, "judged": 0, "measured": 0}

    def count(name, function, rows):
        def wrapped(self, *args, **more):
            counts[name] += len(rows(args))
            return function(self, *args, **more)

        return wrapped

    with (
        mock.patch.object(MDLM, "sample", count("drawn", MDLM.sample, lambda args: args[1].tokens)),
        mock.patch.object(GGUFJudge, "token_nll", count("judged", GGUFJudge.token_nll, lambda args: args[0])),
        mock.patch.object(MDLM, "nll", count("measured", MDLM.nll, lambda args: args[1].tokens)),
        mock.patch("dbtm.evals.judges.base.MOST_TOKENS", {"cpu": 64}),
    ):
        return does(*args), counts


def shared(files):
    def evaluate():
        with joined() as first:
            return evaluations(files) if first else ""

    return counted(evaluate)


@pytest.mark.parametrize("size", [2, 3])
def test_several_processes_measure_what_one_does(files, tmp_path, size):
    one, whole = counted(evaluations, files)
    (found, _), *others = ranks = workers.run(size, shared, files, folder=tmp_path)
    found, one = json.loads(found), json.loads(one)
    assert (found[0], found[2]) == (one[0], one[2]), "text and Sudoku: sums of counts, and of one judge's batches"
    assert rounded(found) == rounded(one), "likelihoods come from batches of other sizes"
    assert [said for said, _ in others] == [""] * (size - 1)
    for name, total in whole.items():
        parts = [counts[name] for _, counts in ranks]
        assert sum(parts) == total
        assert max(parts) <= 1.5 * total / size, f"{name}: {parts}"


# -- the command -------------------------------------------------------------------------------------------------------


def command(*words):
    """What a process says to stdout and stderr, and its exit code."""
    out, err = StringIO(), StringIO()
    argv = mock.patch.object(sys, "argv", ["dbtm", *map(str, words)])
    with redirect_stdout(out), redirect_stderr(err), argv, pytest.raises(SystemExit) as ended:
        main()
    return out.getvalue(), err.getvalue(), int(ended.value.code or 0)


def test_one_process_prints_and_writes(files, tmp_path):
    words = ("eval", "sudoku", "--checkpoint", files / "sudoku", "--puzzles", files / "puzzles.csv", "--nfe", "1,2")
    first, second = workers.run(2, command, *words, "--json", tmp_path / "two.json", folder=tmp_path)
    assert "7 puzzles" in first[0]
    assert first[1:] == ("", 0)
    assert second == ("", "", 0)
    assert command(*words, "--json", tmp_path / "one.json")[2] == 0
    one, two = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("one", "two"))
    assert numbers(one) == numbers(two)
    assert two["hardware"].startswith("2 x cpu: ")


def test_a_mistake_is_one_line_of_the_first_process(tmp_path):
    first, second = workers.run(2, command, "eval", "text", tmp_path / "nothing", folder=tmp_path)
    assert first[1].startswith("dbtm: no such checkpoint")
    assert (first[1].count("\n"), first[2]) == (1, 2)
    assert second == ("", "", 1)


def command_by_an_older_click(*words):
    """With a context that tells its resources nothing of errors."""
    context = typer.Context.__mro__[1]
    leave = context.__exit__
    with mock.patch.object(context, "__exit__", lambda self, *error: leave(self, None, None, None)):
        return command(*words)


def test_the_others_end_with_an_error_by_any_version_of_click(tmp_path):
    ranks = workers.run(2, command_by_an_older_click, "eval", "text", tmp_path / "nothing", folder=tmp_path)
    assert [code for _, _, code in ranks] == [2, 1]


def with_a_judge_on_the_first_alone(files, empty):
    """What the command says, and how many samples this process has drawn."""
    os.chdir(files if os.environ["RANK"] == "0" else empty)
    said, counts = counted(command, "eval", "text", files / "text", "--n", 9, "--nfe", 1, "--judge", "tiny.gguf")
    return said[1], counts["drawn"]


def test_a_judge_that_another_process_lacks_is_refused_before_samples_are_drawn(files, tmp_path):
    first, second = workers.run(2, with_a_judge_on_the_first_alone, files, tmp_path, folder=tmp_path)
    assert first == ("dbtm: process 1 of 2: there is no file tiny.gguf to judge with\n", 0)
    assert second == ("", 0)


# -- failures ----------------------------------------------------------------------------------------------------------


def failing(files, does, ended):
    """What the command says where the second of three processes fails in its share."""

    def fail(*args, **options):
        if does == "error":
            raise RuntimeError("this device\nis broken")
        if does == "hang":
            wait_until(ended.exists)
        os._exit(0)

    if os.environ["RANK"] == "1":
        mock.patch.object(MDLM, "sample", fail).start()
    if does == "hang":
        mock.patch("dbtm.service.evaluation.together.Team", lambda group, seconds: Team(group, 1)).start()
    out, err, code = command("eval", "text", files / "text", "--n", 9, "--nfe", 2, "--judge", "none")
    if os.environ["RANK"] == "0":
        ended.touch()
    return {"out": out, "err": err, "code": code}


@pytest.mark.parametrize("does", ["error", "end", "hang"])
def test_a_process_that_fails_ends_all_in_one_line(files, tmp_path, does):
    first = workers.run(3, failing, files, does, tmp_path / "ended", folder=tmp_path, leave=False, results=1)[0]
    lost = "process 0 of 3 lost another one, in an evaluation"
    said = "process 1 of 3: RuntimeError: this device" if does == "error" else lost
    assert first["err"].startswith(f"dbtm: {said}"), first["err"]
    assert (first["out"], first["err"].count("\n"), first["code"]) == ("", 1, 2)


def test_a_process_that_never_comes_is_one_line_without_a_setting_of_training(monkeypatch):
    for name, value in workers.environment(0, 2, workers.free_port()).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=r"as not all have joined: .* did not answer within 1 seconds"), joined(1):
        pass


class Stopping(Progress):
    done = 0

    def advance(self, done, total=None):
        self.done = done

    def cancelled(self):
        return self.done > 0


def cancelled(files):
    """The first process stops, and a second evaluation follows."""
    text = TextEvaluationRequest(checkpoint=str(files / "text"), judge=None, n=9, batch=2, budgets=(1,))
    with joined() as first:
        if first:
            with pytest.raises(Cancelled):
                list(evaluate_text(text, Stopping()))
            with pytest.raises(UsageError, match="no such checkpoint"):
                list(evaluate_text(replace(text, checkpoint=str(Path("nothing")))))
            return len([*evaluate_text(text)][-1].sets[0].texts)
    return 0


def test_work_that_is_cancelled_leaves_the_others_ready(files, tmp_path):
    assert workers.run(2, cancelled, files, folder=tmp_path) == [9, 0]
