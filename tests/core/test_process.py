"""Whether another process exists."""

import os
import subprocess
import sys
import time

import pytest

from dbtm.core import process


def test_the_living_and_the_dead():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert process.alive(child.pid)
    assert process.alive(os.getpid())
    child.communicate(b"\n")
    assert not process.alive(child.pid)
    assert not process.alive(10**30)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="read from /proc")
def test_when_a_process_started():
    before = time.time()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert process.started(child.pid) == pytest.approx(before, abs=2)
    child.communicate(b"\n")
    assert process.started(child.pid) is None


def test_numbers_are_unique_among_the_same_processes():
    code = "from dbtm.core import process; print(process.numbering())"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == process.numbering()
