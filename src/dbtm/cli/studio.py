"""`dbtm studio`: a live page on this machine: Sudokus, texts, runs, your own checkpoints."""

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from dbtm.cli.console import say
from dbtm.cli.options import Device
from dbtm.core.errors import UsageError
from dbtm.core.threads import let_idle_threads_sleep_at_once

SHORTEST = 12  # characters of a token


def studio(
    checkpoints: Annotated[
        list[str] | None,
        typer.Argument(help="Runs, checkpoints or folders of runs: each is added to the rooms that support it."),
    ] = None,
    runs: Annotated[
        list[Path] | None, typer.Option(help="Folders of runs and comparisons to show (default: runs).")
    ] = None,
    port: Annotated[int, typer.Option(help="0 picks a free one.", min=0, max=65535)] = 8642,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Other addresses than this machine's own need --token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(envvar="DBTM_STUDIO_TOKEN", help="Token that visitors must give; better set in the environment."),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    device: Device = "auto",
) -> None:
    """Start a local web app and open it: solve Sudokus, write and infill texts, watch training runs."""
    try:
        from dbtm.studio.server import Address, serve
    except ImportError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise UsageError("the studio needs Starlette and uvicorn: pip install 'dbtm[studio]'") from None
    from dbtm.studio.guard import Door
    from dbtm.studio.opening import open_studio

    address = Address(host, port)
    if not address.is_loopback():
        if token is None:
            raise UsageError(f"--host {host} is open to other machines: give a --token, or leave --host out")
        say(f"warning: {host} can be reached from other machines, and the connection is not encrypted", error=True)
    if token is not None and (len(token) < SHORTEST or not token.isascii() or not token.isprintable()):
        raise UsageError(f"--token must be at least {SHORTEST} printable ASCII characters")
    let_idle_threads_sleep_at_once()
    made = open_studio(checkpoints or [], [Path("runs")] if runs is None else runs, device)
    made.door = Door(token)

    def opened(url: str) -> None:
        say(f"dbtm studio: {url}  (Ctrl-C ends it)")

    serve(made, address, opened, browser)
    say("studio closed")
    end_now()


def end_now() -> NoReturn:
    """Exit without waiting for threads in native code (a network evaluation, a compilation): Python would wait for
    them, or PyTorch would abort. All cleanup is done by now.
    """
    sys.stdout.flush()
    os._exit(0)
