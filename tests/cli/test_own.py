"""Rows of one's own from the command line: every format, the user's symbols, and `dbtm eval own`."""

import json
import re

import numpy as np
import pytest

SETS = ["train.steps=3", "train.batch=8", "model.width=16", "model.depth=1", "model.heads=2", "optim.warmup=1"]
WORDS = [w for s in [*SETS, "train.device=cpu"] for w in ("--set", s)]


@pytest.fixture
def dna(command, tmp_path):
    """A run on letters."""
    rng = np.random.default_rng(0)
    (tmp_path / "dna.txt").write_text("".join("".join(rng.choice(list("ACGT"), 6)) + "\n" for _ in range(60)))
    code, _, err = command("train", "own", "--data", tmp_path / "dna.txt", "--out", tmp_path / "run", *WORDS)
    assert code == 0, err
    return tmp_path / "run"


def test_samples_are_printed_in_the_users_symbols(command, dna):
    code, out, _ = command("sample", dna, "--n", 2, "--nfe", 2, "--given", "AC__GT", "--trace")
    assert code == 0
    rows = [line.split()[0] for line in out.splitlines() if "NFE" in line]
    assert len(rows) == 2
    assert all(row.startswith("AC") and row.endswith("GT") and set(row) <= set("ACGT") for row in rows)
    assert any(line.split(": ")[1].split()[0] == "A" for line in out.splitlines() if "round 1" in line)
    code, _, err = command("sample", dna, "--given", "XC__GT")
    assert (code, "'X' is not a token" in err) == (2, True)


def test_rows_are_measured_with_a_metric_of_the_users(command, dna, tmp_path):
    (tmp_path / "mine.py").write_text("def starts_with_a(rows):\n    return [row[0] == 'A' for row in rows]\n")
    words = [
        "--nfe",
        "1,2",
        "--n",
        20,
        "--metric",
        f"{tmp_path / 'mine.py'}:starts_with_a",
        "--json",
        tmp_path / "e.json",
    ]
    code, out, err = command("eval", "own", dna, *words)
    assert code == 0, err
    assert "starts_with_a" in out
    assert "denoising cross-entropy" in out
    document = json.loads((tmp_path / "e.json").read_text())
    assert [row["kind"] for row in document["rows"]] == ["held out", "samples", "samples"]
    assert [row["n"] for row in document["rows"]] == [3, 20, 20]
    assert document["data"]["trained_on"] == 57


def test_moved_rows_are_named(command, dna, tmp_path):
    (tmp_path / "dna.txt").rename(tmp_path / "moved.txt")
    code, _, err = command("eval", "own", dna)
    assert (code, "no such data file" in err) == (2, True)
    code, _, err = command("eval", "own", dna, "--data", tmp_path / "moved.txt", "--nfe", 1, "--n", 4)
    assert code == 0, err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sudoku"], "was trained on 'sudoku', not on rows of your own"),
        (["sudoku", "--n", "0"], "--n 0 must be at least 1"),
        (["sudoku", "--metric", "mine.py"], "file.py:function"),
    ],
)
def test_what_cannot_be_measured_is_a_line(command, words, message):
    code, _, err = command("eval", "own", *words)
    assert (code, message in err, err.count("\n")) == (2, True, 1)


def test_every_position_of_a_row_has_its_own_embedding(dna):
    """Where a row begins and ends is part of what rows are; rotary angles alone know distances only."""
    from dbtm.checkpoint.loading import load

    network = load(dna, "cpu").network
    assert [len(table) for table in network.positions] == [network.shape.length]
    assert network.position_ids[:, 0].tolist() == list(range(network.shape.length))


def test_an_unknown_size_is_a_line(command, tmp_path):
    (tmp_path / "a.txt").write_text("ab\nba\n")
    code, _, err = command("train", "own", "--data", tmp_path / "a.txt", "--size", "hugo")
    assert (code, "size hugo is not a choice" in err) == (2, True)
    code, _, err = command("train", "markov", "--size", "tiny")
    assert (code, "size are for the recipe 'own'" in err) == (2, True)


def test_rounds_are_planned_when_training_ends_and_by_a_command(command, dna, tmp_path):
    from dbtm.checkpoint.loading import load

    plans = load(dna, "cpu").options.plan_by_nfe
    assert [nfe for nfe, _ in plans] == [2, 3, 4, 5]
    code, out, err = command("tune", dna, "--device", "cpu")
    assert (code, err) == (0, "")
    assert out.splitlines()[:-1] == [f"{nfe} NFE: {' '.join(map(str, sizes))}" for nfe, sizes in plans]
    for rounds, want in (("planned", [[3, [*dict(plans)[3]]]]), ("equal", None)):
        words = ["--nfe", 3, "--n", 4, "--rounds", rounds, "--json", tmp_path / "e.json"]
        code, _, err = command("eval", "own", dna, *words)
        assert code == 0, err
        row = json.loads((tmp_path / "e.json").read_text())["rows"][-1]["settings"]
        assert row.get("plan_by_nfe") == want


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tune", "sudoku"], "is a packaged model"),
        (["tune", "nowhere"], "no such checkpoint: nowhere"),
        (["sample", "text", "--rounds", "planned"], "plans with `dbtm tune`"),
        (["sample", "text", "--rounds", "even"], "sample.rounds='even' is not a choice"),
    ],
)
def test_wrong_plans_are_a_line(command, words, message):
    code, _, err = command(*words)
    assert (code, message in err, err.count("\n")) == (2, True, 1), err


def test_rows_of_a_table_are_printed_and_given_in_its_notation(command, tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "rows.csv").write_text("".join(",".join(map(str, rng.integers(8, 12, 4))) + "\n" for _ in range(12)))
    code, _, err = command("train", "own", "--data", tmp_path / "rows.csv", "--out", tmp_path / "run", *WORDS)
    assert code == 0, err
    assert "\n  12 rows are too few to hold out 5 %: no validation loss\n" in err
    for given in ("10,_,_,11", "10 _ _ 11", "10, _, _, 11"):
        code, out, err = command("sample", tmp_path / "run", "--n", 1, "--nfe", 2, "--given", given)
        assert code == 0, err
        row = out.split()[0].split(",")
        assert (len(row), row[0], row[3]) == (4, "10", "11")
        assert set(row) <= {"8", "9", "10", "11"}
    code, _, err = command("sample", tmp_path / "run", "--given", "10,_,_")
    assert (code, err) == (2, "dbtm: --given has 3 entries, the model's sequences have 4\n")


def test_a_dry_run_names_what_its_memory_leaves_out(command, tmp_path):
    (tmp_path / "a.txt").write_text("ab\nba\n")
    code, out, err = command("train", "own", "--data", tmp_path / "a.txt", "--dry-run", *WORDS)
    assert code == 0, err
    assert "optimizer state; activations, which grow with train.batch, are not included" in out
    assert "  2 rows are too few to hold out 5 %: no validation loss" in out
    assert not re.search(r"\b[01] seconds", out)


def test_shares_have_intervals_within_0_and_1(command, dna, tmp_path):
    (tmp_path / "mine.py").write_text("def most(rows):\n    return [i > 0 for i in range(len(rows))]\n")
    words = ["--nfe", 1, "--n", 12, "--metric", f"{tmp_path / 'mine.py'}:most", "--json", tmp_path / "e.json"]
    code, _, err = command("eval", "own", dna, *words)
    assert code == 0, err
    row = json.loads((tmp_path / "e.json").read_text())["rows"][-1]
    assert (row["most_low"], row["most_high"]) == pytest.approx((0.6461, 0.9851), abs=1e-3)  # Wilson, 11 of 12
    assert 0 <= row["copies_low"] <= row["copies"] <= row["copies_high"] <= 1
