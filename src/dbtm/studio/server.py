"""The studio's server: address, warm-up in the background, and immediate shutdown."""

import asyncio
import contextlib
import ipaddress
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dbtm.core.errors import UsageError
from dbtm.studio.app import make_app
from dbtm.studio.state import Studio
from dbtm.studio.sudoku import NewPuzzleBody, make_puzzle

FIRST_LINE = 10.0  # seconds for the header of a request
CONNECTIONS = 256


@dataclass(frozen=True)
class Address:
    """The address to listen on; port 0 picks a free one."""

    host: str = "127.0.0.1"
    port: int = 8642

    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def bind(self) -> socket.socket:
        """A listening socket."""
        try:
            family = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0][0]
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self.host, self.port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"cannot listen on {self.host} port {self.port}: {reason}; choose another port") from None
        return listener

    def url(self, listener: socket.socket) -> str:
        """The URL for a browser on this machine."""
        port = listener.getsockname()[1]
        everywhere = self.host in ("0.0.0.0", "::")
        host = "127.0.0.1" if everywhere else f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{port}/"


class _Protocol(H11Protocol):
    """Closes connections that do not send a request in time."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.loop.call_later(FIRST_LINE, self._close_if_silent)

    def _close_if_silent(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()


class _Server(uvicorn.Server):
    """A server whose signals are handled here: the first one ends it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def make_server(studio: Studio, address: Address) -> tuple[uvicorn.Server, socket.socket]:
    """A server, and the socket that it will listen on."""
    names = frozenset({address.host.lower(), socket.gethostname().lower()})
    listener = address.bind()
    config = uvicorn.Config(
        make_app(studio, names),
        http=_Protocol,
        ws="none",
        log_level="critical",
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=1,
    )
    return _Server(config), listener


def serve(studio: Studio, address: Address, opened: Callable[[str], None], browser: bool = True) -> None:
    """Serve until a signal asks to stop. `opened` is called with the address once the studio listens."""
    server, listener = make_server(studio, address)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):  # not available on this system
                loop.add_signal_handler(number, stop)
        task = asyncio.create_task(server.serve([listener]))
        while not server.started and not task.done():
            await asyncio.sleep(0.01)
        if server.started:
            url = address.url(listener)
            opened(url)
            if browser:
                threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
            warm_up(studio)
        await task

    def stop() -> None:
        studio.jobs.close()
        server.should_exit = True

    try:
        asyncio.run(run())
    finally:
        studio.jobs.close()
        listener.close()


def warm_up(studio: Studio) -> None:
    """Load the first model of every room, and evaluate it once, as the first call also allocates memory and chooses
    kernels. Then compile the puzzle generator.
    """

    def work(job: Any) -> dict[str, Any]:
        from dbtm.service.puzzles import BUILT_IN, read_puzzle
        from dbtm.studio.sudoku import SolveBody, run_solve
        from dbtm.studio.text import TextBody, run_write

        for room in ("sudoku", "text"):
            for name in studio.shelf.names(room)[:1]:
                job.check()
                if room == "text":
                    run_write(studio, job, TextBody(nfe=1), name)
                    continue
                size = studio.shelf.card(name).size
                digits = next(puzzle.digits for puzzle in BUILT_IN if len(puzzle.digits) == size)
                run_solve(studio, job, SolveBody(puzzle=digits, nfe=1), read_puzzle(digits), name)
        threading.Thread(target=make_puzzle, args=(NewPuzzleBody(),), daemon=True).start()
        return {}

    studio.jobs.submit("studio", work)
