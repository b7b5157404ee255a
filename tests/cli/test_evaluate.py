"""`dbtm eval sudoku` and `dbtm eval nll`: their numbers against a recount, their JSON, and what they refuse."""

import hashlib
import json

import numpy as np
import pytest

import dbtm
from dbtm.tasks.sudoku import csvfile
from dbtm.tasks.sudoku.generate import generate
from dbtm.tasks.sudoku.puzzle import violation
from tests.evals.tiny import METHODS, chain, letters, mini_sudoku, write_checkpoint

SEED = 2_000_001


@pytest.fixture(scope="module")
def puzzles(tmp_path_factory):
    """Twenty hard puzzles and their file."""
    grids = generate(26, 20, SEED)
    path = tmp_path_factory.mktemp("puzzles") / "[hard].csv"
    csvfile.write(path, *grids)
    return path, *grids


@pytest.fixture(scope="module")
def minis(tmp_path_factory):
    """4 x 4 Sudoku models of every method that have learned nothing."""
    return {name: write_checkpoint(mini_sudoku(name), tmp_path_factory.mktemp(name)) for name in METHODS}


@pytest.fixture(scope="module")
def untrained(minis):
    return minis["dbtm"]


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


OPTIONS = {  # of the sampler, as words and as the library has them
    "non-commit": (["--no-commit"], {"commit": False}),
    "iterate": (["--sampler", "iterate"], {"sampler": "iterate"}),
    "fixed point": (["--sampler", "iterate", "--tolerance", "0.05"], {"sampler": "iterate", "tolerance": 0.05}),
    "integrate": (["--sampler", "integrate", "--horizon", "3"], {"sampler": "integrate", "horizon": 3.0}),
    "temperature": (["--temperature", "0.9"], {"temperature": 0.9}),
    "sigma": (["--sigma", "1.5"], {"sigma": 1.5}),
    "penalty": (["--repetition-penalty", "0.5"], {"repetition_penalty": 0.5}),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_of_the_sampler_is_measured(command, puzzles, tmp_path, name):
    """Puzzles solved with the same options by the library, judged by the rules; and the JSON names the option."""
    _, puzzles_BC, solutions_BC = (each[:6] if i else each for i, each in enumerate(puzzles))
    words, options = OPTIONS[name]
    csvfile.write(path := tmp_path / "six.csv", puzzles_BC, solutions_BC)
    command("eval", "sudoku", "--puzzles", path, "--nfe", "5", *words, "--json", tmp_path / "e.json")
    (row,) = json.loads((tmp_path / "e.json").read_text())["rows"]
    assert {key: row[key] for key in options} == options
    sampler = dbtm.load("sudoku")
    trace = sampler.sample(**sampler.task.given(puzzles_BC), nfe=5, seed=2_000_000, **options)
    answers = sampler.task.layout.decode(trace.tokens)
    assert row["solved"] == sum(violation(answer, puzzle) is None for answer, puzzle in zip(answers, puzzles_BC))
    assert row["mean_nfe"] == pytest.approx(trace.nfe.mean())
    assert (row["mean_nfe"] < 5) == (name not in ("non-commit", "iterate", "integrate"))


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
    assert whole["model"]["parameters"] == sum(p.numel() for p in dbtm.load(untrained).network.parameters())
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
        assert row["kappa"] == options.tuned_kappa(row["nfe"])


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
        (["--clues", "30", "--scorer", "best"], "scorer='best' is not a choice"),
        (["--clues", "30", "--temperature", "-1"], "temperature=-1.0 must not be negative"),
        (["--clues", "30", "--top-p", ".9"], "top_p changes nothing at temperature 0"),
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
    assert "seed 9 with 6 clues" in err
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


@pytest.mark.parametrize("method", ["mdlm", "ar"])
def test_other_methods_are_measured_with_what_they_have(command, minis, tmp_path, method):
    """MDLM over budgets, AR at its one setting; rows hold no option of another method."""
    words = ["eval", "sudoku", "--checkpoint", minis[method], "--clues", 6, "--n", 4, "--json", tmp_path / "e.json"]
    words += ["--nfe", "1,2"] if method == "mdlm" else []
    code, out, _ = command(*words, "--temperature", 0.5)
    assert code == 0
    whole = json.loads((tmp_path / "e.json").read_text())
    assert whole["model"]["method"] == method
    assert [row.get("nfe") for row in whole["rows"]] == ([1, 2] if method == "mdlm" else [None])
    assert {row["temperature"] for row in whole["rows"]} == {0.5}
    assert all(row.keys().isdisjoint({"kappa", "scorer", "tuned", "sigma"}) for row in whole["rows"])
    assert "kappa" not in out
    sampler = dbtm.load(minis[method])
    puzzles_BC, solutions_BC = (grids[:4] for grids in _held_out(sampler.task))
    for row in whole["rows"]:
        budget = {"nfe": row["nfe"]} if method == "mdlm" else {}
        trace = sampler.sample(**sampler.task.given(puzzles_BC), seed=2_000_000, temperature=0.5, **budget)
        assert row["solved"] == sampler.task.solved(trace.tokens, solutions_BC).sum()
        assert row["mean_nfe"] == trace.nfe.mean()


def _held_out(task):
    from dbtm.evals.sudoku import held_out

    return held_out(task, 6, 4, 2_000_000)


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("ar", ["--nfe", "4"], "'ar' needs one network evaluation per generated token"),
        ("ar", ["--kappa", ".5"], "the sampler of 'ar' has no option 'kappa'"),
        ("mdlm", ["--kappa", ".5"], "the sampler of 'mdlm' has no option 'kappa'"),
        ("mdlm", ["--scorer", "quality"], "the sampler of 'mdlm' has no option 'scorer'"),
        ("mdlm", ["--order", "alphabetic"], "order='alphabetic' is not a choice"),
        ("dbtm", ["--order", "random"], "the sampler of 'dbtm' has no option 'order'"),
        (
            "dbtm",
            ["--scorer", "spread", "--kappa", ".5", "--nfe", "4"],
            "kappa changes nothing where commits are spread",
        ),
    ],
)
def test_options_that_a_method_lacks_are_refused_in_a_line(command, minis, method, options, words):
    code, out, err = command("eval", "sudoku", "--checkpoint", minis[method], "--clues", 6, "--n", 2, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_a_model_of_another_task_is_refused(command, tmp_path):
    folder = write_checkpoint(chain("ar"), tmp_path)
    code, out, err = command("eval", "sudoku", "--checkpoint", folder, "--clues", 6)
    assert (code, out, err) == (2, "", "dbtm: this checkpoint was trained on 'markov', not on sudoku\n")


def test_puzzles_of_the_generator_are_those_of_the_seed(untrained):
    """What is evaluated under --clues is what `dbtm data sudoku` makes, less what a 4 x 4 pool already holds."""
    from dbtm.evals import sudoku as evals

    task = dbtm.load(untrained).task
    puzzles_BC, _ = evals.held_out(task, 5, 40, seed=7)
    made_BC, _ = generate(5, 80, 7, box=2)
    pool = {tuple(puzzle) for puzzle in task.puzzles[0]}
    wanted = [puzzle for puzzle in made_BC if tuple(puzzle) not in pool][:40]
    assert np.array_equal(puzzles_BC, wanted)


# -- likelihood --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "kind"), [("ar", "exact"), ("mdlm", "upper bound")])
def test_nll_prints_what_the_library_measures(command, tmp_path, method, kind):
    from dbtm.evals.likelihood import likelihoods

    folder, target = write_checkpoint(chain(method), tmp_path / "run"), tmp_path / "n.json"
    code, out, _ = command("eval", "nll", folder, "--n", 50, "--seed", 4, "--json", target, "--batch", 7)
    assert code == 0
    assert f"likelihood, {kind}: 50 examples, 200 tokens" in out
    whole = json.loads(target.read_text())
    assert (whole["kind"], whole["n"], whole["tokens"]) == (kind, 50, 200)
    assert whole["data"] == {"task": "markov", "n": 50, "seed": 4}
    assert (whole["model"]["method"], whole["model"]["vocab"]) == (method, 3)
    assert whole.keys() >= {"hardware", "torch", "commit", "date", "perplexity", "bits_per_token", "seconds"}
    sampler = dbtm.load(folder)
    each = likelihoods(sampler, sampler.task.held_out_examples(50), seed=4)
    nats = float(each.nll_B.sum() / each.tokens_B.sum())
    assert whole["nats_per_token"] == pytest.approx(nats, rel=1e-5)
    assert whole["perplexity"] == pytest.approx(np.exp(nats), rel=1e-5)
    assert whole["nats_per_token_low"] < nats < whole["nats_per_token_high"]
    assert f"{whole['nats_per_token']:.4f}" in out


def test_nll_counts_the_solution_alone(command, minis, tmp_path):
    assert command("eval", "nll", minis["ar"], "--n", 5, "--json", tmp_path / "n.json")[0] == 0
    whole = json.loads((tmp_path / "n.json").read_text())
    task = dbtm.load(minis["ar"]).task
    assert whole["tokens"] == 5 * int((~task.layout.prompt_mask()).sum())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["sudoku"], "the method 'dbtm' has no likelihood"),
        (["AR", "--n", "0"], "at least 1"),
        (["AR", "--batch", "0"], "at least 1"),
        (["AR", "--data", "x"], "only a checkpoint that was trained on prepared text"),
        (["AR", "--json", "missing/n.json"], "no folder missing"),
        (["EMPTY"], "the task 'tiny-letters-of-the-tests' has no held-out examples"),
        (["nowhere"], "nowhere"),
    ],
)
def test_nll_refuses(command, minis, tmp_path, options, words):
    stand_in = {"AR": minis["ar"]}
    if "EMPTY" in options:
        stand_in["EMPTY"] = write_checkpoint(letters("mdlm", blocks=0), tmp_path)
    code, out, err = command("eval", "nll", *(stand_in.get(word, word) for word in options))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
