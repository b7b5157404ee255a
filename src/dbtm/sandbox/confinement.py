"""The operating system's means of confinement, and a warning about missing ones."""

import sys
from collections.abc import Iterable
from functools import cache

MEANS = ("limits", "namespaces", "empty root", "no capabilities", "seccomp")


def missing(means: Iterable[str]) -> tuple[str, ...]:
    """The means that are not among the active ones."""
    return tuple(wanted for wanted in MEANS if not any(each.startswith(wanted) for each in means))


def says(lacking: Iterable[str]) -> str:
    """The sentence about missing means."""
    return f"the sandbox lacks {', '.join(lacking)} on this machine (see dbtm doctor)"


@cache
def warn(lacking: tuple[str, ...]) -> None:
    """Warn on stderr, once per process, of missing means of confinement, if any."""
    if lacking:
        print(f"warning: {says(lacking)}", file=sys.stderr)
