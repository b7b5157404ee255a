"""How long-running work reports its progress and is cancelled."""

from dbtm.sampling import Cancelled

__all__ = ["Cancelled", "Progress"]


class Progress:
    """Base class of listeners: ignores all progress, never cancels. A terminal draws bars, a server sends events."""

    def stage(self, name: str, total: int | None = None) -> None:
        """A new stage begins, with its number of units if known."""

    def advance(self, done: int, total: int | None = None) -> None:
        """Units of the stage done so far."""

    def now(self, text: str) -> None:
        """The current work within the stage; the line replaces the previous one."""

    def note(self, text: str) -> None:
        """A warning for the user."""

    def cancelled(self) -> bool:
        """Called often; True ends the work with `Cancelled`."""
        return False
