"""Honest programs get their value, for all supported features of Python; and the guarantees of the runner."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dbtm.core.errors import UsageError
from dbtm.sandbox import Limits, Outcome, Sandbox, runner
from dbtm.sandbox.outcome import read_report
from dbtm.sandbox.pipes import Reader
from tests.processes import PATIENCE, wait_until

HONEST = {
    "def simple_math_problem():\n    return 48 / 2": 24.0,
    "def simple_math_problem():\n    return 2 ** 100": 2**100,
    "def solution():\n    return -7 // 2": -4,
    "import math\ndef f():\n    return math.ceil(2.1) + math.floor(math.pi)": 6,
    "from math import sqrt as root\ndef f():\n    return root(16)": 4.0,
    "def f():\n    return math.comb(5, 2)": 10,  # math is there without an import, as programs of TinyGSM expect
    "def f():\n    import itertools\n    return len(list(itertools.permutations(range(4))))": 24,
    "def f() -> List[int]:\n    x: Optional[int] = 3\n    return x": 3,  # annotations are not looked at
    "def f():\n    'T'\n    t = 0\n    for i in range(10):\n        if i % 2:\n            continue\n        t += i"
    "\n    return t": 20,
    "def f():\n    prices = {'a': 2, 'b': 3}\n    return sum(v for k, v in prices.items() if k in {'a', 'b'})": 5,
    "def f():\n    a, *rest = sorted([3, 1, 2], key=lambda x: -x)\n    return a * 10 + len(rest)": 32,
    "def f():\n    try:\n        return 1 / 0\n    except ZeroDivisionError:\n        return max(1, min(5, 9))": 5,
    "def g(x, y=2):\n    return x * y\ndef simple_math_problem():\n    return g(4)\ndef h():\n    return 0": 8,
    "def f():\n    return 1\ndef g():\n    return 2\ndef f():\n    return 3": 3,  # the last definition counts
    "def f():\n    return 4\nhalf = lambda x: x / 2": 4,
    "def f():\n    return 2 ** 1023": 2**1023,  # fits a double
    "def f():\n    input = 3\n    return round(abs(-input * 1.25), 2)": 3.75,
    "def f():\n    n = 0\n    while n < 5:\n        n += 1\n    n = n if n else 9\n    return int(f'{n}{n:>02}')": 505,
    "def f():\n    cachaça = 5\n    return cachaça": 5,
    "def f():\n    return '$1,234.50'": "$1,234.50",
    "from math import floor as input\ndef f():\n    return input(2.5)": 2,
    "import math as open\ndef f():\n    return open.floor(2.5)": 2,
    "def f():\n    try:\n        return 1 / 0\n    except Exception as vars:\n        return len(str(vars))": 16,
    "# coding: latin-1\ndef f():\n    return len('é')": 1,  # a program is text, not bytes
    "\ufeffdef f():\n    return 7": 7,
    "x = 3\ndef f():\n    global x\n    x += 1\n    return x\nif __name__ == '__main__':\n    print(f())": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=2) as sandbox:
        yield sandbox


@pytest.fixture
def slept(monkeypatch):
    """Records pauses instead of sleeping."""
    found: list[float] = []
    monkeypatch.setattr(runner, "time", SimpleNamespace(sleep=found.append, monotonic=time.monotonic))
    return found


def test_honest_programs_have_their_value(sandbox):
    found = list(sandbox.map(HONEST))
    assert [(outcome.kind, outcome.value) for outcome in found] == [("value", value) for value in HONEST.values()]
    assert [type(outcome.value) for outcome in found] == [type(value) for value in HONEST.values()]
    assert found[-1].output == "4\n"


def test_warnings_are_not_output(sandbox):
    outcome = sandbox.run("def f():\n    print('said')\n    return 1 if 2 is 2 else '\\d'")
    assert (outcome.value, outcome.output) == (1, "said\n")


def test_what_was_printed_before_a_time_out_is_known(sandbox):
    outcome = sandbox.run("def f():\n    print('so far')\n    while True:\n        pass")
    assert (outcome.kind, outcome.output) == ("timeout", "so far\n")


def test_outcomes_come_in_order(sandbox):
    slow = "def f():\n    return sum(range(10 ** 6)) * 0 + {}"
    programs = [(slow if i % 3 == 0 else "def f():\n    return {}").format(i) for i in range(20)]
    assert [outcome.value for outcome in sandbox.map(programs)] == list(range(20))


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("def f():\n    return 1 / 0", "ZeroDivisionError: division by zero"),
        ("def f(:", "SyntaxError"),
        ("import os", "line 1: import os"),
        ("def f():\n    return\n\n", "returned NoneType"),
        ("def f():\n    x = 1\n    return open('x')", "the built-in open"),
        ("def f():\n    return x.__" + "é" * 3000, "line 2: the name __ééé"),
        ("def f():\n    return '18' * 150", "returned a text of 300 characters"),
        ("def f():\n    return 2 ** 1024 - 1", "an integer too large"),
    ],
)
def test_the_detail_says_why(sandbox, program, words):
    assert words in sandbox.run(program).detail


def test_limits_are_those_that_are_asked_for():
    grow = "def f():\n    return len([0] * (10 * 1024 * 1024))"  # 80 MiB
    talk = "def f():\n    print('x' * 2000)\n    return 1"
    with Sandbox(workers=1) as generous:
        assert generous.run(grow).value == 10 * 1024 * 1024
        assert generous.run(talk).value == 1
    with Sandbox(Limits(memory_bytes=64 << 20, output_bytes=1000, program_bytes=80), workers=1) as strict:
        assert strict.run(grow).kind == "memory"
        assert strict.run(talk).kind == "output"
        assert strict.run(talk + " " * 80).kind == "parse"


@pytest.mark.skipif(sys.platform != "linux", reason="confinement by Linux")
def test_linux_confines_programs(sandbox):
    assert any(means.startswith("limits (cpu, as, fsize, nproc, nofile") for means in sandbox.means)
    assert "seccomp" in sandbox.means
    assert "no capabilities" in sandbox.means
    assert ("user nobody" in sandbox.means) == (os.geteuid() == 0)


def test_the_working_folder_is_empty_and_goes_away(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Sandbox(workers=1):
        (folder,) = tmp_path.iterdir()
        assert not list(folder.iterdir())
        assert folder.stat().st_mode & 0o222 == 0
    assert not list(tmp_path.iterdir())


def test_an_interpreter_that_does_not_start_is_named(monkeypatch, tmp_path, slept):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(Sandbox, "start", "raise RuntimeError('no luck today')")
    with pytest.raises(UsageError, match="no luck today"), Sandbox(workers=1):
        pass
    assert not list(tmp_path.iterdir())


def test_a_process_that_fails_to_start_is_started_again(sandbox, monkeypatch, slept):
    """An interpreter that does not start is not the program's failure: it is retried a little later."""
    spawn, calls = Sandbox._spawn, []

    def unlucky(self):
        calls.append(1)
        if len(calls) < 3:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return spawn(self)

    monkeypatch.setattr(Sandbox, "_spawn", unlucky)
    assert sandbox.run("def f():\n    return 18").value == 18
    first, *pauses = slept
    assert first == 0 < pauses[0] < pauses[1]
    assert len(pauses) == 2


def no_process(self):
    raise OSError(12, "Cannot allocate memory")


def no_thread(self):
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    ("owner", "name", "fails", "words"),
    [
        (Sandbox, "_spawn", no_process, "Cannot allocate memory"),
        (Reader, "start", no_thread, "can't start new thread"),
    ],
)
def test_a_program_that_was_not_run_has_no_outcome(sandbox, monkeypatch, slept, owner, name, fails, words):
    monkeypatch.setattr(owner, name, fails)
    with pytest.raises(UsageError, match=f"cannot be run here: the interpreter does not start: {words}"):
        sandbox.run("def f():\n    return 18")
    assert sum(slept) > 1, "pauses between retries"
    assert not sandbox._live


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux has cores per process")
def test_as_many_workers_as_cores_of_this_process(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3})
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert Sandbox().workers == 1
    assert Sandbox(workers=5).workers == 5


def test_missing_means_are_warned_of_once(capsys, monkeypatch):
    monkeypatch.setattr(Sandbox, "missing", ["a rare means"])
    for _ in range(2):
        Sandbox().warn()
    assert capsys.readouterr().err == "warning: the sandbox lacks a rare means on this machine (see dbtm doctor)\n"
    monkeypatch.setattr(Sandbox, "missing", [])
    Sandbox().warn()
    assert capsys.readouterr() == ("", "")


RUNNER = (
    "from dbtm.sandbox import Limits, Sandbox\n"
    "with Sandbox(Limits(cpu_seconds=60), workers=1) as sandbox:\n"
    "    print('ready', flush=True)\n"
    "    sandbox.run('def f():\\n    while True:\\n        pass')\n"
)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the death signal")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_programs_die_with_the_runner(tmp_path, number):
    """A killed run leaves no program behind; a terminated one also leaves no folder."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    runner = subprocess.Popen([sys.executable, "-c", RUNNER], stdout=subprocess.PIPE, env=environment)
    assert runner.stdout is not None
    assert runner.stdout.readline() == b"ready\n"
    children = wait_until(lambda: _children(runner.pid))
    assert children
    runner.send_signal(number)
    assert runner.wait(PATIENCE) == (-number if number == signal.SIGKILL else 128 + number)
    runner.stdout.close()
    assert wait_until(lambda: not any(_running(pid) for pid in children))
    assert len(list(tmp_path.iterdir())) == (number == signal.SIGKILL)


def _children(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def _running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("kind", "text", "outcome"),
    [
        ("int", "-12", Outcome("value", -12)),
        ("float", "1.5e-07", Outcome("value", 1.5e-07)),
        ("float", "24.0", Outcome("value", 24.0)),
        ("str", "__import__('os')", Outcome("value", "__import__('os')")),
        ("timeout", "x", Outcome("timeout", detail="x")),
        ("int", "1_000", Outcome("crash", detail="the report cannot be read")),
        ("int", "١٢", Outcome("crash", detail="the report cannot be read")),
        ("int", "9" * 500, Outcome("crash", detail="the report cannot be read")),
        ("float", "nan", Outcome("crash", detail="the report cannot be read")),
        ("float", "inf", Outcome("crash", detail="the report cannot be read")),
        ("correct", "18", Outcome("crash", detail="the report cannot be read")),
        ("value", "18", Outcome("crash", detail="the report cannot be read")),
    ],
)
def test_reports_are_read_by_their_digits(kind, text, outcome):
    assert read_report(kind, text, "") == outcome
