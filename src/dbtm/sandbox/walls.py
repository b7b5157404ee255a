"""The walls that the system puts up around a program, and a word about those that are missing."""

import sys
from collections.abc import Iterable
from functools import cache

WALLS = ("limits", "namespaces", "empty root", "no capabilities", "seccomp")


def missing(means: Iterable[str]) -> tuple[str, ...]:
    """Walls that are not among the means that took hold."""
    return tuple(wall for wall in WALLS if not any(each.startswith(wall) for each in means))


@cache
def warn(walls: tuple[str, ...]) -> None:
    """Say on stderr, once a process, which walls programs run without; nothing where all are up."""
    if walls:
        print(f"warning: the sandbox is without {', '.join(walls)} here (see dbtm doctor)", file=sys.stderr)
