"""`dbtm data text`, `lm1b`, `owt` and what trains on them, as a user meets them."""

import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys

import pytest

from dbtm.tasks.text.shards import Prepared
from tests.processes import PATIENCE, wait_until

SENTENCES = [f"The {a} fox number {i} jumps over the {b} dog." for i in range(150) for a, b in [("quick", "lazy")]]


BIG = "100000000000000000000"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in, and beside it a file of sentences."""
    (tmp_path / "a.txt").write_text("\n".join(SENTENCES) + "\n")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def data(command, *words, out="set"):
    settings = ("--tokenizer", "train:280", "--length", 16, "--out", out, "--workers", 1, "--validation", 0.1)
    return command("data", "text", *words, *settings)


def test_text_from_several_files(command, here):
    with gzip.open(here.parent / "b.jsonl.gz", "wt") as file:
        file.write("".join(json.dumps({"body": f"more {s}"}) + "\n" for s in SENTENCES))
    code, out, err = data(command, "--input", "../a.txt", "../b.jsonl.gz", "--field", "body")
    assert (code, err) == (0, "")
    manifest = Prepared("set").manifest
    assert manifest["train"]["documents"] + manifest["validation"]["documents"] == 300
    assert manifest["source"] == ["a.txt", "b.jsonl.gz"]
    assert manifest["tokenizer_name"] == "train:280"
    assert manifest["passed_over"] == []
    assert f"{manifest['train']['blocks']:,} blocks of 16" in out
    assert "vocabulary 280, uint16" in out
    assert os.listdir(here) == ["set"]
    # again with the tokenizer that was trained: the same tokens
    words = ("data", "text", "../a.txt", "../b.jsonl.gz", "--field", "body", "--tokenizer", "set/tokenizer.json")
    assert command(*words, "--length", 16, "--validation", 0.1, "--workers", 1, "--out", "again")[0] == 0
    assert Prepared("again").manifest["train"] == manifest["train"]


def test_a_vocabulary_that_the_text_does_not_fill_is_told(command, here):
    words = ("--tokenizer", "train:70000", "--length", 16, "--workers", 1, "--validation", 0.1, "--out", "set")
    code, out, _ = command("data", "text", "../a.txt", *words)
    assert code == 0
    got = Prepared("set").vocab
    assert got < 1000
    assert f"vocabulary {got} (70,000 requested, but there is too little text), uint16" in out


def test_files_of_a_folder_that_are_not_read_are_told_and_recorded(command, here):
    (here.parent / "folder").mkdir()
    (here.parent / "a.txt").rename(here.parent / "folder" / "a.txt")
    for name in ("notes.md", "x.json", "y.png", "z.png"):
        (here.parent / "folder" / name).write_text("[]")
    code, _, err = data(command, "../folder")
    assert code == 0
    assert "skipped 4 files" in err
    assert "notes.md, x.json, y.png and 1 more" in err
    assert Prepared("set").manifest["passed_over"] == ["notes.md", "x.json", "y.png", "z.png"]


def test_validation_text_teaches_the_tokenizer_nothing(command, here):
    """A letter that only a validation document has stays in bytes."""
    from dbtm.tasks.text.prepare import Layout

    layout = Layout(16, validation=0.1)
    odd = next(text for i in range(1000) if layout.split_of(text := f"{i}" + " ωωωω" * 60) == "validation")
    (here.parent / "c.txt").write_text(odd)
    assert data(command, "../a.txt", "../c.txt")[0] == 0
    vocabulary = json.loads((here / "set" / "tokenizer.json").read_text())["model"]["vocab"]
    assert not [
        token for token in vocabulary if "Ï" in token and len(token) > 1
    ]  # ω is two bytes, the first shown as Ï


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["data", "text", "--tokenizer", "train:280", "--length", "8", "--out", "x"], "nothing to read"),
        (
            ["data", "text", "nowhere.txt", "--tokenizer", "gpt2", "--length", "8", "--out", "x"],
            "no such file or folder",
        ),
        (["data", "text", "-", "--tokenizer", "train:280", "--length", "8", "--out", "x"], "reads its input twice"),
        (["data", "text", "../a.txt", "--tokenizer", "train:99", "--length", "8", "--out", "x"], "at least 257"),
        (
            ["data", "text", "../a.txt", "--tokenizer", "no.json", "--length", "8", "--out", "x"],
            "no such tokenizer file",
        ),
        (["data", "text", "../a.txt", "--tokenizer", "train:280", "--length", "0", "--out", "x"], "length 0"),
        (
            ["data", "text", "../a.txt", "--tokenizer", "train:280", "--length", "9", "--out", "x/y"],
            "there is no folder x",
        ),
        (["data", "text", "../a.txt", "--tokenizer", "train:280", "--length", "9999", "--out", "x"], "too little text"),
        (
            ["data", "text", "../bad.txt", "--tokenizer", "train:280", "--length", "8", "--out", "x"],
            "at position 3 (line 1)",
        ),
        (["data", "text", "../empty.txt", "--tokenizer", "train:280", "--length", "8", "--out", "x"], "has no text"),
        (
            ["data", "text", "../a.txt", "--tokenizer", "train:280", "--length", "8", "--out", "x", "--eos", "END"],
            "no 'END'",
        ),
        (
            ["data", "text", "../a.txt", "--tokenizer", "train:280", "--length", "8", "--out", "x", "--workers", "-1"],
            "--workers -1",
        ),
        (
            ["data", "text", "../a.txt", "--tokenizer", "train:280", "--length", "8", "--out", "x", "--workers", BIG],
            f"--workers {BIG} must be",
        ),
        (["data", "text", "../a.txt", "--tokenizer", "train:280", "--length", BIG, "--out", "x"], "is too long"),
        (["data", "text", "../a.txt", "--tokenizer", f"train:{BIG}", "--length", "8", "--out", "x"], "at most 1048576"),
        (
            ["data", "text", "../pipe", "--tokenizer", "train:280", "--length", "8", "--out", "x"],
            "pipe can be read only once",
        ),
        (
            ["data", "text", os.devnull, "--tokenizer", "train:280", "--length", "8", "--out", "x"],
            "is not a file, a folder or a pipe",
        ),
        (["data", "lm1b", "--local", "nowhere", "--out", "x"], "--local nowhere: no such folder"),
        (["data", "owt", "--local", "..", "--length", "2", "--out", "x"], "at least 3 tokens"),
        (["data", "owt", "--validation", "0.1", "--seed", "3", "--out", "x"], "leave --validation, --seed out"),
        (["data", "text", "../a.json", "--tokenizer", "gpt2", "--length", "8", "--out", "x"], "JSON lines"),
        (["train", "text"], "prepare some (`dbtm data text`"),
        (["train", "text", "--data", "nowhere"], "nowhere is not prepared text"),
        (["train", "text", "--vocab", "9"], "are for the recipe 'own'"),
    ],
)
def test_a_mistake_is_one_line_exit_2_and_nothing_written(command, here, words, message):
    (here.parent / "bad.txt").write_bytes(b"bad\xff\n")
    (here.parent / "empty.txt").write_text("")
    (here.parent / "a.json").write_text("[]")
    os.mkfifo(here.parent / "pipe")
    code, out, err = command(*words)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.startswith("dbtm: ")
    assert err.count("\n") == 1
    assert not list(here.iterdir())


def test_an_old_set_is_kept_unless_forced(command, here):
    assert data(command, "../a.txt")[0] == 0
    code, _, err = data(command, "../a.txt")
    assert code == 2
    assert "force overwriting" in err
    assert data(command, "../a.txt", "--force", "--edges")[0] == 0
    assert Prepared("set").manifest["wrap"]["bos_eos_around_block"] is True


def begun(command, here, workers: int, sign: str) -> subprocess.Popen:
    """A preparation in a process of its own that has written `sign` and waits for more input."""
    assert data(command, "../a.txt", out="../words")[0] == 0
    words = [
        "data",
        "text",
        "-",
        "--tokenizer",
        "../words",
        "--length",
        "16",
        "--out",
        "set",
        "--workers",
        f"{workers}",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "dbtm", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdin.write(("\n".join(SENTENCES) + "\n").encode() * 500)
    process.stdin.flush()  # and the input stays open
    assert wait_until(lambda: list(here.glob(sign))), "it never began to write"
    return process


@pytest.mark.parametrize(
    ("number", "codes", "workers", "sign"),
    [(signal.SIGTERM, {143}, 1, ".set.*.part/train*"), (signal.SIGINT, {1, 130}, 2, ".set.*.part")],
)
def test_an_interrupted_preparation_leaves_nothing(command, here, number, codes, workers, sign):
    process = begun(command, here, workers, sign)
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    assert process.returncode in codes
    assert not list(here.iterdir())


def test_workers_end_with_a_preparation_that_is_killed(command, here):
    process = begun(command, here, 2, ".set.*.part/train*")  # what is written came from workers
    process.kill()
    process.communicate(timeout=PATIENCE)  # workers have the same output, which ends with the last of them
    assert process.returncode == -signal.SIGKILL


def test_lm1b_from_a_local_copy(command, here):
    copy = here.parent / "copy"
    for split in ("training", "heldout"):
        (copy / split).mkdir(parents=True)
        (copy / split / f"news.en.{split}-00001").write_text("\n".join(s.replace(".", " .") for s in SENTENCES))
    words = ("--tokenizer", "train:280", "--length", 16, "--workers", 1, "--out", "lm1b")
    assert command("data", "lm1b", "--local", copy, *words)[0] == 0
    prepared = Prepared("lm1b")
    assert prepared.manifest["train"]["documents"] == prepared.manifest["validation"]["documents"] == 150
    assert prepared.manifest["wrap"]["bos_eos_around_block"] is True
    from dbtm.tasks.text.task import Text

    task = Text(data="lm1b", vocab=prepared.vocab, length=16)
    text = task.text(task.validation(1)[0])
    assert text.startswith("<|endoftext|>The quick fox number 0 jumps over")
    whole = "".join(task.decode(task.validation(10**6))).replace("<|endoftext|>", "")
    assert "dog.The" in whole  # full stops are back in place
    assert " ." not in whole


def test_owt_from_a_local_copy(command, here):
    copy = here.parent / "copy"
    copy.mkdir()
    for i, sentence in enumerate(SENTENCES):
        (copy / f"{i}.txt").write_text(f"{sentence}\n\nA second paragraph.\n")
    words = ("--tokenizer", "train:280", "--length", 16, "--workers", 1, "--validation", 0.2, "--out", "owt")
    assert command("data", "owt", "--local", copy, *words)[0] == 0
    manifest = Prepared("owt").manifest
    assert manifest["train"]["documents"] + manifest["validation"]["documents"] == 150
    assert manifest["validation"]["documents"] > 10


SMALL = "model.width=16 model.heads=2 model.depth=1 method.quality.enabled=false train.steps=2 train.batch=4"
FLAGS = "optim.warmup=1 train.compile=false train.precision=fp32 train.log_every=1 train.device=cpu task.evaluate_n=8"
QUICK = [word for setting in f"{SMALL} {FLAGS}".split() for word in ("--set", setting)]


def test_train_takes_vocabulary_and_length_from_the_data(command, here):
    assert data(command, "../a.txt")[0] == 0
    code, out, err = command("train", "text", "--data", "set", "--out", "run", *QUICK)
    assert code == 0, err
    config = json.loads((here / out.strip() / "config.json").read_text())
    assert (config["task"]["data"], config["task"]["vocab"], config["task"]["length"]) == ("set", 280, 16)
    records = [json.loads(line) for line in (here / "run" / "metrics.jsonl").read_text().splitlines()]
    (found,) = [record for record in records if "eval/entropy_1" in record]
    assert found["eval/entropy_distance_1"] == pytest.approx(found["eval/entropy_1"] - found["eval/entropy_data"])
    code, out, err = command("sample", "run", "--n", 1, "--nfe", 1, "--device", "cpu")
    assert code == 0, err


def test_damaged_validation_text_is_told_before_training(command, here):
    assert data(command, "../a.txt")[0] == 0
    (here / "set" / "validation-00000.bin").write_bytes(b"\0\0")
    code, _, err = command("train", "text", "--data", "set", "--out", "run", *QUICK)
    assert code == 2
    assert "validation-00000.bin is damaged" in err
    assert not (here / "run").exists()


def test_a_resumed_run_may_be_evaluated_on_more_samples(command, here):
    assert data(command, "../a.txt")[0] == 0
    words = ["train", "text", "--data", "set", "--out", "run", *QUICK]
    assert command(*words)[0] == 0
    more = ["--resume", "auto", "--set", "train.steps=3", "--set", "task.evaluate_n=9"]
    code, _, err = command(*words, *more)
    assert code == 0, err
    code, _, err = command(*words, *more, "--set", "task.seed=1")
    assert code == 2
    assert "another task.seed" in err


def test_a_text_model_is_evaluated_where_its_data_has_moved(command, here):
    assert data(command, "../a.txt")[0] == 0
    assert command("train", "text", "--data", "set", "--out", "run", *QUICK)[0] == 0
    (here / "set").rename(here / "moved")
    manifest = Prepared("moved").manifest
    for words in (["eval", "text", "run", "--json", "e.json"], ["sweep", "text", "run", "--out", "sweep"]):
        words += ["--nfe", 1, "--n", 2, "--judge", "none", "--device", "cpu"]
        code, _, err = command(*words)
        assert code == 2
        assert "no real text to compare with" in err
        code, _, err = command(*words, "--data", "moved")
        assert (code, "warning" in err) == (0, False)
    whole = json.loads((here / "e.json").read_text())
    assert [row["kind"] for row in whole["rows"]] == ["sample", "real", "shuffled"]
    digest = hashlib.sha256((here / "moved" / "manifest.json").read_bytes()).hexdigest()
    assert whole["samples"][1] == {"data": "moved", "sha256": digest}
    lines = (here / "sweep" / "samples.jsonl").read_text().splitlines()
    origins = [json.loads(line)["origin"] for line in lines if '"real"' in line]
    assert origins == [{"data": "moved", "sha256": digest}]
    assert manifest["validation"]["blocks"]
    (here / "moved" / "manifest.json").write_text(json.dumps({**manifest, "seed": 77}))  # as if split in another way
    code, _, err = command("eval", "text", "run", "--nfe", 1, "--n", 2, "--judge", "none", "--data", "moved")
    assert (code, "warning: run was not trained on moved" in err) == (0, True)


def test_data_for_another_recipe_is_refused_in_one_line(command, here):
    assert data(command, "../a.txt")[0] == 0
    code, _, err = command("train", "lm1b", "--data", "set")
    assert code == 2
    assert err == (
        "dbtm: set has vocabulary 280 and length 16, but 'lm1b' is for 30522 and 128: prepare its data with "
        "`dbtm data lm1b`\n"
    )
    code, _, err = command("train", "text", "--set", "task.data=set")
    assert code == 2
    assert "set has vocabulary 280 and length 16, but task.vocab=8192" in err
