"""Every command with wild words (`words`), in processes of their own: it must do its work or refuse it in one line."""

import io
import json
import os
import re
import tempfile
from contextlib import chdir, redirect_stdout
from functools import cache, partial
from pathlib import Path
from typing import Any

from dbtm.core.errors import UsageError
from tests.fuzz import corpus
from tests.fuzz.forked import Ended, limit_processor, start
from tests.fuzz.harness import LONGEST, MEMORY, Files, Target, Used
from tests.fuzz.mutate import Draw
from tests.fuzz.registry import TARGETS
from tests.fuzz.shelf import shelf
from tests.fuzz.words import commands, line

PROCESSOR = 5  # seconds
PATIENCE = 60.0  # by the clock: the machine may be busy
ONE = {"solve", "demo", "train"}  # exit code 1: a wrong answer, a diverged run


def run_words(words: list[str], folder: Path) -> Ended:
    """`dbtm WORDS` in a folder, in a process of its own."""
    there = [re.sub(r"(?:^|(?<==))@", f"{shelf()}/", word) for word in words]

    def set_up() -> None:
        os.chdir(folder)
        os.environ |= {
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_OFFLINE": "1",
            "HF_HOME": str(folder / "hub"),
            "COLUMNS": "100",
        }
        limit_processor(PROCESSOR)

    return start([word.replace("\0", "") for word in there], set_up).wait(PATIENCE)


def fault(name: str, ended: Ended) -> str | None:
    """What a user would complain about, if anything."""
    lines = ended.errors.split("\n")
    own = [text for text in lines if text.startswith("dbtm: ")]
    if ended.code not in ((0, 1, 2) if name in ONE else (0, 2)):
        return f"exit code {ended.code}: {ended.errors[-300:]!r}"
    if "Traceback" in ended.errors or "Warning:" in ended.errors:
        return f"more than a line: {ended.errors[-300:]!r}"
    if (ended.code == 2) != (len(own) == 1) and not (ended.code == 1 and len(own) <= 1):
        return f"{len(own)} lines of its own with exit code {ended.code}: {ended.errors[-300:]!r}"
    for text in (*lines, *ended.output.split("\n")):
        if not text.replace("\t", "").isprintable():
            return f"not printable: {text[:300]!r}"
    if own and len(own[0]) > LONGEST:
        return f"a line of {len(own[0])} characters"
    return None


def run_command(name: str, folder: Path) -> Used:
    words = json.loads((folder / "words.json").read_text())
    ended = run_words(words, folder)
    used = Used(ended.seconds, max(0, ended.bytes - idle()))
    if found := fault(name, ended):
        raise AssertionError(found)
    if left := [path.name for path in folder.rglob(".*") if path.name not in (".lock", ".locks")]:
        raise AssertionError(f"left behind: {left}")
    if used.bytes > MEMORY:
        raise AssertionError(f"{used.bytes >> 20} MiB of memory")
    if ended.code == 2:
        raise UsageError(ended.errors.strip().split("\n")[-1])
    return used


@cache
def idle() -> int:
    """The memory of a forked process that does nothing."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    return os.wait4(child, 0)[2].ru_maxrss << 10


def _make(name: str, command: Any, draw: Draw) -> Files:
    return {"words.json": json.dumps(line(name, command, draw)).encode()}


COMMANDS = dict(commands())
for _name, _command in COMMANDS.items():
    TARGETS[f"dbtm {_name}"] = Target(
        f"dbtm {_name}", partial(_make, _name, _command), partial(run_command, _name), PATIENCE
    )


def warm_up() -> None:
    """Import, in this process, what the commands import: forked ones find it there."""
    from dbtm.cli import app

    where = shelf()
    with tempfile.TemporaryDirectory() as name, corpus.silence(), redirect_stdout(io.StringIO()), chdir(name):
        for words in (
            ["sample", str(where / "text"), "--n", "1", "--html", "a.html", "--json", "a.json"],
            ["sample", str(where / "gsm"), "--n", "1"],
            ["eval", "sudoku", "--checkpoint", str(where / "sudoku"), "--clues", "8", "--n", "1", "--nfe", "1"],
            ["eval", "text", str(where / "text"), "--judge", str(where / "tiny.gguf"), "--n", "1", "--no-references"],
            ["eval", "nll", str(where / "ar"), "--n", "1"],
            [
                "data",
                "text",
                "--tokenizer",
                "train:300",
                "--length",
                "4",
                "--out",
                "a",
                str(where / "plain.txt"),
                "--workers",
                "1",
            ],
            ["sweep", "frontier", str(where / "sweep")],
            ["plot", str(where / "markov")],
            ["referee", "markov", "--out", str(where / "referee"), "--report-only"],
            ["recipes", "markov"],
            ["theory", "list"],
            ["doctor"],
        ):
            app(words, standalone_mode=False)
