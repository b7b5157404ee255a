"""`dbtm data gsm8k` and `dbtm eval gsm8k`: what they write, what they print, what they refuse."""

import hashlib
import json
import re

import numpy as np
import pytest

import dbtm
from dbtm.config import override
from dbtm.recipes import recipe
from dbtm.tasks.gsm8k.layout import Layout
from dbtm.tasks.gsm8k.prepared import Prepared
from dbtm.tasks.gsm8k.synthetic import held_out, problem
from dbtm.tasks.text.tokenizer import load
from tests.cli.test_evaluate import OPTIONS
from tests.evals.tiny import METHODS, write_checkpoint

LENGTH = 240


def lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A file of forty problems with programs and answers."""
    found = [problem(key)._asdict() for key in range(40)]
    found[3]["code"] = found[3]["code"].replace("\n", "  # why\n", 1)
    return lines(tmp_path_factory.mktemp("programs") / "programs.jsonl", found)


@pytest.fixture(scope="module")
def prepared(programs, tmp_path_factory):
    """A set as the command prepares it."""
    from dbtm.cli import data_gsm8k

    out = tmp_path_factory.mktemp("prepared") / "set"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_gsm8k, "TRAIN_SYNTHETIC", 300)
        data_gsm8k.gsm8k(out, [programs], vocab=700, length=LENGTH, plain=True, synthetic=10)
    return out


@pytest.fixture(scope="module")
def models(prepared, tmp_path_factory):
    """Checkpoints of every method that have learned nothing."""
    sizes = ["model.width=16", "model.depth=1", "model.heads=2", "task.evaluate_n=2"]
    data = [f"task.data={prepared}", "task.vocab=700", f"task.length={LENGTH}"]
    own = {"dbtm": ["method.quality.enabled=false", "sample.scorer=confidence", "model.input_norm=false"]}
    configs = {m: override(recipe("gsm-small").by(m), [*sizes, *data, *own.get(m, [])]) for m in METHODS}
    return {name: write_checkpoint(config, tmp_path_factory.mktemp(name)) for name, config in configs.items()}


@pytest.fixture(scope="module")
def untrained(models):
    return models["dbtm"]


def test_data_prepares_a_set_that_trains(prepared, programs):
    manifest = json.loads((prepared / "manifest.json").read_text())
    assert (manifest["vocab"], manifest["length"], manifest["examples"]) == (700, LENGTH, 50)
    assert [source["examples"] for source in manifest["sources"]] == [40, 10]
    assert manifest["sources"][0]["sha256"] == hashlib.sha256(programs.read_bytes()).hexdigest()
    assert (prepared / "tokens.bin").stat().st_size == 2 * manifest["tokens"]
    task = override(recipe("gsm-small"), [f"task.data={prepared}", "task.vocab=700", f"task.length={LENGTH}"]).task
    assert task.batch(np.arange(8)).tokens.shape == (8, LENGTH)
    assert "#" not in task.layout.text(np.array(task.prepared.row(3).tokens)), "comments are gone"


def test_data_with_a_given_tokenizer(command, programs, prepared, tmp_path):
    words = ["data", "gsm8k", programs, "--tokenizer", prepared / "tokenizer.json", "--length", 120]
    code, out, _ = command(*words, "--out", tmp_path / "set")
    assert code == 0
    manifest = json.loads((tmp_path / "set" / "manifest.json").read_text())
    assert 0 < manifest["too_long"] == 40 - manifest["examples"]
    assert f"{manifest['too_long']} longer than 120 left out" in out
    assert (tmp_path / "set" / "tokenizer.json").read_text() == (prepared / "tokenizer.json").read_text()
    assert command(*words, "--out", tmp_path / "set")[0] == 2, "not overwritten unasked"
    assert command(*words, "--out", tmp_path / "set", "--force")[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["set"], "no temporary folder stays"


def test_data_writes_copies_with_other_numbers(command, prepared, tmp_path):
    story, code = "Tom has {} apples and buys {}.", "def simple_math_problem():\n    s1 = {} + {}\n    return s1"
    records = [{"question": story.format(48, 56), "code": code.format(48, 56)}, {"question": "Why?", "code": "x = 1"}]
    file = lines(tmp_path / "two.jsonl", records)
    words = ["data", "gsm8k", file, "--tokenizer", prepared / "tokenizer.json", "--length", LENGTH, "--synthetic", 5]
    assert command(*words, "--renumber", 4, "--out", tmp_path / "set")[0] == 0
    manifest = json.loads((tmp_path / "set" / "manifest.json").read_text())
    assert manifest["renumber"] == 4
    assert [source["examples"] for source in manifest["sources"]] == [6, 5], "synthetic ones have none"
    found = Prepared(tmp_path / "set")
    texts = [Layout(load(tmp_path / "set"), LENGTH).text(np.array(found.row(i).tokens)) for i in range(6)]
    assert texts[5] == "Why?\nx = 1"
    numbers = [re.findall(r"\b\d\d\b", text) for text in texts[:5]]
    assert len({tuple(each) for each in numbers}) == 5
    for text, (a, b, *_) in zip(texts[:5], numbers, strict=True):
        assert text == f"{story.format(a, b)}\n{code.format(a, b)}"


def test_data_counts_what_is_no_program(command, prepared, tmp_path):
    good, bad = problem(1)._asdict(), {"question": "How many?", "code": "48 divided by 2"}
    words = ["data", "gsm8k", "--plain", "--tokenizer", prepared / "tokenizer.json", "--length", LENGTH]
    code, out, _ = command(*words, lines(tmp_path / "a.jsonl", [good, bad, bad]), "--out", tmp_path / "set")
    assert code == 0
    assert "0 longer than 240, 2 that are not programs left out" in out
    manifest = json.loads((tmp_path / "set" / "manifest.json").read_text())
    assert (manifest["examples"], manifest["not_programs"]) == (1, 2)
    assert manifest["sources"][0]["not_programs"] == 2
    code, _, err = command(*words, lines(tmp_path / "b.jsonl", [bad]), "--out", tmp_path / "none")
    assert code == 2
    assert "none of the 1 examples gives a Python program" in err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("plain", [[], ["--plain"]])
def test_data_makes_programs_of_gsm8ks_own_solutions(command, prepared, tmp_path, plain):
    solved = {"question": "Half of 48?", "answer": "It is 48/2 = <<48/2=24>>24.\n#### 24"}
    unsaid = {"question": "Half of 48?", "answer": "It is 24.\n#### 24"}
    words = ["data", "gsm8k", "--tokenizer", prepared / "tokenizer.json", "--length", LENGTH, *plain]
    code, out, _ = command(*words, lines(tmp_path / "a.jsonl", [solved, unsaid]), "--out", tmp_path / "set")
    assert code == 0
    assert "1 examples" in out
    assert "1 that are not programs left out" in out
    row = Prepared(tmp_path / "set").row(0)
    step = "48 / 2" if plain else "48/2"
    text = Layout(load(tmp_path / "set"), LENGTH).text(np.array(row.tokens))
    assert text == f"Half of 48?\ndef simple_math_problem():\n    s1 = {step}\n    return s1"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "nothing to prepare"),
        (["missing.jsonl"], "no such file: missing.jsonl"),
        (["."], ". is a folder: give its files"),
        (["--synthetic", "5", "--length", "99999999999"], "at most 65535"),
        (["--synthetic", "-1"], "--synthetic -1 must be at least 0"),
        (["--synthetic", "5", "--length", "4"], "--length 4 must be at least 16 and at most 65535"),
        (["--synthetic", "5", "--vocab", "10"], "--vocab 10"),
        (["--synthetic", "5", "--vocab", "400", "--tokenizer", "x.json"], "leave it out with --tokenizer"),
        (["--synthetic", "5", "--tokenizer", "missing.json"], "no such tokenizer file"),
        (["--synthetic", "5", "--tokenizer", "train:700"], "leave --tokenizer out to train one (--vocab N)"),
        (["--synthetic", "5", "--renumber", "3"], "--renumber copies examples of files and of --hub"),
    ],
)
def test_data_refuses(command, tmp_path, options, words):
    code, out, err = command("data", "gsm8k", "--out", tmp_path / "set", *options)
    assert (code, out) == (2, "")
    assert words in err
    assert not list(tmp_path.iterdir())


def test_oracle(command, programs, tmp_path):
    code, out, _ = command(
        "eval", "gsm8k", "--oracle", programs, "--json", tmp_path / "e.json", "--jsonl", tmp_path / "e.jsonl"
    )
    assert code == 0
    assert "100.00" in out
    whole = json.loads((tmp_path / "e.json").read_text())
    assert (whole["correct"], whole["total"]) == (40, 40)
    assert set(whole["failures"].values()) == {0}
    assert whole["data"]["sha256"] == hashlib.sha256(programs.read_bytes()).hexdigest()
    assert whole.keys() >= {"low", "high", "programs_run_per_second", "sandbox", "hardware", "commit", "date"}
    found = [json.loads(line) for line in (tmp_path / "e.jsonl").read_text().splitlines()]
    assert [line["verdict"] for line in found] == ["correct"] * 40
    assert found[0].keys() >= {"question", "program", "output", "verdict", "answer", "value"}


def test_oracle_needs_no_questions_and_reads_worked_answers(command, tmp_path):
    path = lines(
        tmp_path / "p.jsonl",
        [
            {"code": "def simple_math_problem():\n    return 1000", "answer": "So much.\n#### 1,000"},
            {"code": "while True: pass", "answer": 3},
            {"code": "def f():\n    return 4", "answer": "$3"},
            {"code": "", "answer": 3},
        ],
    )
    assert command("eval", "gsm8k", "--oracle", path, "--json", tmp_path / "e.json")[0] == 0
    whole = json.loads((tmp_path / "e.json").read_text())
    assert (whole["correct"], whole["total"]) == (1, 4)
    assert {kind: n for kind, n in whole["failures"].items() if n} == {"timeout": 1, "wrong": 1, "missing": 1}


def test_a_model_is_evaluated_at_every_budget(command, untrained, tmp_path):
    data = lines(
        tmp_path / "test.jsonl", [{"question": e.question, "answer": f"#### {e.answer:,.0f}"} for e in held_out(3)]
    )
    words = ["eval", "gsm8k", untrained, "--nfe", "1,2", "--data", data, "--json", tmp_path / "e.json"]
    code, _, _ = command(*words, "--jsonl", tmp_path / "e.jsonl")
    assert code == 0
    whole = json.loads((tmp_path / "e.json").read_text())
    assert [(row["nfe"], row["total"], row["correct"] + sum(row["failures"].values())) for row in whole["rows"]] == [
        (1, 3, 3),
        (2, 3, 3),
    ]
    assert whole["data"] == {
        "file": "test.jsonl",
        "sha256": hashlib.sha256(data.read_bytes()).hexdigest(),
        "n": 3,
        "seed": 0,
    }
    assert whole["model"]["parameters"] == sum(p.numel() for p in dbtm.load(untrained).network.parameters())
    found = [json.loads(line) for line in (tmp_path / "e.jsonl").read_text().splitlines()]
    assert [(line["nfe"], line["index"]) for line in found] == [(nfe, i) for nfe in (1, 2) for i in range(3)]
    sampler = dbtm.load(untrained)
    given, _ = sampler.task.given([e.question for e in held_out(3)])
    trace = sampler.sample(**given, nfe=2, seed=0)
    assert [line["program"] for line in found[3:]] == sampler.task.programs(trace.tokens, given["clean"])


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_of_the_sampler_is_measured(command, untrained, tmp_path, name):
    """The programs are those that the library draws with the same options; and the JSON names the option."""
    words, options = OPTIONS[name]
    files = ["--json", tmp_path / "e.json", "--jsonl", tmp_path / "e.jsonl"]
    code, _, err = command("eval", "gsm8k", untrained, "--nfe", "3", "--n", 2, *words, *files)
    assert code == 0, err
    (row,) = json.loads((tmp_path / "e.json").read_text())["rows"]
    assert {key: row[key] for key in options} == options
    sampler = dbtm.load(untrained)
    given, _ = sampler.task.given([e.question for e in held_out(2)])
    trace = sampler.sample(**given, seed=0, nfe=3, **options)
    found = [json.loads(line)["program"] for line in (tmp_path / "e.jsonl").read_text().splitlines()]
    assert found == sampler.task.programs(trace.tokens, given["clean"])
    if name in ("non-commit", "iterate", "integrate", "temperature", "sigma"):
        plain = sampler.sample(**given, seed=0, nfe=3)
        assert not np.array_equal(plain.tokens, trace.tokens)


@pytest.mark.parametrize("method", ["mdlm", "ar"])
def test_other_methods_are_measured_with_what_they_have(command, models, tmp_path, method):
    words = [
        "eval",
        "gsm8k",
        models[method],
        "--n",
        2,
        "--temperature",
        0.5,
        *(["--nfe", 2] if method == "mdlm" else []),
    ]
    code, out, _ = command(*words, "--json", tmp_path / "e.json", "--jsonl", tmp_path / "e.jsonl")
    assert code == 0
    (row,) = json.loads((tmp_path / "e.json").read_text())["rows"]
    assert (row["total"], row["temperature"], row.get("nfe")) == (2, 0.5, 2 if method == "mdlm" else None)
    assert row.keys().isdisjoint({"kappa", "scorer"})
    assert ("1 per token" in out) == (method == "ar")
    sampler = dbtm.load(models[method])
    given, _ = sampler.task.given([e.question for e in held_out(2)])
    trace = sampler.sample(**given, seed=0, temperature=0.5, **({"nfe": 2} if method == "mdlm" else {}))
    found = [json.loads(line)["program"] for line in (tmp_path / "e.jsonl").read_text().splitlines()]
    assert found == sampler.task.programs(trace.tokens, given["clean"])
    if method == "ar":
        assert row["mean_nfe"] == (~given["clean"]).sum(-1).mean(), "one evaluation per generated token"


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("ar", ["--nfe", "1,4"], "'ar' needs one network evaluation per generated token"),
        ("mdlm", ["--kappa", ".5"], "the sampler of 'mdlm' has no option 'kappa'"),
        ("dbtm", ["--kappa", "2"], "kappa=2.0 must be between 0 and 1"),
        ("dbtm", ["--scorer", "best"], "scorer='best' is not a choice"),
    ],
)
def test_options_that_a_method_lacks_are_refused_in_a_line(command, models, method, options, words):
    code, out, err = command("eval", "gsm8k", models[method], "--n", 2, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_what_is_done_stays_when_a_later_budget_fails(command, untrained, tmp_path, monkeypatch):
    """A long evaluation that is killed has not been for nothing."""
    from dbtm.evals import programs

    solve, there = programs.solve, []

    def fails_at_two(*words, nfe, **options):
        there.append(sorted(path.name for path in tmp_path.iterdir()))
        if nfe == 2:
            raise KeyboardInterrupt
        return solve(*words, nfe=nfe, **options)

    monkeypatch.setattr(programs, "solve", fails_at_two)
    words = ["eval", "gsm8k", untrained, "--nfe", "1,2,4", "--n", 3]
    code, _, _ = command(*words, "--json", tmp_path / "e.json", "--jsonl", tmp_path / "e.jsonl")
    assert code != 0
    assert there == [[], ["e.json", "e.jsonl"]]
    assert [row["nfe"] for row in json.loads((tmp_path / "e.json").read_text())["rows"]] == [1]
    assert [json.loads(line)["index"] for line in (tmp_path / "e.jsonl").read_text().splitlines()] == [0, 1, 2]


def test_what_was_not_run_is_not_counted(command, untrained, tmp_path, monkeypatch):
    """The machine runs out of processes at the second budget: the first stays, and there is no second."""
    from dbtm.sandbox import Sandbox, runner

    spawn, calls = Sandbox._spawn, []

    def fails_later(self):
        calls.append(1)
        if len(calls) > 4:  # the probe, and three programs
            raise OSError(11, "no more processes")
        return spawn(self)

    monkeypatch.setattr(runner, "PAUSES", (0.0,))
    monkeypatch.setattr(Sandbox, "_spawn", fails_later)
    words = ["eval", "gsm8k", untrained, "--nfe", "1,2", "--n", 3, "--workers", 1, "--json", tmp_path / "e.json"]
    code, out, err = command(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "programs cannot be run here: the interpreter does not start: no more processes" in err
    assert [(row["nfe"], row["total"]) for row in json.loads((tmp_path / "e.json").read_text())["rows"]] == [(1, 3)]


@pytest.fixture
def weak(monkeypatch):
    """A sandbox without some of its means, of which nothing has been said yet."""
    from dbtm.sandbox import Sandbox, confinement

    monkeypatch.setattr(Sandbox, "missing", ["namespaces", "seccomp"])
    confinement.warn.cache_clear()


def test_a_weak_sandbox_is_told(command, programs, tmp_path, weak):
    code, out, err = command("eval", "gsm8k", "--oracle", programs, "--n", 1, "--json", tmp_path / "e.json")
    assert code == 0
    assert "warning: the sandbox lacks namespaces, seccomp on this machine" in err
    assert "warning" not in out
    assert json.loads((tmp_path / "e.json").read_text())["sandbox_without"] == ["namespaces", "seccomp"]


def test_synthetic_problems_are_the_default(command, untrained, prepared, tmp_path):
    words = ["eval", "gsm8k", untrained, "--nfe", 1, "--n", 2, "--seed", 3, "--json", tmp_path / "e.json"]
    assert command(*words, "--jsonl", tmp_path / "e.jsonl", "--tokenizer", prepared / "tokenizer.json")[0] == 0
    assert json.loads((tmp_path / "e.json").read_text())["data"] == {"synthetic": "held out", "n": 2, "seed": 3}
    found = [json.loads(line)["question"] for line in (tmp_path / "e.jsonl").read_text().splitlines()]
    assert found == [example.question for example in held_out(2, 3)]


def test_quick_evaluation_during_training(untrained, weak, capsys):
    from dbtm.evals import quick

    sampler = dbtm.load(untrained)
    for _ in range(2):
        found = quick.evaluate(sampler, seed=0)
    assert capsys.readouterr().err.count("warning: the sandbox lacks namespaces, seccomp on this machine") == 1
    assert found.keys() == {"correct_1", "correct_4", "correct_16", "score"}
    assert all(0 <= value <= 1 for value in found.values())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "either a CHECKPOINT or --oracle"),
        (["somewhere", "--oracle", "x.jsonl"], "either a CHECKPOINT or --oracle"),
        (["--oracle", "x.jsonl", "--data", "y.jsonl"], "leave --data out"),
        (
            ["--oracle", "x.jsonl", "--nfe", "4", "--batch", "8", "--device", "cpu"],
            "leave --nfe, --batch, --device out",
        ),
        (["--oracle", "x.jsonl", "--seed", "0"], "leave --seed out"),
        (["--oracle", "missing.jsonl"], "no such file: missing.jsonl"),
        (["--oracle", "x.jsonl", "--n", "0"], "at least 1"),
        (["--oracle", "x.jsonl", "--json", "no/e.json"], "no folder no"),
        (["--oracle", "x.jsonl", "--json", "e", "--jsonl", "./e"], "--json and --jsonl name the same file e"),
        (["nowhere"], "nowhere"),
        (["nowhere", "--nfe", "0"], "--nfe 0"),
        (["--oracle", "x.jsonl", "--kappa", "2"], "leave --kappa out"),
        (["sudoku"], "trained on 'sudoku'"),
    ],
)
def test_eval_refuses(command, options, words):
    code, out, err = command("eval", "gsm8k", *options)
    assert (code, out) == (2, "")
    assert words in err


def test_a_prepared_set_is_no_checkpoint(command, prepared):
    code, out, err = command("eval", "gsm8k", prepared)
    assert (code, out) == (2, "")
    assert "set is prepared data, not a checkpoint" in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "to the folder"),
        (["--data", "SET", "--vocab", "700"], "not for 'gsm-small'"),
        (["--data", "SET", "--set", "task.evaluate_data=none.jsonl"], "no such file: none.jsonl"),
    ],
)
def test_training_refuses_before_it_begins(command, prepared, tmp_path, options, words):
    given = [str(prepared) if option == "SET" else option for option in options]
    code, out, err = command("train", "gsm-small", "--out", tmp_path / "run", *given)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert not (tmp_path / "run").exists()


def test_doctor_names_the_walls(command):
    code, out, _ = command("doctor")
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.startswith("sandbox")]
    assert "allow-list" in line
    assert "limits" in line
