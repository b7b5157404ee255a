"""Processes of a job for the tests: forked, which costs milliseconds, and joined by gloo."""

import os
import random
import signal
import socket
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint
import torch.distributed.fsdp

from tests.processes import PATIENCE


def free_port() -> int:
    """A port below the range that the system assigns automatically, so that no other connection gets it."""
    for port in random.Random().sample(range(20_000, 32_000), 100):
        with socket.socket() as s, suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def environment(rank: int, size: int, port: int, in_node: int | None = None) -> dict[str, str]:
    """The environment variables that torchrun sets for a process."""
    in_node = in_node or size
    return {
        "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank % in_node), "LOCAL_WORLD_SIZE": str(in_node),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip


def run(
    size: int,
    work: Callable[..., Any],
    *args: Any,
    folder: Path,
    in_node: int | None = None,
    leave: bool = True,
    results: int | None = None,
) -> list[Any]:
    """Run `work(*args)` on so many processes; the results of all, or of the first `results`, through torch files.
    `leave`: they leave the process group together, which needs all of them.
    """
    port, children = free_port(), []
    for rank in range(size):
        pid = os.fork()
        if not pid:
            _child(rank, size, port, in_node, work, args, folder, leave)
        children.append(pid)
    codes = [_wait(pid) for pid in children]
    errors = [path.read_text() for path in sorted(folder.glob("error*.txt"))]
    assert codes == [0] * size, "\n".join(errors) or codes
    return [
        torch.load(folder / f"result{rank}.pt", weights_only=True)
        for rank in range(size if results is None else results)
    ]


def _wait(pid: int) -> int:
    """The exit code of a process; one that hangs is killed."""
    end = time.monotonic() + PATIENCE
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _child(
    rank: int, size: int, port: int, in_node: int | None, work: Any, args: Any, folder: Path, leave: bool
) -> None:
    import torch.distributed as dist

    code = 1
    try:
        os.environ |= environment(rank, size, port, in_node)
        torch.set_num_threads(1)
        torch.save(work(*args), folder / f"result{rank}.pt")
        if leave and dist.is_initialized():
            dist.destroy_process_group()
        code = 0
    except BaseException:
        (folder / f"error{rank}.txt").write_text(traceback.format_exc())
    finally:
        os._exit(code)
