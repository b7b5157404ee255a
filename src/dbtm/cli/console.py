"""The one way to a terminal: whatever is printed here shows control characters as pictures."""

import sys
from typing import TYPE_CHECKING, Any

from dbtm.core.terminal import one_line, visible

if TYPE_CHECKING:
    from rich.console import Console


def say(*words: object, error: bool = False, end: str = "\n") -> None:
    """A line of plain text."""
    print(visible(" ".join(map(str, words))), file=sys.stderr if error else sys.stdout, end=end, flush=True)


def complain(text: str) -> None:
    """What went wrong, on one line of stderr."""
    print(f"dbtm: {one_line(text)}", file=sys.stderr)


def open_console(**options: Any) -> "Console":
    """A console of rich. Its own orders (colours, progress) are apart from text, so that only text is made visible."""
    from rich.console import Console
    from rich.segment import Segment

    class VisibleConsole(Console):
        def _render_buffer(self, buffer: Any) -> str:
            return super()._render_buffer(
                segment if segment.control else Segment(visible(segment.text), segment.style) for segment in buffer
            )

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # not rich's exit code 1: nobody reads on, which is no failure

    return VisibleConsole(**{"highlight": False, **options})
