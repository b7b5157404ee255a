"""Runs blocking work of a request in a thread; shutdown does not wait for it."""

from collections.abc import Callable
from typing import TypeVar

from anyio import to_thread

Answer = TypeVar("Answer")


async def in_thread(function: Callable[..., Answer], *arguments: object) -> Answer:
    """The function's result. A cancelled request abandons its thread, which may be compiling for half a minute: Ctrl-C
    must not wait for it.
    """
    return await to_thread.run_sync(function, *arguments, abandon_on_cancel=True)
