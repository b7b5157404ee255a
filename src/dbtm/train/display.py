"""What a run shows: lines that stay, and how far it is: on a terminal live at the bottom, elsewhere as plain lines."""

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TextIO

from dbtm.core.terminal import visible

GLANCE = 0.5  # seconds between looks at the loss for the live line
QUIET = 30.0  # seconds without a line, where lines are plain
BAR = 30  # characters at most
DAY, HOUR, MINUTE = 86_400, 3_600, 60


def compact(value: float) -> str:
    return f"{value:.3g}" if value == 0 or abs(value) < 1000 else f"{value:.0f}"


def clock(seconds: float) -> str:
    """1:02:03 or 2:03, days in words."""
    if seconds >= 2 * DAY:
        return duration(seconds)
    minutes, s = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{s:02d}" if hours else f"{minutes}:{s:02d}"


def duration(seconds: float) -> str:
    """7 days, 26 hours, 3 minutes, 40 seconds."""
    for unit, name, least in ((DAY, "day", 2 * DAY), (HOUR, "hour", 2 * HOUR), (MINUTE, "minute", 2 * MINUTE)):
        if seconds >= least:
            return f"{seconds / unit:,.0f} {name}s"
    return f"{seconds:,.0f} seconds"


@dataclass(frozen=True)
class Status:
    """How far a run is."""

    step: int
    steps: int | None
    """None: a run by the clock that does not know its length yet."""
    loss: float | None = None
    speed: float | None = None
    """Steps per second, without the first, which compiles."""

    @property
    def left(self) -> float | None:
        """Seconds."""
        if self.speed is None or self.steps is None or not self.speed:
            return None
        return (self.steps - self.step) / self.speed

    def words(self) -> list[str]:
        total = "?" if self.steps is None else f"{self.steps}"
        speed = [] if self.speed is None else [f"{compact(self.speed)} step/s"]
        eta = [] if self.left is None else [f"ETA {clock(self.left)}"]
        loss = [] if self.loss is None else [f"loss {compact(self.loss)}"]
        return [f"step {self.step}/{total}", *loss, *speed, *eta]


def bar_line(status: Status, width: int, waited: float = 0.0) -> str:
    """The live line: words first, a bar in what is left of the width. Words are never cut: they wrap."""
    words = status.words()
    if status.loss is None:
        words.append(f"first step, {clock(waited)}")
    text = "  ".join(words)
    room = min(BAR, width - len(text) - 3)
    if status.steps is None or room < 8:
        return text
    done = round(room * status.step / max(status.steps, 1))
    return f"{text}  {'━' * done}{'─' * (room - done)}"


class Plain:
    """Lines, for logs and pipes. A run outlives its terminal: what cannot be shown any more is in the file."""

    def __init__(self, stream: TextIO):
        self.stream = stream
        self.last = 0.0

    def line(self, text: str) -> None:
        with suppress(OSError, RuntimeError, ValueError):  # gone, in use by what a signal has interrupted, or closed
            self.stream.write(visible(text) + "\n")
            self.stream.flush()
        self.last = time.monotonic()

    def wants_a_look(self) -> bool:
        """Whether a glance at the loss would be shown now."""
        return time.monotonic() - self.last >= QUIET

    def status(self, status: Status, full: str = "") -> None:
        """How far it is; `full` has all terms, where there was a report."""
        self.line(full or "  ".join(status.words()))

    def close(self) -> None:
        pass


class Live(Plain):
    """A line at the bottom of a terminal that is redrawn four times per second; others scroll above it."""

    def __init__(self, stream: TextIO, steps: int | None, first_step: int):
        super().__init__(stream)
        from rich.console import Console
        from rich.live import Live as Display

        self.now = Status(first_step, steps)
        self.started = time.monotonic()
        self.console = Console(file=stream, highlight=False, markup=False)
        self.display = Display(
            console=self.console,
            get_renderable=self._render,
            refresh_per_second=4,
            redirect_stdout=False,
            vertical_overflow="visible",
        )
        self.display.start()

    def _render(self) -> Any:
        from rich.text import Text

        return Text(bar_line(self.now, self.console.width, time.monotonic() - self.started), no_wrap=False)

    def line(self, text: str) -> None:
        with suppress(OSError, RuntimeError, ValueError):
            self.console.print(visible(text), soft_wrap=True)

    def wants_a_look(self) -> bool:
        return time.monotonic() - self.last >= GLANCE

    def status(self, status: Status, full: str = "") -> None:
        self.now, self.last = status, time.monotonic()

    def close(self) -> None:
        with suppress(OSError, RuntimeError, ValueError):
            self.display.stop()


def display(stream: TextIO, steps: int | None, first_step: int) -> Plain:
    """The display that suits a stream."""
    try:
        terminal = stream.isatty()
    except ValueError:  # closed
        terminal = False
    return Live(stream, steps, first_step) if terminal else Plain(stream)
