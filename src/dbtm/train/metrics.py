"""What a run says while it works: metrics.jsonl always, a live line on a terminal, plain lines elsewhere."""

import json
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from dbtm.core.errors import UsageError
from dbtm.train.pace import OPEN


def _compact(value: float) -> str:
    return f"{value:.3g}" if value == 0 or abs(value) < 1000 else f"{value:.0f}"


def clock(seconds: float) -> str:
    """1:02:03 or 2:03."""
    minutes, s = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{s:02d}" if hours else f"{minutes}:{s:02d}"


class Metrics:
    """Writes records and shows progress."""

    def __init__(
        self, folder: Path, steps: int, first_step: int, tensorboard: bool = False, stream: TextIO | None = None
    ):
        self.board = _board(folder) if tensorboard else None
        path = folder / "metrics.jsonl"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _drop_after(path, first_step)
            self.file = open(path, "a", buffering=1)  # noqa: SIM115 - open as long as the run
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error
        self.steps, self.first_step = steps, first_step
        self.stream = stream = stream or sys.stderr
        self.started = self.last_time = time.monotonic()
        self.last_step = first_step
        self.live = stream.isatty()

    def progress(self, step: int, terms: dict[str, float], **extra: float) -> None:
        """One record of the losses, with speed and time left, averaged since the last one."""
        now = time.monotonic()
        speed = (step - self.last_step) / max(now - self.last_time, 1e-9)
        average = (step - self.first_step) / max(now - self.started, 1e-9)
        self.last_time, self.last_step = now, step
        self.record(step, terms | extra | {"steps_per_second": speed, "seconds": now - self.started})
        known = self.steps < OPEN  # a run by the clock learns its length on the way
        left = f"  ETA {clock((self.steps - step) / average)}" if average and known else ""
        shown = " ".join(f"{name} {_compact(value)}" for name, value in terms.items())
        line = f"step {step}/{self.steps if known else '?'}  {shown}  {_compact(speed)} step/s{left}"
        self._show(f"\r\x1b[2K{line[: _columns()]}" if self.live else line + "\n")

    def say(self, text: str) -> None:
        """A line of its own, below the live one."""
        self._show(("\r\x1b[2K" if self.live else "") + text + "\n")

    def _show(self, text: str) -> None:
        """A run outlives its terminal: what cannot be shown any more is in the file."""
        with suppress(OSError):
            self.stream.write(text)
            self.stream.flush()

    def record(self, step: int, values: dict[str, float]) -> None:
        self.file.write(json.dumps({"step": step, **values}) + "\n")
        if self.board is not None:
            for name, value in values.items():
                self.board.add_scalar(name, value, step)

    def close(self) -> None:
        if self.live:
            self._show("\n")
        self.file.close()
        if self.board is not None:
            self.board.close()


def _board(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UsageError("train.tensorboard=true needs TensorBoard: pip install 'dbtm[tensorboard]'") from None
    return SummaryWriter(str(folder / "tensorboard"))


def _columns() -> int:
    return shutil.get_terminal_size().columns - 1


def _drop_after(path: Path, step: int) -> None:
    """Forget records past the step a run resumes from: they will be written again."""
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
