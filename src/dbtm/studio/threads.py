"""Work of a request that would hold up the event loop: in a thread, which a studio that ends does not wait for."""

from collections.abc import Callable
from typing import TypeVar

from anyio import to_thread

Answer = TypeVar("Answer")


async def in_thread(function: Callable[..., Answer], *arguments: object) -> Answer:
    """What the function returns. A cancelled request leaves its thread behind, by contract and whatever scope cancels
    it: the thread may be compiling for half a minute, and Ctrl-C must not wait for it.
    """
    return await to_thread.run_sync(function, *arguments, abandon_on_cancel=True)
