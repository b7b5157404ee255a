"""Runs inputs against a reader, in forked processes with limits.

A reader succeeds, or raises UsageError with one line. A failure is anything else: another exception (a Rust panic too),
a warning, more than SECONDS, more than MEMORY above the size of the input, or the end of the process.
"""

import faulthandler
import json
import os
import random
import resource
import select
import shutil
import signal
import stat
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dbtm.core import terminal
from dbtm.core.errors import UsageError

SECONDS = 5.0
MEMORY = 512 << 20  # bytes above the input's size
ROOM = 6 << 30  # bytes of address space above what the process has: a runaway must not take the machine
LONGEST = 2000  # characters of a message

Files = dict[str, bytes]


class Target(NamedTuple):
    """A reader and where its inputs come from."""

    name: str
    make: Callable[[random.Random], Files]
    read: Callable[[Path], Any]
    """Messages quote the input as it is: what counts is how the command prints them (`core.terminal`)."""
    seconds: float = 0.0
    """By the clock, for one input; 0: SECONDS. A reader that limits itself may take longer on a busy machine."""


class Used(NamedTuple):
    """What a reader that worked in a process of its own took there."""

    seconds: float
    bytes: int


class Failure(NamedTuple):
    target: str
    seed: int
    what: str
    saved: Path | None = None

    def __str__(self) -> str:
        return f"{self.target}, seed {self.seed}: {self.what}" + (f" (input: {self.saved})" if self.saved else "")


@dataclass
class Report:
    """What came of many inputs."""

    counts: Counter[str] = field(default_factory=Counter)  # accepted, refused
    failures: list[Failure] = field(default_factory=list)
    slowest: float = 0.0
    largest: int = 0


class Hang(BaseException):
    pass


def put(files: Files, folder: Path) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def readable(message: str) -> bool:
    """What a terminal may be given: printable, one line, of a length that can be read."""
    return message.isprintable() and 0 < len(message) <= LONGEST


def judge(target: Target, files: Files) -> dict[str, Any]:
    """Read one input in this process: {"kind": accepted, refused or failed, "what", "seconds", "bytes"}."""
    with tempfile.TemporaryDirectory(prefix="dbtm-fuzz-") as name:
        folder = Path(name)
        put(files, folder)
        before, started = _reset_peak(), time.monotonic()
        kind, what = "accepted", ""
        used = None
        signal.setitimer(signal.ITIMER_REAL, target.seconds or SECONDS)
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                used = target.read(folder)
        except UsageError as error:
            kind, what = "refused", str(error)
            if not readable(terminal.one_line(what)):
                kind, what = "failed", f"not one printable line: {what[:300]!r}"
        except Hang:
            kind, what = "failed", f"more than {target.seconds or SECONDS:g} s"
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            kind = "failed"
            what = (
                f"{type(error).__name__}: {str(error)[:200]!r} at {where.filename.rpartition('src/')[2]}:{where.lineno}"
            )
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        seconds, peak = used if isinstance(used, Used) else (time.monotonic() - started, _peak() - before)
        size = sum(map(len, files.values()))
        said = _said()
        if kind != "failed" and warned:
            kind, what = "failed", f"warned: {str(warned[0].message)[:200]!r}"
        if kind != "failed" and said:
            kind, what = "failed", f"wrote to the standard error: {said[:200]!r}"
        if kind != "failed" and peak > MEMORY + size:
            kind, what = "failed", f"{peak >> 20} MiB of memory for an input of {size} bytes"
        return {"kind": kind, "what": what, "seconds": seconds, "bytes": peak}


def _said() -> bytes:
    """What was written to the standard error, where that is a file (in a process of `run`); it is emptied."""
    if not stat.S_ISREG(os.fstat(2).st_mode):
        return b""
    size = os.lseek(2, 0, os.SEEK_END)
    said = os.pread(2, size, 0)
    os.ftruncate(2, 0)
    os.lseek(2, 0, os.SEEK_SET)
    return said


def _reset_peak() -> int:
    """The memory that is used now; on Linux the peak is counted from here on."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) << 10
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


# -- many, in forked processes -----------------------------------------------------------------------------------------


def run(target: Target, seeds: range, save: Path | None = None) -> Report:
    """All seeds of a range; a process that dies is the failure of the input it was at, and the rest goes on."""
    report, at = Report(), seeds.start
    while at < seeds.stop:
        done = at
        for result in _forked(target, range(at, seeds.stop)):
            _count(report, target, done, result, save)
            done += 1
        at = done
    return report


def _count(report: Report, target: Target, seed: int, result: dict[str, Any], save: Path | None) -> None:
    report.counts[result["kind"]] += 1
    report.slowest = max(report.slowest, result["seconds"])
    report.largest = max(report.largest, result["bytes"])
    if result["kind"] == "failed":
        saved = None
        if save is not None:
            saved = save / f"{target.name}-{seed}"
            shutil.rmtree(saved, ignore_errors=True)
            put(target.make(random.Random(f"{target.name} {seed}")), saved)
        report.failures.append(Failure(target.name, seed, result["what"], saved))


def _forked(target: Target, seeds: range) -> Iterator[dict[str, Any]]:
    """Results of seeds, one after the other, until the process ends."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _child(target, seeds, write)
    os.close(write)
    got = 0
    try:
        for line in _lines(read, 4 * (target.seconds or SECONDS)):
            got += 1
            yield json.loads(line)
    finally:
        os.close(read)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if got < len(seeds):
        how = f"exit status {os.waitstatus_to_exitcode(status)}"
        yield {"kind": "failed", "what": f"the process ended, or hung: {how}", "seconds": 0.0, "bytes": 0}


def _lines(descriptor: int, patience: float) -> Iterator[bytes]:
    """Lines of a pipe, until it ends or is silent for too long."""
    rest = b""
    while select.select([descriptor], [], [], patience)[0]:
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


def _child(target: Target, seeds: range, write: int) -> None:
    errors = os.dup(2)
    try:
        faulthandler.disable()  # pytest's: the report names the failure
        signal.signal(signal.SIGALRM, _hang)
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1):
            os.dup2(silent, stream)
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), 2)
        pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
        if pages:
            limit = pages * resource.getpagesize() + ROOM
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for seed in seeds:
            result = judge(target, target.make(random.Random(f"{target.name} {seed}")))
            os.write(write, json.dumps(result).encode() + b"\n")
    except BaseException:
        os.write(errors, traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)


def _hang(number: int, frame: object) -> None:
    raise Hang
