"""Hostile programs: each is contained, leaves nothing behind, and does not stop the run."""

import os
import sys
import time
from pathlib import Path

import pytest

from dbtm.sandbox import Limits, Sandbox
from tests.sandbox.hostile import HOGS, PROGRAMS

HARMLESS = "def simple_math_problem():\n    return 18"


def processes() -> list[str]:
    """Command lines of this process's interpreters that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if "child.main" in text and _parent(path.parent) == os.getpid():
            found.append(text)
    return found


def _parent(folder: Path) -> int:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """All programs in one run, each followed by a harmless one; and anything the run left behind."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(home))
        patch.chdir(home)
        before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
        programs = [text for program, _ in PROGRAMS.values() for text in (program, HARMLESS)]
        patient = Limits(cpu_seconds=10, wall_seconds=20)
        start = time.monotonic()
        with Sandbox(Limits(wall_seconds=20), workers=2) as sandbox:
            found = list(sandbox.map(programs))
        with Sandbox(patient, workers=2) as sandbox:
            for name, outcome in zip(HOGS, sandbox.map(PROGRAMS[name][0] for name in HOGS), strict=True):
                found[2 * list(PROGRAMS).index(name)] = outcome
        seconds = time.monotonic() - start
        after = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    assert seconds < 300, "every program is ended by its limits"
    return dict(zip(PROGRAMS, found[::2], strict=True)), found[1::2], list(home.iterdir()), after - before


def test_there_are_many():
    assert len(PROGRAMS) >= 40


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_is_contained(outcomes, name):
    outcome = outcomes[0][name]
    wanted = PROGRAMS[name][1]
    assert outcome.kind in ((wanted,) if isinstance(wanted, str) else wanted), outcome


def test_the_run_goes_on(outcomes):
    assert [outcome.value for outcome in outcomes[1]] == [18] * len(PROGRAMS)


def test_nothing_is_left_behind(outcomes):
    _, _, files, descriptors = outcomes
    assert files == []
    assert descriptors == 0
    assert not Path("/tmp/dbtm-was-here").exists()
    if sys.platform == "linux":
        assert processes() == []


def test_a_printed_verdict_is_output(outcomes):
    outcome = outcomes[0]["prints a verdict"]
    assert outcome.value == 1
    assert outcome.output == '{"verdict": "correct"}\ntoken int 3138\n'
    assert outcomes[0]["returns a verdict"].value == "correct"


def test_a_flood_is_cut_at_the_limit(outcomes):
    assert len(outcomes[0]["output flood"].output) == Limits().output_bytes
