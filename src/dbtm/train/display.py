"""The output of a run: permanent lines and its progress, live at the bottom of a terminal, plain lines elsewhere."""

import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TextIO

from dbtm.core.terminal import visible

GLANCE = 0.5  # seconds between reads of the loss for the live line
QUIET = 30.0  # most seconds between plain lines
PATIENCE = 2.0  # seconds of work other than steps after which a plain line names it
BAR = 30  # characters at most
WIDTH = 80  # columns of evaluation lines
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
    """7 days, 26 hours, 3 minutes, 40 seconds, 1.5 seconds, 1 second."""
    for unit, name, least in ((DAY, "day", 2 * DAY), (HOUR, "hour", 2 * HOUR), (MINUTE, "minute", 2 * MINUTE)):
        if seconds >= least:
            return f"{seconds / unit:,.0f} {name}s"
    text = f"{seconds:.0f}" if seconds >= 9.5 else f"{seconds:.2g}"
    return f"{text} second{'s' * (text != '1')}"


@dataclass(frozen=True)
class Status:
    """The progress of a run."""

    step: int
    steps: int | None
    """None: a run with a time limit whose length is not yet known."""
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


def bar_line(status: Status, width: int, waited: float = 0.0, work: str = "") -> str:
    """The live line: words, then a bar in the remaining width. Words are never truncated, but wrapped. `work` names
    work other than steps, for the last `waited` seconds.
    """
    words = status.words()
    if work:
        words = [words[0], f"{work}, {clock(waited)}"]
    elif status.loss is None:
        words.append(f"first step, {clock(waited)}")
    text = "  ".join(words)
    room = min(BAR, width - len(text) - 3)
    if status.steps is None or room < 8:
        return text
    done = round(room * status.step / max(status.steps, 1))
    return f"{text}  {'━' * done}{'─' * (room - done)}"


# -- evaluations -------------------------------------------------------------------------------------------------------

_AT = re.compile(r"(?P<name>.+?)_(?P<at>\d+|all|data)(?P<set>_clues\d+)?")


def evaluation_lines(step: int, values: Mapping[str, float]) -> list[str]:
    """An evaluation in 80 columns: one line per metric, with values by number of network evaluations, the data's last.

    Names end in the number (`entropy_4`), in `data`, or in `all` for a method that chooses the number itself.
    """
    alone: list[str] = []
    rows: dict[str, list[str]] = {}
    for name, value in values.items():
        found = _AT.fullmatch(name)
        if found is None:
            alone.append(f"{_words(name)} {value:.4f}")
            continue
        at = {"data": "data ", "all": ""}.get(found["at"], f"{found['at']} NFE ")
        rows.setdefault(_words(found["name"] + (found["set"] or "")), []).append(f"{at}{value:.4f}")
    lines = _wrapped(f"step {step}", alone, 2)
    room = max(map(len, rows), default=0)
    for name, row in rows.items():
        lines += _wrapped(f"  {name:<{room}}", sorted(row, key=lambda cell: cell.startswith("data")), room + 2)
    return lines


def _words(name: str) -> str:
    return name.replace("_", " ").replace(" clues", ", clues ")


def _wrapped(first: str, cells: list[str], indent: int) -> list[str]:
    """Cells after a first word, in lines of at most 80 characters, the later ones indented."""
    lines = [first]
    for number, cell in enumerate(cells):
        if number and len(lines[-1]) + 2 + len(cell) > WIDTH:
            lines.append(" " * indent)
        lines[-1] += f"  {cell}"
    return lines


# -- output streams ----------------------------------------------------------------------------------------------------


class Plain:
    """Lines, for logs and pipes. A run outlives its terminal: failed output is ignored, as the file has the metrics."""

    def __init__(self, stream: TextIO):
        self.stream = stream
        self.last = 0.0

    def line(self, text: str) -> None:
        with suppress(OSError, RuntimeError, ValueError):  # gone, in use by interrupted code, or closed
            self.stream.write(visible(text) + "\n")
            self.stream.flush()
        self.last = time.monotonic()

    def wants_a_look(self) -> bool:
        """Whether the loss would be shown now."""
        return time.monotonic() - self.last >= QUIET

    def status(self, status: Status, full: str = "") -> None:
        """Show the progress; `full` has all terms, after a report."""
        self.line(full or "  ".join(status.words()))

    @contextmanager
    def busy(self, work: str) -> Iterator[None]:
        """A context for work other than steps: prints a line if it takes a while."""
        timer = threading.Timer(PATIENCE, self.line, (work,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def close(self) -> None:
        pass


class Live(Plain):
    """A line at the bottom of a terminal, redrawn four times per second; other lines scroll above it."""

    def __init__(self, stream: TextIO, steps: int | None, first_step: int):
        super().__init__(stream)
        from rich.console import Console
        from rich.live import Live as Display

        self.now = Status(first_step, steps)
        self.started, self.work = time.monotonic(), ""
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

        waited = time.monotonic() - self.started
        return Text(bar_line(self.now, self.console.width, waited, self.work), no_wrap=False)

    def line(self, text: str) -> None:
        with suppress(OSError, RuntimeError, ValueError):
            self.console.print(visible(text), soft_wrap=True)

    def wants_a_look(self) -> bool:
        return time.monotonic() - self.last >= GLANCE

    def status(self, status: Status, full: str = "") -> None:
        self.now, self.last = status, time.monotonic()

    @contextmanager
    def busy(self, work: str) -> Iterator[None]:
        self.started, self.work = time.monotonic(), work
        try:
            yield
        finally:
            self.work = ""

    def close(self) -> None:
        with suppress(OSError, RuntimeError, ValueError):
            self.display.stop()


def display(stream: TextIO, steps: int | None, first_step: int) -> Plain:
    """The display for a stream."""
    return Live(stream, steps, first_step) if _terminal(stream) else Plain(stream)


@contextmanager
def shown(work: str, stream: TextIO | None = None) -> Iterator[None]:
    """A context for work without steps: names it at the bottom of a terminal, elsewhere only if it takes a while."""
    stream = stream or sys.stderr
    if _terminal(stream):
        from rich.console import Console

        with Console(file=stream, highlight=False).status(work):
            yield
    else:
        with Plain(stream).busy(work):
            yield


def _terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False
