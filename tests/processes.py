"""Child processes of the tests: which signals they start with, and how long the tests wait for them."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 120.0
"""Seconds until a test gives up on a process: far more than any needs on a machine at load 8, so never the point."""


@contextmanager
def default_signals_in_children() -> Iterator[None]:
    """Within, child processes start with the default actions of the signals that ask a process to end.

    nohup ignores SIGHUP, and a shell without job control ignores SIGINT and SIGQUIT in its background jobs. A child
    inherits an ignored or blocked signal; of a signal with a handler, exec restores the default action. So a handler
    that does nothing takes the place of "ignore": this process still outlives the signal, its children do not inherit
    that.
    """
    numbers = [getattr(signal, name) for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM") if hasattr(signal, name)]
    ignored = [number for number in numbers if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    masks = hasattr(signal, "pthread_sigmask")
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers) if masks else set()
    try:
        yield
    finally:
        if masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)


def wait_until(condition: Callable[[], T], seconds: float = PATIENCE) -> T:
    """The condition's first true answer, or its last one when the time is up."""
    deadline = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found
