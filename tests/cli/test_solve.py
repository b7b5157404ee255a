"""`dbtm solve` and `dbtm demo`: what they read, what they answer, and how they refuse."""

import io
import json
import os
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from dbtm.cli import main
from dbtm.cli import solve as module
from dbtm.cli.solve import read_puzzle
from dbtm.core.errors import UsageError
from dbtm.service.solving import BUILT_IN
from dbtm.tasks.sudoku.puzzle import check, parse, violation
from tests.evals.tiny import chain, mini_sudoku, write_checkpoint

PUZZLE = BUILT_IN[81]
CELLS = np.array([int(digit) for digit in PUZZLE])
SMALL = BUILT_IN[16]
NINE_LINES = "\n".join(PUZZLE[i : i + 9] for i in range(0, 81, 9))
FRAMED = "\n".join("|".join(line[i : i + 3] for i in (0, 3, 6)) for line in NINE_LINES.replace("0", ".").splitlines())
SEVERAL = "0" * 81
UNSOLVABLE = "123456780" + "000000009" + "0" * 63  # row 1 and box 3 leave no place for the 9


@pytest.fixture
def no_stdin(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [PUZZLE, PUZZLE.replace("0", "."), NINE_LINES, FRAMED, f"\n{PUZZLE}\n"])
@pytest.mark.parametrize("way", ["argument", "file", "dash", "pipe"])
def test_every_way_of_writing_a_puzzle_reads_the_same(tmp_path, monkeypatch, text, way):
    file = tmp_path / "puzzle.txt"
    file.write_text(text)
    argument = {"argument": text, "file": str(file), "dash": "-", "pipe": None}[way]
    with file.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert np.array_equal(read_puzzle(argument), CELLS)


@pytest.mark.parametrize("stdin", ["absent", "closed", "/dev/null", "blank", "idle pipe"])
def test_without_argument_and_stdin_there_is_no_puzzle_to_read(tmp_path, monkeypatch, stdin):
    """Nothing may be asked of stdin where there is nothing: a pipe that stays open and empty must not block."""
    monkeypatch.setattr(module, "STDIN_WAIT", 0.05)
    reading, writing = os.pipe()  # open at both ends: nothing to read, and no end of file
    source: Any = {"/dev/null": os.devnull, "idle pipe": reading}.get(stdin, tmp_path / "blank")
    (tmp_path / "blank").write_text(" \n")
    with open(source) as file:
        if stdin == "closed":
            file.close()
        monkeypatch.setattr(sys, "stdin", None if stdin == "absent" else file)
        assert read_puzzle(None) is None
    os.close(writing)


@pytest.mark.parametrize(
    ("puzzle", "words"),
    [
        (PUZZLE[:-1], "80 cells, not 81 or 16"),
        (PUZZLE + "1", "82 cells"),
        (NINE_LINES.replace("\n", "0\n", 1), "line 1 has 10 cells"),
        (PUZZLE.replace("0", "x", 1), "'x' does not belong"),
        ("55" + "0" * 79, "the clues clash: row 1 has two 5s, at columns 1 and 2"),
        ("5" + "0" * 8 + "5" + "0" * 71, "the clues clash: column 1 has two 5s, at rows 1 and 2"),
        ("5" + "0" * 9 + "5" + "0" * 70, "the clues clash: box 1 has two 5s"),
        (UNSOLVABLE, "no solution"),
        (SEVERAL, "several solutions"),
        ("1" + "0" * 14 + "5", "5 is not a digit of a 4 x 4 grid"),
        ("nothing.txt", "no such file"),
        ("", "0 cells"),
    ],
)
def test_what_is_no_puzzle_is_refused_in_one_line(command, puzzle, words):
    code, out, err = command("solve", puzzle)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_files_that_cannot_be_read_are_refused(command, tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert "cannot read" in command("solve", tmp_path / "binary")[2]
    assert "Is a directory" in command("solve", tmp_path)[2]


def test_a_complaint_names_the_file(tmp_path):
    (tmp_path / "bad.txt").write_text(PUZZLE[:-2])
    with pytest.raises(UsageError, match=r"bad\.txt: the puzzle has 79 cells"):
        read_puzzle(str(tmp_path / "bad.txt"))


def test_an_empty_dash_is_refused(command, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    code, _, err = command("solve", "-")
    assert code == 2
    assert "stdin: the puzzle has 0 cells" in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--nfe", "0"], "nfe=0 must be positive"),
        (["--kappa", "1.5"], "--kappa 1.5"),
        (["--kappa", "nan"], "--kappa nan"),
        (["--scorer", "qualty"], "did you mean 'quality'"),
        (["--checkpoint", "nowhere"], "nowhere"),
        (["--html", "missing/page.html"], "no folder missing"),
        (["--html", "."], "is a folder"),
        (["--onnx", "model.onnx", "--device", "cpu"], "--onnx runs on the CPU: leave --device out"),
    ],
)
def test_bad_options_are_refused(command, options, words):
    code, out, err = command("solve", PUZZLE, *options)
    assert (code, out) == (2, "")
    assert words in err


@pytest.mark.parametrize("words", [[PUZZLE], ["several.txt"], ["maze", "--checkpoint", "text"]])
def test_every_kind_of_problem_runs_on_the_device_of_the_option(command, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "several.txt").write_text(f"{PUZZLE}\n{PUZZLE}\n")
    code, _, err = command("solve", *words, "--device", "mp")
    assert (code, err) == (2, "dbtm: device mp is not a choice; did you mean 'mps'?\n")


# -- answering ---------------------------------------------------------------------------------------------------------


def test_the_packaged_model_solves_the_built_in_puzzle(command, no_stdin, tmp_path):
    page = tmp_path / "page.html"
    code, out, err = command("solve", "--json", "--html", page)
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert answer["puzzle"] == PUZZLE
    assert answer["solution"] == "".join(map(str, check(parse(PUZZLE)))), "what a solver finds without any model"
    assert answer["solved"] is True
    assert answer["violation"] is None
    assert answer["milliseconds"] > 0
    rounds = answer["rounds"]
    assert (answer["stable"], answer["budget"]) == (True, 16)
    assert 2 <= answer["nfe"] - 2 == len(rounds) - 1 <= 4, "refinement within the budget, then a state after two looks"
    assert rounds[-1]["values"] == answer["solution"]
    committed = [sum(r["committed"]) for r in rounds]
    assert committed == sorted(committed)
    assert committed[-1] == 81
    data = json.loads(re.search(r"<script[^>]*json[^>]*>(.*?)</script>", page.read_text(), re.S)[1])
    assert "".join(map(str, data["rounds"][-1]["values"])) == answer["solution"]


def test_options_reach_the_sampler(command, untrained):
    def answer(*options):
        words = ("solve", SMALL, "--checkpoint", untrained, "--json", "--check", 0, *options)
        return json.loads(command(*words)[1])

    assert len(answer("--nfe", 1)["rounds"]) == 1
    assert len(answer("--nfe", 3, "--kappa", 1)["rounds"]) == 3, "nothing scores 1: only the floor commits"
    assert len(answer("--nfe", 3, "--kappa", 0)["rounds"]) == 1, "everything scores 0 or more"
    assert len(answer("--nfe", 3, "--scorer", "none")["rounds"]) == 1, "no scorer: all is committed at once"
    one, same, other = answer("--seed", 1), answer("--seed", 1), answer("--seed", 2)
    del one["milliseconds"], same["milliseconds"]
    assert one == same
    assert one["rounds"] != other["rounds"]


@pytest.mark.parametrize(
    ("options", "budget"),
    [
        (["--nfe", 1], 1),
        (["--nfe", 2], 2),
        (["--nfe", 3], 12),
        (["--nfe", 4, "--check", 0], 4),
        (["--nfe", 4, "--check", 5], 9),
        (["--nfe", 4, "--sampler", "iterate"], 4),
        (["--nfe", 4, "--no-commit"], 4),
        (["--nfe", 4, "--rule", "revise"], 4),
    ],
)
def test_the_answer_is_checked_above_two_evaluations(command, untrained, options, budget):
    """Looks are network evaluations like any other: a model that has learned nothing spends all of them, but for
    what is too little for another answer and its looks.
    """
    words = ("solve", SMALL, "--checkpoint", untrained, *(() if "iterate" in options else ("--kappa", 1)))
    answer = json.loads(command(*words, "--json", *options)[1])
    assert answer["budget"] == budget
    checked = budget > options[1]
    assert (answer["stable"] is None) == (not checked and "revise" not in options)
    if checked:
        assert budget - 2 <= answer["nfe"] <= budget
        assert answer["stable"] is False
        out = command(*words, *options)[1]
        assert out.index("the model does not trust this answer") < out.index("wrong after")
        assert f"{answer['nfe']} of {budget} network evaluations" in out


def test_no_threshold_is_shown_where_commits_are_spread(command, untrained):
    options = ("solve", SMALL, "--checkpoint", untrained, "--scorer")
    assert "kappa" in command(*options, "confidence")[1]
    assert "kappa" not in command(*options, "spread")[1]
    assert "kappa" not in json.loads(command(*options, "spread", "--json")[1])


def test_a_wrong_answer_is_called_wrong(command, untrained):
    code, out, _ = command("solve", SMALL, "--checkpoint", untrained, "--json")
    answer = json.loads(out)
    broken = violation(np.array([int(d) for d in answer["solution"]]), parse(SMALL))
    assert code == 1
    assert answer["solved"] is False
    assert answer["violation"] == broken is not None
    code, out, _ = command("solve", SMALL, "--checkpoint", untrained)
    assert code == 1
    assert "wrong after" in out
    assert broken in " ".join(out.split())


def test_the_built_in_puzzle_fits_the_checkpoint(command, untrained, no_stdin):
    answer = json.loads(command("solve", "--checkpoint", untrained, "--json")[1])
    assert answer["puzzle"] == SMALL


@pytest.mark.parametrize(("puzzle", "small"), [(SMALL, False), (PUZZLE, True)])
def test_a_grid_of_another_size_is_refused(command, untrained, puzzle, small):
    code, out, err = command("solve", puzzle, *(["--checkpoint", untrained] if small else []))
    assert (code, out) == (2, "")
    assert ("is 9 x 9" if small else "is 4 x 4") in err


def test_a_model_of_another_task_is_refused(command, tmp_path):
    code, _, err = command("solve", PUZZLE, "--checkpoint", write_checkpoint(chain("dbtm"), tmp_path))
    assert code == 2
    assert "'markov', not on Sudoku" in err


def test_the_whole_command_in_a_plain_terminal():
    """No colour codes, every kind of cell marked, and none of the slow imports that solving has no use for."""
    code = (
        "import sys; from dbtm.cli import main; sys.argv = ['dbtm', 'solve']\n"
        "try: main()\n"
        "except SystemExit as ended: print('exit', ended.code)\n"
        "print(sorted({'numba', 'scipy', 'matplotlib'} & set(sys.modules)))"
    )
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "dumb"}
    run = subprocess.run(
        [sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment
    )
    assert run.stdout.endswith("exit 0\n[]\n"), run.stderr
    assert "\x1b" not in run.stdout
    assert re.search(
        r"stands by this answer\n\nsolved in \d of 16 network evaluations, [\d.]+ GFLOPs, \d+ ms", run.stdout
    )
    for kind in ("5 clue", "5' committed", "5? refining", "round 2"):
        assert kind in run.stdout


# -- other methods -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """4 x 4 Sudoku models of other methods that have learned nothing."""
    return {name: write_checkpoint(mini_sudoku(name), tmp_path_factory.mktemp(name)) for name in ("mdlm", "ar")}


def page_data(page):
    return json.loads(re.search(r"<script[^>]*json[^>]*>(.*?)</script>", page.read_text(), re.S)[1])


def test_mdlm_solves_with_a_budget_of_four(command, others, tmp_path):
    words = ("solve", SMALL, "--checkpoint", others["mdlm"])
    code, out, err = command(*words, "--json", "--html", tmp_path / "page.html")
    answer = json.loads(out)
    assert (code, err) == (1, "")
    assert (answer["method"], answer["budget"], answer["nfe"]) == ("mdlm", 4, 4)
    assert [round_["time"] for round_ in answer["rounds"]] == [0.75, 0.5, 0.25, 0]
    committed = [sum(round_["committed"]) for round_ in answer["rounds"]]
    assert committed == sorted(committed)
    assert committed[-1] == 16
    assert all(0 <= score <= 1 for round_ in answer["rounds"] for score in round_["score"])
    assert [round_["time"] for round_ in page_data(tmp_path / "page.html")["rounds"]] == [0.75, 0.5, 0.25, 0]
    code, out, _ = command(*words, "--nfe", 2, "--order", "confidence")
    assert (code, "cells to find, by mdlm" in out, "order confidence, seed 0" in out) == (1, True, True)
    assert re.findall(r"round (\d)  \d+/12 committed  t = (\S+)", out) == [("1", "0.5"), ("2", "0")]


def test_ar_solves_token_by_token_and_its_trace_stays_readable(command, others, tmp_path):
    words = ("solve", SMALL, "--checkpoint", others["ar"])
    code, out, err = command(*words, "--json", "--html", tmp_path / "page.html")
    answer = json.loads(out)
    assert (code, err) == (1, "")
    assert (answer["method"], answer["budget"], answer["nfe"]) == ("ar", None, 19)
    assert "nfe" not in answer["rounds"][0]
    assert len(answer["rounds"]) == len(page_data(tmp_path / "page.html")["rounds"]) == 19
    assert all(round_["score"] is None for round_ in answer["rounds"])
    code, out, _ = command(*words)
    assert "after 19 network evaluations" in out
    assert "--nfe" not in out
    titles = [int(number) for number in re.findall(r"round (\d+)  \d+/12 committed", out)]
    assert (len(titles), titles[0], titles[-1]) == (12, 1, 19)
    assert "12 of 19 rounds, evenly spaced" in out
    assert "refining" not in out, "what is not written yet is empty"


def test_rounds_without_commits_and_scores_are_drawn(command, untrained, tmp_path):
    words = ("solve", SMALL, "--checkpoint", untrained, "--sampler", "integrate", "--nfe", 3)
    code, out, _ = command(*words, "--html", tmp_path / "page.html")
    assert code == 1
    assert re.findall(r"round \d  (?:12/12 committed  )?t = \S+", out) == [
        "round 1  t = 1.33",
        "round 2  t = 2.67",
        "round 3  12/12 committed  t = 4",
    ]
    assert "sampler integrate, seed 0" in out
    first, second, last = page_data(tmp_path / "page.html")["rounds"]
    assert (first["committed"], second["committed"], last["committed"]) == (None, None, [1] * 16)
    assert first["score"] is last["score"] is None


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("mdlm", ["--kappa", ".5"], "the sampler of 'mdlm' has no option 'kappa'"),
        ("mdlm", ["--sigma", "1"], "the sampler of 'mdlm' has no option 'sigma'"),
        ("mdlm", ["--nfe", "0"], "nfe=0 must be positive"),
        ("mdlm", ["--order", "rando"], "did you mean 'random'"),
        ("ar", ["--nfe", "4"], "'ar' needs one network evaluation per generated token"),
        ("ar", ["--scorer", "spread"], "the sampler of 'ar' has no option 'scorer'"),
        ("ar", ["--top-p", "0"], "top_p=0.0 must be above 0"),
    ],
)
def test_options_that_a_method_lacks_are_refused(command, others, method, options, words):
    code, out, err = command("solve", SMALL, "--checkpoint", others[method], *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


# -- demo --------------------------------------------------------------------------------------------------------------


def test_the_demo_solves_and_writes_its_page(command, tmp_path):
    code, out, _ = command("demo", "--out", tmp_path / "demo")
    assert code == 0
    order = ("solved in", "holes filled", "\n1 network evaluation\n", "\n4 network evaluations\n", "\n16 network")
    assert sorted(order, key=out.index) == list(order)
    assert "dbtm demo simplex" in out
    assert "<script" in (tmp_path / "demo" / "sudoku.html").read_text()


def test_the_demo_solves_as_the_command_does(command, tmp_path):
    """Warmed up and checked: the same lines, but for the milliseconds."""

    def told(out: str) -> list[str]:
        return [re.sub(r"[\d,]+ ms", "MS", line) for line in out.splitlines()]

    _, solved, _ = command("solve")
    _, shown, _ = command("demo", "sudoku", "--out", tmp_path)
    assert "the model stands by this answer" in told(shown)
    assert told(shown)[: len(told(solved))] == told(solved)


def test_an_unknown_demo_is_refused(command, tmp_path):
    code, _, err = command("demo", "sudko", "--out", tmp_path)
    assert code == 2
    assert "did you mean 'sudoku'" in err


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_an_output_without_box_characters(monkeypatch, no_stdin, encoding):
    """As a Windows redirection or the POSIX locale has it: a frame of ASCII, and the exit code is the answer's."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "argv", ["dbtm", "solve"])
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding))
    with pytest.raises(SystemExit) as ended:
        main()
    sys.stdout.flush()
    assert not ended.value.code
    assert b"+---------+" in written.getvalue()
    assert written.getvalue().isascii()


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="Unix")
def test_a_file_without_an_end_is_refused(command):
    code, out, err = command("solve", "/dev/zero")
    assert (code, out) == (2, "")
    assert err == "dbtm: /dev/zero has more than 16777216 characters: give fewer puzzles at a time\n"
