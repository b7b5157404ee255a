"""Runs `dbtm WORDS` in a forked process, which costs milliseconds where everything is imported already."""

import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

POLL = 0.002  # seconds


class Ended(NamedTuple):
    """How a command ended: its exit code (negative: the signal), what it wrote, and what it took."""

    code: int
    output: str
    errors: str
    seconds: float  # of the processor
    bytes: int  # the largest memory, that of the process it was forked from included

    @property
    def refused(self) -> bool:
        """One line of the command's own, and exit code 2."""
        said = [line for line in self.errors.splitlines() if line.startswith("dbtm: ")]
        return self.code == 2 and len(said) == 1 and "Traceback" not in self.errors


class Process(NamedTuple):
    pid: int
    output: Path
    errors: Path

    def wait(self, patience: float = 600) -> Ended:
        """The end of the process; one that takes longer, by the clock, is killed."""
        end = time.monotonic() + patience
        try:
            pid = 0
            while not pid:
                pid, status, used = os.wait4(self.pid, os.WNOHANG)
                if not pid:
                    if time.monotonic() > end:
                        os.kill(self.pid, signal.SIGKILL)
                    time.sleep(POLL)
        except BaseException:
            with suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
            raise
        finally:
            said = [path.read_bytes().decode("utf-8", "replace") for path in (self.output, self.errors)]
            for path in (self.output, self.errors):
                path.unlink()
        code = os.waitstatus_to_exitcode(status)
        return Ended(code, *said, used.ru_utime + used.ru_stime, used.ru_maxrss << 10)


def start(words: list[str], before: Callable[[], None] = lambda: None) -> Process:
    """`dbtm WORDS` in a forked process; `before` is called there first."""
    streams, paths = zip(*(tempfile.mkstemp(prefix="dbtm-forked-") for _ in range(2)), strict=True)
    child = os.fork()
    if child:
        for stream in streams:
            os.close(stream)
        return Process(child, *map(Path, paths))
    code = 1
    try:
        for number, stream in enumerate((os.open(os.devnull, os.O_RDONLY), *streams)):
            os.dup2(stream, number)
        sys.stdin = os.fdopen(0, closefd=False)  # pytest has streams of its own
        sys.stdout, sys.stderr = (os.fdopen(stream, "w", 1, closefd=False) for stream in (1, 2))
        sys.argv = ["dbtm", *words]
        before()
        from dbtm.cli import main

        main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
    except BaseException:
        import traceback

        os.write(2, traceback.format_exc().encode("utf-8", "replace"))
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
        os._exit(code)


def limit_processor(seconds: int) -> None:
    """From here on the process may use so much of the processor; then it is ended by SIGXCPU."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
