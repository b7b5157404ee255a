"""Signals that end a process exit through every `finally`, unless they are already handled."""

import signal
import subprocess
import sys

import pytest

from dbtm.core.signals import StopOnSignal, leave_on
from tests.processes import default_signals_in_children

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")


@pytest.fixture(autouse=True)
def _default_hangup():
    """Every test starts with the default action, even if the shell ignores the signal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_signal_leaves_and_is_handed_back():
    cleaned = []

    def work() -> None:
        with leave_on("SIGHUP", "SIGNOTHING"):
            try:
                signal.raise_signal(signal.SIGHUP)
            finally:
                signal.raise_signal(signal.SIGHUP)  # a second one has no effect
                cleaned.append(True)

    with pytest.raises(SystemExit) as found:
        work()
    assert found.value.code == 128 + signal.SIGHUP
    assert cleaned
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
def test_what_others_handle_stays_theirs(handler):
    signal.signal(signal.SIGHUP, handler)
    with leave_on("SIGHUP"):
        assert signal.getsignal(signal.SIGHUP) == handler
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == handler


def test_a_closed_terminal_asks_a_loop_to_stop():
    with StopOnSignal() as stop:
        assert stop.signal == ""
        signal.raise_signal(signal.SIGHUP)
        assert stop.signal == "SIGHUP"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGHUP)


def test_under_nohup_it_does_not():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with StopOnSignal() as stop:
        signal.raise_signal(signal.SIGHUP)
    assert stop.signal == ""
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


CHILD = "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_DFL, signal.pthread_sigmask(0, ()))"


def test_children_of_a_test_start_with_the_default_signals():
    """In every test: an ignored or blocked SIGHUP affects only the test run itself, so that it survives."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        with default_signals_in_children():
            child = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
            signal.raise_signal(signal.SIGHUP)
        assert child.stdout == "True set()\n"
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.SIGHUP in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
