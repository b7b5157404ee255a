"""All output to a terminal goes through here: control characters are shown as symbols."""

import sys
from typing import TYPE_CHECKING, Any

from dbtm.core.terminal import one_line, visible

if TYPE_CHECKING:
    from rich.console import Console


def say(*words: object, error: bool = False, end: str = "\n") -> None:
    """A line of plain text."""
    print(visible(" ".join(map(str, words))), file=sys.stderr if error else sys.stdout, end=end, flush=True)


def complain(text: str) -> None:
    """Print an error as one line on stderr."""
    print(f"dbtm: {one_line(text)}", file=sys.stderr)


def open_console(**options: Any) -> "Console":
    """A rich console that makes control characters visible in text, but keeps rich's own (colours, progress)."""
    from rich.console import Console
    from rich.segment import Segment

    class VisibleConsole(Console):
        def _render_buffer(self, buffer: Any) -> str:
            return super()._render_buffer(
                segment if segment.control else Segment(visible(segment.text), segment.style) for segment in buffer
            )

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # not rich's exit code 1: a closed pipe is not a failure

    return VisibleConsole(**{"highlight": False, **options})
