"""Run untrusted programs, each in a separate process.

    with Sandbox() as sandbox:
        outcome = sandbox.run("def simple_math_problem():\n    return 48 / 2")
        outcomes = list(sandbox.map(programs))

A program is confined by these layers, from the inside out; `Sandbox.means` lists the active means of the system:

1. an allow-list of syntax, names and attributes (child/allowlist.py), checked in the program's process, not in this;
2. a few built-in functions, two modules, and a hook that refuses every event that Python audits;
3. a separate process: isolated interpreter, empty environment, an empty read-only working folder, limits on CPU time,
   address space, files, processes and core dumps. On Linux also separate namespaces without network, that folder as
   root of the file system, no capabilities, user nobody in place of root, and a seccomp filter that allows about twenty
   system calls;
4. this process, which only counts bytes and seconds, kills the whole session of the child, and parses digits. It never
   parses, compiles or evaluates a program, and never sends it the correct answer.

Not covered: bugs of the kernel, the processor (side channels) or the interpreter's memory safety that need only the
allowed system calls; the load on other work on the machine, since a program may use its CPU seconds and memory while it
runs; and the empty folder, which remains if SIGKILL ends this process. Outside Linux there is no filter and no
namespace: only the allow-list, the hook and (not on Windows) the limits. If root cannot become nobody, it stays root.
"""

import os
import queue
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from dbtm.core.errors import UsageError
from dbtm.core.signals import leave_on
from dbtm.sandbox.confinement import missing, says, warn
from dbtm.sandbox.outcome import Outcome, read_report
from dbtm.sandbox.pipes import Reader, kill, send, wait

_START = "import sys; sys.path.append(sys.argv[1]); from child.main import main; sys.path.pop(); main()"
PAUSES = (0.1, 0.5, 2.0)  # seconds before each retry of an interpreter that did not start
KEPT = ("SYSTEMROOT",)  # environment variables: Windows needs it to start a process
_PROBE = "def simple_math_problem():\n    return 6 * 7"


@dataclass(frozen=True)
class Limits:
    """The limits of one program."""

    cpu_seconds: int = 1
    wall_seconds: float = 10.0  # includes the interpreter's start; generous, so that no program fails on a busy machine
    memory_bytes: int = 256 << 20  # address space; the interpreter itself takes about 30 MB
    output_bytes: int = 64 << 10
    program_bytes: int = 32 << 10


class NotStartedError(Exception):
    """The process ended before it read the program: this is not a failure of the program."""


class Sandbox:
    """Runs programs in parallel; a context manager, since it owns a folder and threads."""

    start: ClassVar[str] = _START

    def __init__(self, limits: Limits | None = None, workers: int | None = None):
        self.limits = limits or Limits()
        self.workers = workers or _cores()
        self.means: list[str] = []
        self._live: set[subprocess.Popen] = set()

    def __enter__(self) -> "Sandbox":
        self._signals = leave_on("SIGTERM", "SIGHUP")
        self._signals.__enter__()
        self._folder = Path(tempfile.mkdtemp(prefix="dbtm-sandbox-"))
        self._folder.chmod(0o555)
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="sandbox")
        try:
            outcome = self.run(_PROBE)
        except BaseException:
            self.__exit__()
            raise
        if outcome.value != 42:
            self.__exit__()
            raise UsageError(f"programs cannot be run here: {outcome.detail or outcome.kind} ({sys.executable})")
        return self

    @property
    def missing(self) -> list[str]:
        """The system's means of confinement that are not available."""
        return list(missing(self.means))

    @property
    def weakness(self) -> str:
        """The sentence about the missing means."""
        return says(self.missing)

    def warn(self) -> None:
        """Warn of missing means of confinement, once per process."""
        warn(tuple(self.missing))

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in list(self._live):
            kill(process)
        self._pool.shutdown(wait=True)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._signals.__exit__(None, None, None)

    def map(self, programs: Iterable[str]) -> Iterator[Outcome]:
        """The outcome of every program, in order."""
        futures: list[Future[Outcome]] = [self._pool.submit(self.run, program) for program in programs]
        for future in futures:
            yield future.result()

    def run(self, program: str) -> Outcome:
        """Run one program; this always returns soon after the wall-time limit.

        If no process can be started, there is no outcome but a UsageError: this is not a failure of the program.
        """
        source = program.encode("utf-8", "replace")
        if len(source) > self.limits.program_bytes:
            return Outcome("parse", detail=f"longer than {self.limits.program_bytes} bytes")
        why = ""
        for pause in (0.0, *PAUSES):
            time.sleep(pause)
            try:
                return self._try(source)
            except NotStartedError as error:
                why = str(error)[:200]
        raise UsageError(f"programs cannot be run here: the interpreter does not start: {why} ({sys.executable})")

    def _try(self, source: bytes) -> Outcome:
        token = secrets.token_hex(16)
        header = f"{token} {self.limits.cpu_seconds} {self.limits.memory_bytes}\n".encode("ascii")
        deadline = time.monotonic() + self.limits.wall_seconds
        try:
            process = self._spawn()
        except OSError as error:
            raise NotStartedError(error.strerror) from None
        self._live.add(process)
        events: queue.Queue[str] = queue.Queue()
        readers: list[Reader] = []
        try:
            readers.append(Reader(process.stdout, self.limits.output_bytes, "output", events))
            readers.append(Reader(process.stderr, 4096, "report", events))
            send(process.stdin, header + source)
            fault = wait(events, deadline)
        except RuntimeError as error:  # no thread can be started
            raise NotStartedError(str(error)) from None
        finally:
            kill(process)
            self._live.discard(process)
            for reader in readers:
                reader.close()
        output, report = readers
        return self._outcome(token, fault, process.returncode, report.data, output.data.decode("utf-8", "replace"))

    def _spawn(self) -> subprocess.Popen:
        # Unbuffered, so that output before a time-out is kept; warnings are not the program's output.
        options = ["-I", "-S", "-B", "-u", "-W", "ignore", "-X", "utf8"]
        command = [sys.executable, *options, "-c", self.start, str(Path(__file__).parent)]
        pipe = subprocess.PIPE
        keep = {name: os.environ[name] for name in KEPT if name in os.environ}
        return subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=self._folder, env=keep, bufsize=0, start_new_session=True
        )

    def _outcome(self, token: str, fault: str, code: int, report: bytes, output: str) -> Outcome:
        """The outcome from the process's report and its end."""
        if fault == "output":
            return Outcome("output", detail=f"more than {self.limits.output_bytes} bytes", output=output)
        ready, *rest = [_fields(line, token) for line in report.split(b"\n")[:-1]] or [None]
        if ready is None or ready[0] != "ready":
            said = report.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise NotStartedError(said or fault or f"it ended with {_ending(code)}")
        self.means = [means for means in ready[1].split("; ") if means]
        if fault == "timeout":
            return Outcome("timeout", detail=f"more than {self.limits.wall_seconds:g} seconds", output=output)
        if _ending(code) == "SIGXCPU":
            return Outcome("timeout", detail=f"more than {self.limits.cpu_seconds} CPU seconds", output=output)
        if len(rest) != 1 or rest[0] is None or code != 0:
            return Outcome("crash", detail=f"ended with {_ending(code)}", output=output)
        return read_report(*rest[0], output=output)


def _cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _fields(line: bytes, token: str) -> tuple[str, str] | None:
    """(kind, text) of a report line with the token; None for any other line."""
    try:
        sent, kind, text = line.decode("ascii").split(" ")
        return (kind, bytes.fromhex(text).decode("utf-8", "replace")) if secrets.compare_digest(sent, token) else None
    except ValueError:
        return None


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
