"""Signals that end a process leave through every `finally`, and only where nobody else handles them."""

import signal
import sys

import pytest

from dbtm.core.signals import StopOnSignal, leave_on

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")


@pytest.fixture(autouse=True)
def _restored():
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_signal_leaves_and_is_handed_back():
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    cleaned = []

    def work() -> None:
        with leave_on("SIGHUP", "SIGNOTHING"):
            try:
                signal.raise_signal(signal.SIGHUP)
            finally:
                signal.raise_signal(signal.SIGHUP)  # a second one does not disturb
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
