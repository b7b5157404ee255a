"""`dbtm eval sudoku`: its numbers against a recount, its JSON, and what it refuses."""

import hashlib
import json

import numpy as np
import pytest

import dbtm
from dbtm.tasks.sudoku import csvfile
from dbtm.tasks.sudoku.generate import generate
from dbtm.tasks.sudoku.puzzle import violation

SEED = 2_000_001


@pytest.fixture(scope="module")
def puzzles(tmp_path_factory):
    """Twenty hard puzzles and their file."""
    grids = generate(26, 20, SEED)
    path = tmp_path_factory.mktemp("puzzles") / "[hard].csv"
    csvfile.write(path, *grids)
    return path, *grids


def test_solved_is_what_an_independent_count_gives(command, puzzles, tmp_path):
    """The answers of the packaged model are judged again, by the rules and the clues instead of the solution."""
    path, puzzles_BC, _ = puzzles
    code, out, _ = command("eval", "sudoku", "--puzzles", path, "--nfe", "1,2", "--json", tmp_path / "e.json")
    assert code == 0
    assert "[hard].csv, 20 puzzles" in out
    rows = json.loads((tmp_path / "e.json").read_text())["rows"]
    assert [row["nfe"] for row in rows] == [1, 2]
    sampler = dbtm.load("sudoku")
    for row in rows:
        trace = sampler.sample(**sampler.task.given(puzzles_BC), nfe=row["nfe"], seed=2_000_000)
        answers = sampler.task.layout.decode(trace.tokens)
        right = sum(violation(answer, puzzle) is None for answer, puzzle in zip(answers, puzzles_BC))
        assert (row["solved"], row["total"]) == (right, 20)
        assert row["mean_nfe"] == pytest.approx(trace.nfe.mean())
        assert row["rate"] == right / 20
        assert row["low"] <= row["rate"] <= row["high"]
        assert row["puzzles_per_second"] == pytest.approx(20 / row["seconds"])
    assert 0 < rows[0]["solved"] <= rows[1]["solved"]


def test_the_json_says_what_was_measured_and_on_what(command, untrained, tmp_path):
    target = tmp_path / "e.json"
    words = ["eval", "sudoku", "--checkpoint", untrained, "--clues", "5,6", "--n", 8, "--nfe", "1,3", "--seed", 7]
    code, out, _ = command(*words, "--kappa", "0,1", "--scorer", "confidence", "--batch", 3, "--json", target)
    assert code == 0
    whole = json.loads(target.read_text())
    assert whole.keys() == {"rows", "model", "data", "hardware", "torch", "commit", "date"}
    settings = [(row["clues"], row["nfe"], row["kappa"]) for row in whole["rows"]]
    assert settings == [(c, nfe, k) for c in (5, 6) for nfe in (1, 3) for k in (0.0, 1.0)]
    assert {row["scorer"] for row in whole["rows"]} == {"confidence"}
    assert [row["mean_nfe"] for row in whole["rows"][:4]] == [1, 1, 1, 3], "kappa 0 commits all at once, 1 never does"
    once, again = whole["rows"][:2]
    assert once | {"kappa": 1.0} == again, "one evaluation is made once"
    assert whole["data"] == {"clues": [5, 6], "n": 8, "seed": 7}
    assert whole["model"]["parameters"] == sum(p.numel() for p in dbtm.load(untrained).model.parameters())
    weights = (untrained / "ema.safetensors").read_bytes()
    assert whole["model"]["sha256"] == hashlib.sha256(weights).hexdigest()
    assert whole["model"]["paper"]["width"] == 512
    assert "5 clues, 8 puzzles, seed 7" in out
    assert out.count("kappa 1") == 2
    assert not list(tmp_path.glob(".*")), "no temporary file stays"


def test_the_tuned_threshold_is_the_default(command, untrained, tmp_path):
    words = ["eval", "sudoku", "--checkpoint", untrained, "--clues", 6, "--n", 2, "--nfe", "2,4"]
    assert "the checkpoint's kappa" in command(*words, "--json", tmp_path / "e.json")[1]
    options = dbtm.load(untrained).options
    for row in json.loads((tmp_path / "e.json").read_text())["rows"]:
        assert row["kappa"] == options.tuned(row["nfe"])["kappa"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "either --puzzles CSV or --clues"),
        (["--clues", "30", "--puzzles", "x.csv"], "either --puzzles CSV or --clues"),
        (["--puzzles", "x.csv", "--n", "3"], "--n is for generated puzzles"),
        (["--clues", "30", "--n", "0"], "at least 1"),
        (["--clues", "30", "--batch", "0"], "at least 1"),
        (["--clues", "many"], "--clues many"),
        (["--clues", "30", "--nfe", "0"], "--nfe 0"),
        (["--clues", "30", "--nfe", "1,,2"], "--nfe 1,,2"),
        (["--clues", "30", "--nfe", "2.5"], "--nfe 2.5"),
        (["--clues", "30", "--kappa", "x"], "--kappa x"),
        (["--clues", "30", "--kappa", "nan"], "--kappa nan"),
        (["--clues", "30", "--kappa", ".5,2"], "--kappa .5,2"),
        (["--clues", "30", "--scorer", "best"], "--scorer best"),
        (["--clues", "30", "--json", "missing/e.json"], "no folder missing"),
        (["--clues", "30", "--checkpoint", "nowhere"], "nowhere"),
        (["--clues", "40,19"], "19 clues"),
        (["--puzzles", "missing.csv"], "cannot read missing.csv"),
    ],
)
def test_bad_options_are_refused(command, options, words):
    code, out, err = command("eval", "sudoku", *options)
    assert (code, out) == (2, "")
    assert words in err


def test_puzzles_that_were_trained_on_are_refused(command, untrained, monkeypatch):
    monkeypatch.setattr("dbtm.tasks.sudoku.task.Sudoku.pools", lambda _: [((4, 8), 8), ((6, 6), 9)])
    words = ["eval", "sudoku", "--checkpoint", untrained, "--clues", "5,6", "--n", "1", "--nfe", "1", "--seed"]
    code, out, err = command(*words, 9)
    assert (code, out) == (2, "")
    assert "--seed 9 with 6 clues" in err
    assert command(*words, 8)[0] == 0, "another range of clues is another stream of puzzles"


def test_a_bad_row_is_named_by_its_line(command, puzzles, tmp_path):
    path, *_ = puzzles
    lines = path.read_text().splitlines()
    lines[7] = lines[7].replace("0", "x", 1)
    bad = tmp_path / "bad.csv"
    bad.write_text("\n".join(lines))
    code, _, err = command("eval", "sudoku", "--puzzles", bad)
    assert code == 2
    assert "bad.csv, line 8" in err


def test_a_file_of_grids_of_another_size_is_refused(command, untrained, puzzles):
    code, _, err = command("eval", "sudoku", "--puzzles", puzzles[0], "--checkpoint", untrained)
    assert code == 2
    assert "81 cells, but the checkpoint solves 16" in err


def test_puzzles_of_the_generator_are_those_of_the_seed(untrained):
    """What is evaluated under --clues is what `dbtm data sudoku` makes, less what a 4 x 4 pool already holds."""
    from dbtm.evals import sudoku as evals

    task = dbtm.load(untrained).task
    puzzles_BC, _ = evals.held_out(task, 5, 40, seed=7)
    made_BC, _ = generate(5, 80, 7, box=2)
    pool = {tuple(puzzle) for puzzle in task.puzzles[0]}
    wanted = [puzzle for puzzle in made_BC if tuple(puzzle) not in pool][:40]
    assert np.array_equal(puzzles_BC, wanted)
