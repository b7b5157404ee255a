"""`dbtm eval text`: its numbers against a recount, files between the machine that samples and the one that judges."""

import gzip
import hashlib
import json
import math

import numpy as np
import pytest

import dbtm
from dbtm.evals.judges import load_judge
from dbtm.evals.mauve import mauve
from dbtm.evals.memorised import longest_matches
from dbtm.train.loop import fit
from tests.checkpoint.test_loading import text_run
from tests.evals.judges import gguf_writer
from tests.evals.tiny import letters, write_checkpoint


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_checkpoint(letters(), tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    return gguf_writer.model_file(tmp_path_factory.mktemp("judge") / "tiny.gguf")


def test_the_numbers_are_those_of_a_recount(command, model, judge, tmp_path):
    target = tmp_path / "e.json"
    words = ["eval", "text", model, "--nfe", "1,3", "--n", 5, "--seed", 7, "--kappa", 0.2, "--judge", judge]
    code, out, _ = command(*words, "--json", target)
    assert code == 0
    assert "judge: tiny.gguf" in out
    whole = json.loads(target.read_text())
    assert whole.keys() == {"rows", "judge", "samples", "hardware", "torch", "commit", "date"}
    assert whole["judge"]["name"] == "tiny.gguf"
    rows = whole["rows"]
    assert [row["kind"] for row in rows] == ["sample", "sample", "real", "shuffled"]
    sampler, own = dbtm.load(model), load_judge(str(judge), "cpu")
    for row, nfe in zip(rows, (1, 3)):
        trace = sampler.sample(5, nfe=nfe, seed=7, kappa=0.2)
        scores = own.score(sampler.task.decode(trace.tokens))
        assert row["perplexity"] == pytest.approx(math.exp(scores.nll_B.sum() / scores.tokens_B.sum()))
        assert row["judge_tokens"] == scores.tokens_B.sum()
        counts = [np.unique(tokens, return_counts=True)[1] / 12 for tokens in trace.tokens]
        assert row["entropy"] == pytest.approx(np.mean([-(p * np.log(p)).sum() for p in counts]))
        assert row["nfe"] == pytest.approx(trace.nfe.mean())
        assert (row["n"], row["judge"]) == (5, "tiny.gguf")
    assert rows[1]["settings"]["kappa"] == 0.2
    assert rows[1]["settings"]["sigma"] == 1.25, "the checkpoint's own"
    (origin,) = whole["samples"]
    assert origin["sha256"] == hashlib.sha256((model / "ema.safetensors").read_bytes()).hexdigest()
    assert origin["seed"] == 7


def test_samples_are_compared_with_real_text_by_the_judges_states(command, judge, tmp_path):
    """Real text is compared with other real text: what was not among the references."""
    model, target = write_checkpoint(letters(blocks=230), tmp_path / "run"), tmp_path / "e.json"
    assert command("eval", "text", model, "--nfe", 1, "--n", 110, "--judge", judge, "--json", target)[0] == 0
    sample, real, shuffled = json.loads(target.read_text())["rows"]
    sampler, own = dbtm.load(model), load_judge(str(judge), "cpu")
    drawn, held_out = sampler.sample(110, nfe=1).tokens, sampler.task.held_out
    first = np.linspace(0, 229, 110).astype(int)
    texts = sampler.task.decode(held_out[first])
    features = [own.features(each) for each in (sampler.task.decode(drawn), texts)]
    assert sample["mauve"] == pytest.approx(mauve(*features), abs=1e-6)
    assert 0 < sample["mauve"] < real["mauve"] <= 1
    assert shuffled["mauve"] is not None


def test_runs_of_samples_in_the_training_text(command, model, tmp_path):
    words = ["eval", "text", model, "--nfe", 1, "--n", 2, "--judge", "none", "--matches"]
    assert command(*words)[0] == 2, "this task has no training text"
    data = tmp_path / "data"
    run = fit(text_run(data), tmp_path / "run")
    words = ["eval", "text", run, "--nfe", 1, "--n", 3, "--judge", "none", "--no-references", "--matches"]
    code, out, _ = command(*words, "--json", tmp_path / "e.json")
    assert code == 0
    assert "training text" in out
    (row,) = json.loads((tmp_path / "e.json").read_text())["rows"]
    sampler = dbtm.load(run)
    tokens = sampler.sample(3, nfe=1).tokens
    blocks = sampler.task.train
    assert row["longest_match"] == longest_matches(tokens, blocks[np.arange(len(blocks))]).mean()


def test_what_is_the_same_is_drawn_once(command, model, tmp_path):
    words = ["eval", "text", model, "--nfe", "1,2,3", "--n", 2, "--judge", "none", "--no-references"]
    assert command(*words, "--scorer", "none", "--json", tmp_path / "e.json")[0] == 0
    (row,) = json.loads((tmp_path / "e.json").read_text())["rows"]
    assert row["settings"]["nfe"] == row["nfe"] == 1, "commits without a scorer are one round"


@pytest.mark.parametrize("name", ["s.jsonl", "s.jsonl.gz"])
def test_samples_drawn_here_are_judged_elsewhere_with_the_same_numbers(command, model, judge, tmp_path, name):
    """The second command has the file and the judge, and no checkpoint."""
    at_once, apart, file = tmp_path / "a.json", tmp_path / "b.json", tmp_path / name
    words = ["eval", "text", model, "--nfe", "1,2", "--n", 4]
    assert command(*words, "--judge", judge, "--json", at_once)[0] == 0
    code, out, _ = command(*words, "--judge", "none", "--save-samples", file)
    assert code == 0
    assert "judge: none" in out
    assert command("eval", "text", "--samples", file, "--judge", judge, "--json", apart)[0] == 0
    drop = lambda row: {key: value for key, value in row.items() if key != "seconds"}  # noqa: E731
    first, second = (json.loads(path.read_text()) for path in (at_once, apart))
    assert list(map(drop, first["rows"])) == list(map(drop, second["rows"]))
    assert first["samples"] == second["samples"]
    data = file.read_bytes()
    lines = (gzip.decompress(data) if name.endswith(".gz") else data).splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["sample", "sample", "real", "shuffled"]


def test_without_references_and_without_a_judge(command, model, tmp_path):
    words = ["eval", "text", model, "--nfe", 1, "--n", 2, "--judge", "none", "--no-references"]
    code, out, _ = command(*words, "--json", tmp_path / "e.json")
    assert code == 0
    assert "real text" not in out
    (row,) = json.loads((tmp_path / "e.json").read_text())["rows"]
    assert row["perplexity"] is row["judge"] is None
    assert row["entropy"] > 0


def test_what_cannot_be_scored_is_told(command, judge, tmp_path):
    file = tmp_path / "s.jsonl"
    texts = ["<|endoftext|>" * 5, "", "the inn", "in the end " * 20]
    file.write_text(json.dumps({"tokens": [[1, 2]] * 4, "texts": texts}) + "\n")
    code, out, _ = command("eval", "text", "--samples", file, "--judge", judge, "--json", tmp_path / "e.json")
    assert code == 0
    assert "1 texts longer than the judge's context" in out
    assert "2 texts without a token that counts" in out
    (row,) = json.loads((tmp_path / "e.json").read_text())["rows"]
    assert (row["n"], row["unscored"], row["windowed"], row["unique"]) == (4, 2, 1, 0.25)


def test_what_a_file_says_is_printed_as_it_is(command, tmp_path):
    """Square brackets are not taken for the terminal's markup, in settings or in a judge's name."""
    file = tmp_path / "s.jsonl"
    settings = {"nfe": 4, "sampler": "[/x]", "scorer": "[bold]"}
    file.write_text(json.dumps({"tokens": [[1, 2]], "texts": ["in"], "settings": settings}))
    judge = gguf_writer.model_file(tmp_path / "[bold].gguf")
    code, out, _ = command("eval", "text", "--samples", file, "--judge", judge)
    assert code == 0
    assert "[/x], [bold]" in out
    assert "judge: [bold].gguf" in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "either a CHECKPOINT"),
        (["MODEL", "--samples", "x.jsonl"], "either a CHECKPOINT"),
        (["MODEL", "--n", "0"], "at least 1"),
        (["MODEL", "--batch", "0"], "at least 1"),
        (["MODEL", "--nfe", "0"], "--nfe 0"),
        (["MODEL", "--kappa", "-1"], "kappa=-1.0 must be between 0 and 1"),
        (["MODEL", "--top-p", ".5"], "top_p changes nothing at temperature 0"),
        (["MODEL", "--no-commit", "--repetition-penalty", "1", "--nfe", "4"], "counts committed tokens"),
        (["MODEL", "--json", "missing/e.json"], "no folder missing"),
        (["MODEL", "--save-samples", "missing/s.jsonl"], "no folder missing"),
        (["MODEL", "--judge", "missing.gguf"], "no file missing.gguf"),
        (["MODEL", "--temperature", "-1", "--judge", "none"], "temperature"),
        (["MODEL", "--scorer", "best", "--judge", "none"], "best"),
        (["--samples", "missing.jsonl"], "cannot read missing.jsonl"),
        (["--samples", "missing.jsonl", "--kappa", ".5"], "judged as they are: leave --kappa out"),
        (["--samples", "missing.jsonl", "--save-samples", "s.jsonl"], "judged as they are"),
        (["--samples", "missing.jsonl", "--n", "4", "--nfe", "1"], "leave --n, --nfe out"),
        (["--samples", "missing.jsonl", "--seed", "0", "--batch", "2"], "leave --seed, --batch out"),
        (["--samples", "missing.jsonl", "--no-references", "--data", "x"], "leave --data, --references out"),
        (["MODEL", "--data", "x"], "only a checkpoint that was trained on prepared text"),
        (["sudoku"], "trained on 'sudoku', not on text"),
        (["nowhere"], "nowhere"),
    ],
)
def test_bad_options_are_refused(command, model, options, words):
    code, out, err = command("eval", "text", *(model if word == "MODEL" else word for word in options))
    assert (code, out) == (2, "")
    assert words in err


def test_a_task_without_held_out_text_says_so_before_anything_is_drawn(command, tmp_path):
    empty = write_checkpoint(letters(blocks=0), tmp_path / "run")
    code, out, err = command("eval", "text", empty, "--judge", "none", "--save-samples", tmp_path / "s.jsonl")
    assert (code, out) == (2, "")
    assert "--no-references" in err
    assert not (tmp_path / "s.jsonl").exists()


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("dbtm", {"sampler": "iterate"}),
        ("dbtm", {"sampler": "integrate", "horizon": 2.0}),
        ("dbtm", {"commit": False, "sigma": 2.0}),
        ("mdlm", {"order": "confidence", "top_p": 0.9}),
        ("ar", {"temperature": 0.5}),
    ],
)
def test_every_method_takes_the_options_of_its_sampler(command, tmp_path, method, options):
    folder = write_checkpoint(letters(method), tmp_path / "run")
    budget = {} if method == "ar" else {"nfe": 3}
    given = [word for name, value in (budget | options).items() for word in _option(name, value)]
    words = ["eval", "text", folder, "--n", 4, "--seed", 2, "--judge", "none", "--no-references", *given]
    code, out, _ = command(*words, "--json", tmp_path / "e.json")
    assert code == 0
    (row,) = json.loads((tmp_path / "e.json").read_text())["rows"]
    assert row["settings"].items() >= (budget | options).items()
    sampler = dbtm.load(folder)
    trace = sampler.sample(4, seed=2, **budget, **options)
    counts = [np.unique(tokens, return_counts=True)[1] / 12 for tokens in trace.tokens]
    assert row["entropy"] == pytest.approx(np.mean([-(p * np.log(p)).sum() for p in counts]))
    assert row["nfe"] == trace.nfe.mean()
    assert ("3 NFE" in out) == (method != "ar")


def _option(name, value):
    flag = "--" + name.replace("_", "-")
    return [flag.replace("--", "--no-")] if value is False else [flag, value]


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("ar", ["--nfe", "1,4"], "'ar' needs one network evaluation per generated token"),
        ("ar", ["--sigma", "2"], "the sampler of 'ar' has no option 'sigma'"),
        ("mdlm", ["--repetition-penalty", "1"], "the sampler of 'mdlm' has no option 'repetition_penalty'"),
    ],
)
def test_options_that_a_method_lacks_are_refused_in_a_line(command, tmp_path, method, options, words):
    folder = write_checkpoint(letters(method), tmp_path / "run")
    code, out, err = command("eval", "text", folder, "--judge", "none", *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
