"""How long-running work reports its progress and is cancelled."""

from dbtm.sampling import Cancelled

__all__ = ["Cancelled", "Progress"]


class Progress:
    """Base of all listeners: hears nothing, never cancels. A terminal draws bars, a server sends events."""

    def stage(self, name: str, total: int | None = None) -> None:
        """A new stage of the work begins, of so many units where that is known."""

    def advance(self, done: int, total: int | None = None) -> None:
        """So many units of the stage are done."""

    def now(self, text: str) -> None:
        """What is at work within the stage, in a line that takes the place of the one before."""

    def note(self, text: str) -> None:
        """Something that the user should know before the work goes on."""

    def cancelled(self) -> bool:
        """Asked often; True ends the work with `Cancelled`."""
        return False
