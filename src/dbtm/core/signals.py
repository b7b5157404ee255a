"""Signals that end a process: exit through every `finally`, or ask a loop to stop after its step."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def leave_on(*names: str) -> Iterator[None]:
    """A context in which SIGTERM and similar signals exit like an interrupt: through every `finally`.

    Signals that are already handled or ignored (nohup) are left alone, and so are all signals outside the main thread.
    """
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    taken = []
    try:
        for number in numbers:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _leave)
                taken.append(number)
    except ValueError:  # not the main thread
        pass
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _leave(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # a second signal must not interrupt the clean-up
    sys.exit(128 + number)


class StopOnSignal:
    """SIGINT, SIGTERM and SIGHUP ask the loop to save and end, and `announce` is called immediately; a second signal
    ends the process at once. Ignored signals (SIGHUP under nohup) stay ignored.
    """

    def __init__(self, announce: Callable[[str], None] | None = None):
        self.signal, self.announce = "", announce
        self.old: dict[int, Any] = {}

    def __enter__(self):
        for number in (getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)):
            if signal.getsignal(number) is signal.SIG_IGN:
                continue
            try:
                self.old[number] = signal.signal(number, self._handle)
            except ValueError:  # not the main thread: leave signals alone
                break
        return self

    def _handle(self, number, frame):
        if self.signal:
            raise KeyboardInterrupt
        self.signal = signal.Signals(number).name
        if self.announce is not None:
            self.announce(self.signal)

    def __exit__(self, *error):
        for number, handler in self.old.items():
            signal.signal(number, handler)
