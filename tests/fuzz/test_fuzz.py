"""A few hundred damaged inputs for every reader, always the same ones (`make fuzz MINUTES=10` for new ones)."""

import os
import random
import time
import warnings
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="processes are forked")

from dbtm.core.errors import UsageError
from tests.fuzz import corpus, harness
from tests.fuzz.targets import TARGETS, warm_up

INPUTS = 150


@pytest.fixture(scope="module", autouse=True)
def warm():
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads do not survive a fork
    warm_up()


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_are_refused_in_a_line(name, tmp_path):
    report = harness.run(TARGETS[name], range(INPUTS), tmp_path)
    assert not report.failures, "\n".join(map(str, report.failures))
    assert report.counts.total() == INPUTS
    assert report.counts["accepted"] > 0, "what is right, or damaged where nobody looks, is accepted"
    assert report.counts["refused"] > 0


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
        ("sweep", corpus.sweep()),
        ("samples", {"samples.jsonl": corpus.samples()}),
        ("gguf", {"a.gguf": corpus.gguf()}),
        ("puzzle_file", {"a.csv": corpus.puzzles()}),
        ("problems", {"a.jsonl": corpus.problems()}),
        ("tokenizer", {"tokenizer.json": corpus.tokenizer()}),
    ):
        report = harness.run(harness.Target(name, lambda _, files=files: files, TARGETS[name].read), range(1))
        assert report.counts["accepted"] == 1, (name, report.failures)
