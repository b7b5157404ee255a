"""Damaged inputs for every reader, always the same ones (`make fuzz MINUTES=10` for new ones)."""

import os
import random
import time
import warnings
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="processes are forked")

from dbtm.core.errors import UsageError
from tests.fuzz import corpus, harness, of_commands
from tests.fuzz.forked import Ended
from tests.fuzz.targets import TARGETS, warm_up

INPUTS, LINES = 60, 4  # per reader; per command
LENIENT = ("metrics",)  # lines that a kill cut off are passed over, and so is all that is damaged
READERS = [name for name in TARGETS if not name.startswith("dbtm ")]
COMMANDS = [name for name in TARGETS if name.startswith("dbtm ")]


@pytest.fixture(scope="module", autouse=True)
def warm(few_samples_measured):
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads do not survive a fork
    warm_up()


@pytest.mark.parametrize("name", READERS)
def test_damaged_inputs_are_refused_in_a_line(name, tmp_path):
    report = harness.run(TARGETS[name], range(INPUTS), tmp_path)
    assert not report.failures, "\n".join(map(str, report.failures))
    assert report.counts.total() == INPUTS
    assert report.counts["accepted"] > 0, "what is right, or damaged where nobody looks, is accepted"
    assert report.counts["refused"] > 0 or name in LENIENT


@pytest.mark.parametrize("name", COMMANDS)
def test_wild_words_are_refused_in_a_line(name, tmp_path):
    report = harness.run(TARGETS[name], range(LINES), tmp_path)
    assert not report.failures, "\n".join(map(str, report.failures))
    assert report.counts.total() == LINES


@pytest.mark.parametrize(
    "words",
    [
        *(
            f"sample @{name} --n 2 --trace --json a.json --html a.html"
            for name in ("markov", "ar", "mdlm", "text", "gsm")
        ),
        f"solve {corpus.SMALL} --checkpoint @sudoku --json",
        "train own --data @tokens.npy --vocab 5 --length 6 --max-seconds .3 --set train.device=cpu",
        "eval sudoku --checkpoint @sudoku --clues 8 --n 2 --nfe 1,2 --json a.json",
        "eval text @text --judge @tiny.gguf --data @set --n 2 --nfe 1 --save-samples a.jsonl",
        "eval nll @mdlm --n 2",
        "eval gsm8k @gsm --n 2 --nfe 1 --workers 1",
        "eval gsm8k --oracle @problems.jsonl --workers 1",
        "sweep text @text --data @set --judge @tiny.gguf --n 2 --nfe 1 --kappa .5 --temperature 0",
        "sweep frontier @sweep --json a.json",
        "data sudoku --out a.csv --clues 8 --box 2 --n 3",
        "data text --tokenizer @tokenizer.json --length 8 --out a @plain.txt --workers 1",
        "data gsm8k @problems.jsonl --out a --vocab 400 --renumber 1",
        "recipes markov",
        "theory list",
        "doctor",
    ],
)
def test_words_that_are_right_are_obeyed(words, tmp_path):
    """The fuzzer's files are right, so that its commands get as far as the work."""
    ended = of_commands.run_words(words.split(), tmp_path)
    assert ended.code in (0, 1 if words.startswith("solve") else 0), ended.errors
    name = next(name for name in of_commands.COMMANDS if words.startswith(name))
    assert of_commands.fault(name, ended) is None


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        (Ended(1, "", "Traceback (most recent call last):\nValueError: x\n", 0, 0), "exit code 1"),
        (Ended(-11, "", "", 0, 0), "exit code -11"),
        (Ended(2, "", "", 0, 0), "0 lines"),
        (Ended(2, "", "dbtm: a\ndbtm: b\n", 0, 0), "2 lines"),
        (Ended(0, "", "dbtm: a\n", 0, 0), "1 lines"),
        (Ended(2, "", "dbtm: \x1b[2J\n", 0, 0), "not printable"),
        (Ended(0, "a\x1b]0;x\x07\n", "", 0, 0), "not printable"),
        (Ended(0, "", "x.py:1: UserWarning: odd\n", 0, 0), "more than a line"),
        (Ended(2, "", "dbtm: " + "x" * 3000, 0, 0), "a line of"),
    ],
)
def test_every_fault_of_a_command_is_seen(ended, words):
    assert words in of_commands.fault("sample", ended)
    assert of_commands.fault("sample", Ended(2, "", "dbtm: no\n", 0, 0)) is None


@pytest.mark.parametrize("name", [*TARGETS])
def test_a_seed_names_an_input(name):
    one, other = (TARGETS[name].make(random.Random("the same")) for _ in range(2))
    assert one == other


# -- the harness can fail ----------------------------------------------------------------------------------------------


def _panic():
    raise type("PanicException", (BaseException,), {})("index out of bounds")


def _no_words():
    raise UsageError("")


def _sleep():
    time.sleep(30)


def _memory():
    return bytearray(600 << 20)


def _chatter():
    os.write(2, b"thread panicked")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda: 1 / 0, "ZeroDivisionError"),
        (_panic, "PanicException"),
        (_no_words, "not one printable line"),
        (_sleep, "more than"),
        (_memory, "MiB of memory"),
        (_chatter, "wrote to the standard error"),
        (lambda: warnings.warn("odd", stacklevel=1), "warned"),
        (lambda: os._exit(7), "the process ended"),
        (os.abort, "the process ended"),
    ],
)
def test_every_kind_of_failure_is_found_and_named(fault, words, tmp_path, monkeypatch):
    if fault is _sleep:
        monkeypatch.setattr(harness, "SECONDS", 0.3)

    def read(folder: Path) -> None:
        if (folder / "a").read_bytes() == b"2":
            fault()

    def make(draw: random.Random) -> harness.Files:
        return {"a": b"2" if draw.random() < 0.3 else b"1"}

    report = harness.run(harness.Target("t", make, read), range(12), tmp_path)
    wrong = [seed for seed in range(12) if random.Random(f"t {seed}").random() < 0.3]
    assert [failure.seed for failure in report.failures] == wrong
    assert all(words in failure.what for failure in report.failures), report.failures
    assert all((failure.saved / "a").read_bytes() == b"2" for failure in report.failures)
    assert report.counts["accepted"] == 12 - len(wrong)


def test_what_is_right_is_accepted():
    for name, files in (
        ("text_set", corpus.text_set()),
        ("problem_set", corpus.problem_set()),
        ("checkpoint", corpus.toy_run()),
        ("text_checkpoint", corpus.text_run()),
        ("resume", corpus.toy_run()),
        ("packed_checkpoint", corpus.packed_run()),
        ("sweep", corpus.sweep()),
        ("samples", {"samples.jsonl": corpus.samples()}),
        ("gguf", {"a.gguf": corpus.gguf()}),
        ("puzzle_file", {"a.csv": corpus.puzzles()}),
        ("problems", {"a.jsonl": corpus.problems()}),
        ("tokenizer", {"tokenizer.json": corpus.tokenizer()}),
    ):
        report = harness.run(harness.Target(name, lambda _, files=files: files, TARGETS[name].read), range(1))
        assert report.counts["accepted"] == 1, (name, report.failures)
