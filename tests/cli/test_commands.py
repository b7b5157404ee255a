"""The command as a user meets it: exit codes, one clear line, nothing written on a mistake."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from dbtm.cli import main


def run(capsys, monkeypatch, *words: str) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of `dbtm WORDS`, in this process."""
    monkeypatch.setattr(sys, "argv", ["dbtm", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.fixture
def dbtm(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *words: run(capsys, monkeypatch, *words)


def test_help_is_quick_and_torch_stays_out():
    """Counted in modules, not seconds: neither `import dbtm` nor `dbtm --help` may load anything heavy."""
    code = (
        "import sys; sys.argv = ['dbtm', '--help']\n"
        "import dbtm\nassert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
        "from dbtm.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'scipy', 'matplotlib', 'numba'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_public_names_all_exist():
    import dbtm

    for name in dbtm.__all__:
        assert getattr(dbtm, name) is not None
    with pytest.raises(AttributeError):
        _ = dbtm.nothing


def test_recipes_and_doctor(dbtm):
    code, out, _ = dbtm("recipes")
    assert code == 0
    assert {"simplex", "markov", "own"} <= set(re.findall(r"^(\S+)", out, re.M))
    code, out, _ = dbtm("recipes", "markov", "--json")
    assert json.loads(out)["task"]["name"] == "markov"
    code, out, _ = dbtm("recipes", "markov")
    (row,) = re.findall(r"^model.width +64 +768 +(.*)$", out, re.M)  # value, default, meaning
    assert row.startswith("Channels of")
    assert "method.loss.interpolant_fraction" in out  # names are whole on a narrow terminal
    code, out, _ = dbtm("recipes", "markov", "--method", "mdlm")
    assert "method.eps" in out
    assert "method.loss" not in out
    code, out, _ = dbtm("doctor")
    assert code == 0
    for word in ("device", "dtype", "attention", "torch"):
        assert word in out
    assert dbtm("--version")[1].startswith("dbtm ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "markof"], "did you mean 'markov'"),
        (["train", "markov", "--set", "train.stesp=3"], "did you mean 'steps'"),
        (["train", "markov", "--resume", "always"], "--resume always"),
        (["train", "markov", "--init", "nowhere"], "no such checkpoint: nowhere (packaged models: sudoku, text)"),
        (["train", "markov", "--init", "sudoku"], "another model."),
        (["train", "markov", "--max-seconds", "0"], "--max-seconds must be positive"),
        (["train", "markov", "--vocab", "3"], "are for the recipe 'own'"),
        (["train", "own", "--vocab", "3"], "needs data, length"),
        (["train", "own", "--data", "x.npy", "--vocab", "3", "--length", "4"], "no such data file: 'x.npy'"),
        (["sample", "nowhere"], "no such checkpoint: nowhere"),
        (["sample", ".", "--n", "0"], "--n 0 must be at least 1"),
        (["sample", "sudoku", "--json", "nowhere/x.json"], "there is no folder nowhere"),
        (["sample", "sudoku", "--device", "gpu"], "device gpu is not a choice"),
        (["train", "markov", "--out", os.devnull], "is a file: a run needs a folder"),
        *(
            (["train", "markov", "--set", setting], message)
            for setting, message in [
                ("train.micro_batch=-4", "train.micro_batch=-4 must not be negative"),
                ("optim.clip=-1", "optim.clip=-1"),
                ("optim.lr=NaN", "must be a finite number"),
                ("optim.betas=[2,3]", "below 1"),
                ("model.dropout=1", "below 1"),
                ("method.quality.heads=0", "method.quality.heads=0 must be positive"),
                ("ril.weight=1", "did you mean method.ril.weight?"),
                ("ril.weight=1", "unknown section 'ril'"),
                ("model.position_axes=[2]", "does not fit the positions of task 'markov'"),
                ("train.device=foo", "train.device=foo"),
                ("train.seed=99999999999999999999", "train.seed"),
            ]
        ),
    ],
)
def test_a_mistake_is_one_line_exit_2_and_nothing_written(dbtm, tmp_path, words, message):
    code, out, err = dbtm(*words)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.startswith("dbtm: ")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[0, 1, 2, 7]]), "token 7, outside 0..2"),
        (np.array([[0, -1, 2, 1]]), "token -1"),
        (np.zeros((3, 5), int), "length 5, but task.length is 4"),
        (np.zeros((3, 4)), "must hold integers"),
        (np.zeros(3, int), "no full sequence"),
        (b"not an array", "is not a .npy array"),
    ],
)
def test_bad_own_data_is_refused(dbtm, tmp_path, array, message):
    path = tmp_path / "tokens.npy"
    if isinstance(array, bytes):
        path.write_bytes(array)
    else:
        np.save(path, array)
    code, _, err = dbtm("train", "own", "--data", "tokens.npy", "--vocab", "3", "--length", "4")
    assert code == 2
    assert message in err
    assert [p.name for p in tmp_path.iterdir()] == ["tokens.npy"]


def test_a_threshold_asked_for_is_used_even_where_the_model_has_tuned_ones(dbtm, tmp_path):
    code, out, _ = dbtm("sample", "sudoku", "--n", "1", "--nfe", "3", "--kappa", "0")
    assert (code, "(1 NFE)" in out) == (0, True)


def test_own_tokens_train_and_sample_without_code(dbtm, tmp_path):
    np.save(tmp_path / "tokens.npy", np.tile(np.arange(5), 60))  # one long stream
    sets = ["train.steps=3", "train.batch=8", "model.width=16", "model.depth=1", "model.heads=2", "optim.warmup=1"]
    sets += ["task.prompt=1"]
    words = [w for s in sets for w in ("--set", s)]
    code, out, err = dbtm("train", "own", "--data", "tokens.npy", "--vocab", "5", "--length", "6", *words)
    assert code == 0
    assert "step 3/3" in err
    assert out.strip() == os.path.join("runs", "own", "step-00000003")
    code, out, _ = dbtm(
        "sample", "runs/own", "--n", "2", "--nfe", "3", "--trace", "--given", "4 _ _ _ _ 1", "--json", "s.json"
    )
    assert code == 0
    assert "round 1:" in out
    document = json.loads((tmp_path / "s.json").read_text())
    assert [row[0] for row in document["tokens"]] == [4, 4]
    assert [row[-1] for row in document["tokens"]] == [1, 1]
    code, _, err = dbtm("sample", "runs/own", "--given", "4 _ 9 _ _ 1")
    assert (code, "'9' is not a token" in err) == (2, True)
    code, _, err = dbtm("sample", "runs/own", "--given", "² _ _ _ _ 1")
    assert (code, "'²' is not a token" in err) == (2, True)
    code, _, err = dbtm("sample", "runs/own", "--given", "4")
    assert (code, "has 1 entries" in err) == (2, True)
    code, _, err = dbtm("sample", "runs/own", "--scorer", "qualty")
    assert (code, "did you mean 'quality'" in err) == (2, True)
    code, _, err = dbtm("train", "own", "--data", "tokens.npy", "--vocab", "5", "--length", "6", *words)
    assert (code, "resume it" in err) == (2, True)
    again = ("train", "own", "--resume", "auto", "--set", "train.steps=5")  # data and settings are those it had
    code, out, _ = dbtm(*again)
    assert (code, out.strip()) == (0, os.path.join("runs", "own", "step-00000005"))
    code, _, err = dbtm("train", "markov", "--resume", "auto", "--out", "runs/own")
    assert (code, "is a run of 'own', not of 'markov'" in err) == (2, True)
    code, _, err = dbtm("train", "markov", "--out", out.strip())
    assert (code, "is a checkpoint or prepared data" in err) == (2, True)
    code, _, err = dbtm("sample", "runs/own", "--json", os.path.join(out.strip(), "config.json"))
    assert (code, "belongs to a checkpoint" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sample", "sudoku", "--n", "99999999999999"], "--n 99999999999999 must be at least 1 and at most 10000000"),
        (["sample", "sudoku", "--nfe", "99999999999"], "99999999999 network evaluations (nfe) are too many"),
        (["train", "markov", "--set", "train.batch=99999999999"], "train.batch=99999999999 must be between"),
        (["train", "own", "--data", "a.npy", "--vocab", "999999999999", "--length", "2"], "not enough memory"),
        (["train", "markov", "--out", "letter/run"], "cannot write"),
    ],
)
def test_what_the_machine_cannot_do_is_one_line_too(dbtm, tmp_path, words, message):
    (tmp_path / "letter").write_text("dear")
    np.save(tmp_path / "a.npy", np.zeros((4, 2), dtype=np.int64))
    code, _, err = dbtm(*words)
    *before, complaint = err.splitlines()
    assert (code, complaint.startswith("dbtm: ")) == (2, True)
    assert message in complaint
    assert not before or before[0].startswith(("markov by dbtm", "own by dbtm")), "only the header of a run"


def test_without_a_compiler_training_goes_on_and_says_so(dbtm, monkeypatch, few_samples_measured):
    monkeypatch.setenv("CXX", "no-such-compiler")
    sets = ["train.compile=true", "train.device=cpu", "train.steps=1", "optim.warmup=1", "train.batch=4"]
    code, out, err = dbtm("train", "markov", *[word for s in sets for word in ("--set", s)])
    assert (code, out.strip()) == (0, os.path.join("runs", "markov", "step-00000001"))
    assert "continues without train.compile, which is slower: CXX=no-such-compiler is not a command" in err
    code, _, err = dbtm("bench", "backbone", "--device", "cpu", "--lengths", "8", "--width", "64", "--compile")
    assert (code, err.count("\n"), "CXX=no-such-compiler" in err) == (2, 1, True)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a full disk of Linux")
def test_a_full_disk_is_one_line():
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "dbtm", "recipes"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ended.returncode == 2
    assert ended.stderr.startswith("dbtm: ")
    assert ended.stderr.count("\n") == 1


def test_whoever_stops_reading_has_the_files(tmp_path):
    words = ["sample", "sudoku", "--n", "1", "--nfe", "1", "--json", "s.json", "--html", "s.html"]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "-m", "dbtm", *words]
        ended = subprocess.run(command, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(writer)
    assert "Traceback" not in ended.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.html", "s.json"]
