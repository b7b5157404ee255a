"""The metrics of a run: metrics.jsonl, callbacks if any, and the output for the user."""

import json
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self, TextIO

from dbtm.core.errors import UsageError
from dbtm.train.callbacks import Callback
from dbtm.train.display import Status, compact, display, duration, evaluation_lines
from dbtm.train.header import SLOW, announce
from dbtm.train.pace import OPEN

FAR = 2.0  # a run this many times as long as the header's bound gets a warning
SETTLED = 3  # steps after which the speed is known
GRACE = 1.0  # seconds after the time limit in which a step may end without a message


class Metrics:
    """Writes records, calls callbacks, and shows progress. A context manager, which closes all of them in any case."""

    def __init__(
        self,
        folder: Path,
        steps: int,
        first_step: int,
        callbacks: Sequence[Callback] = (),
        config: Mapping[str, Any] | None = None,
        smaller: str = "",
        header: Sequence[str] = (),
        stream: TextIO | None = None,
        least: float = 0.0,
    ):
        path = folder / "metrics.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _drop_after(path, first_step)
            self.file = open(path, "a", buffering=1)  # noqa: SIM115 - open as long as the run
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error
        self.steps, self.first_step, self.smaller, self.callbacks = steps, first_step, smaller, callbacks
        self.least = least if least > SLOW else 0.0  # seconds of the header's warning
        self.started = self.last_time = time.monotonic()
        self.last_step = first_step
        self.second: float | None = None  # time of the end of the first step
        self.warned = False
        self.timer: threading.Timer | None = None
        announce(header)
        for each in callbacks:
            each.start(config or {}, folder)
        self.display = display(stream or sys.stderr, self._known_steps, first_step)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.display.close()
        self.file.close()
        for each in self.callbacks:
            each.end()

    @property
    def _known_steps(self) -> int | None:
        return self.steps if self.steps < OPEN else None  # a run with a time limit learns its length later

    def _status(self, step: int, loss: float, now: float) -> Status:
        """Speed is the average of the run so far, without its first step, which also compiles."""
        if self.second is None:
            self.second = now
        taken = step - self.first_step - 1
        speed = taken / (now - self.second) if taken and now > self.second else None
        return Status(step, self._known_steps, loss, speed)

    def glance(self, step: int, terms: Mapping[str, Any]) -> None:
        """Called after every step: show the first loss at once, and progress from time to time. It records nothing, and
        reads the loss only when it shows it, since this waits for the GPU.
        """
        first = step == self.first_step + 1
        if first or self.display.wants_a_look():
            loss, now = float(terms["loss"]), time.monotonic()
            status = self._status(step, loss, now)
            self.display.status(status)
            self._warn_if_slow(status)

    def progress(self, step: int, terms: dict[str, float], **extra: float) -> None:
        """Record and show the losses, averaged since the last record, with speed and time left."""
        now = time.monotonic()
        speed = (step - self.last_step) / max(now - self.last_time, 1e-9)
        self.last_time, self.last_step = now, step
        self.record(step, terms | extra | {"steps_per_second": speed, "seconds": now - self.started})
        status = self._status(step, terms["loss"], now)
        at, *rest = status.words()
        shown = " ".join(f"{name} {compact(value)}" for name, value in terms.items())
        self.display.status(status, "  ".join([at, shown, *rest[1:]]))
        self._warn_if_slow(status)

    def evaluating(self) -> AbstractContextManager[None]:
        """A context for an evaluation, which may take longer than many steps."""
        return self.display.busy("evaluating")

    def evaluated(self, step: int, values: Mapping[str, float]) -> None:
        """Record and show an evaluation; the score, which only compares checkpoints, is only recorded."""
        self.record(step, {f"eval/{name}": value for name, value in values.items()})
        for line in evaluation_lines(step, {k: v for k, v in values.items() if k != "score"} or values):
            self.say(line)

    def _warn_if_slow(self, status: Status) -> None:
        """Warn once, when the speed is known, rather than after hours of a progress bar at 0 %. If the header has
        warned, warn again only if the run takes much longer than its bound.
        """
        if self.warned or status.left is None or status.speed is None or status.step < self.first_step + SETTLED:
            return
        self.warned = True
        if status.left > SLOW:
            steps = (status.steps or 0) - self.first_step
            whole = steps / status.speed
            if whole < FAR * self.least:
                return
            advice = f"; for this machine try {self.smaller}" if self.smaller and not self.least else ""
            self.say(f"warning: {status.speed:.2g} step/s here: {steps:,} steps take {duration(whole)}{advice}")

    def stop_at(self, seconds: float | None) -> None:
        """Say that the time is up if a long step, such as the first, delays the end of the run."""
        if seconds is not None:
            words = "the time is up: saving after this step"
            self.timer = threading.Timer(seconds + GRACE, self.say, (words,))
            self.timer.daemon = True
            self.timer.start()

    def stopping(self, signal: str) -> None:
        """Called by a signal handler, possibly in the middle of a step."""
        self.say(f"{signal}: saving after this step; repeat it to quit at once")

    def say(self, text: str) -> None:
        """Show a permanent line."""
        self.display.line(text)

    def record(self, step: int, values: dict[str, float]) -> None:
        self.file.write(json.dumps({"step": step, **values}) + "\n")
        for each in self.callbacks:
            each.record(step, values)


def _drop_after(path: Path, step: int) -> None:
    """Delete records after the step that a run resumes from: they will be written again."""
    if not path.is_file():
        return
    kept = []
    for line in path.read_text().splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept.append(line)
        except (json.JSONDecodeError, KeyError, TypeError):
            continue  # a line cut off by a kill
    temporary = path.with_suffix(".tmp")
    temporary.write_text("".join(line + "\n" for line in kept))
    temporary.replace(path)
