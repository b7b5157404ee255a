"""Write to a child process, read its output up to a limit, and kill it reliably."""

import contextlib
import os
import queue
import signal
import subprocess
import threading
import time
from typing import IO


class Reader(threading.Thread):
    """Reads a pipe to its end or to a limit, so that memory is bounded; reports which of the two on the queue."""

    def __init__(self, stream: IO[bytes] | None, limit: int, name: str, events: "queue.Queue[str]"):
        super().__init__(daemon=True)
        assert stream is not None
        self.stream, self.limit, self.what, self.events = stream, limit, name, events
        self.data = b""
        self.start()

    def run(self) -> None:
        event = "end"
        with contextlib.suppress(OSError, ValueError):  # the pipe was closed
            while chunk := self.stream.read(1 << 16):
                room = self.limit - len(self.data)
                self.data += chunk[:room]
                if len(chunk) > room:
                    event = self.what
                    break
        self.events.put(event)

    def close(self) -> None:
        """Once the process is killed, its end of the pipe is closed and the thread ends by itself."""
        self.join(1.0)
        self.stream.close()


def send(stream: IO[bytes] | None, data: bytes) -> None:
    assert stream is not None
    with contextlib.suppress(BrokenPipeError):  # the child ended early: its report has the reason
        stream.write(data)
    with contextlib.suppress(BrokenPipeError):
        stream.close()


def wait(events: "queue.Queue[str]", deadline: float) -> str:
    """Wait until both pipes end (''), one exceeds its limit ('output', 'report') or time is up ('timeout')."""
    for _ in range(2):
        try:
            event = events.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return "timeout"
        if event != "end":
            return "output" if event == "output" else "crash"
    return ""


def kill(process: subprocess.Popen) -> None:
    """Kill the child's whole session, even if the child has ended, and wait for it."""
    if hasattr(os, "killpg") and process.returncode is None:  # not yet waited for, so its id is not reused
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    process.wait()
