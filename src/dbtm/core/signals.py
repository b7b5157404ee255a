"""Signals that end a process: leave through every `finally`, or ask a loop to stop after its step."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def leave_on(*names: str) -> Iterator[None]:
    """Within, SIGTERM and the like leave as an interrupt does: through every `finally`.

    Signals that someone else handles or ignores (nohup) stay theirs, as do all of them outside the main thread.
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
    signal.signal(number, signal.SIG_IGN)  # a second one must not disturb the first one's cleaning up
    sys.exit(128 + number)


class StopOnSignal:
    """SIGINT, SIGTERM and SIGHUP ask the loop to save and end, which `announce` is told at once; a second one ends at
    once. What is ignored (SIGHUP under nohup) stays ignored.
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
            except ValueError:  # not the main thread: signals are someone else's business
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
