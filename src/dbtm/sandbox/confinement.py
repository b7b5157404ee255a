"""The means by which the system confines a program, and a warning about those that are missing here."""

import sys
from collections.abc import Iterable
from functools import cache

MEANS = ("limits", "namespaces", "empty root", "no capabilities", "seccomp")


def missing(means: Iterable[str]) -> tuple[str, ...]:
    """Those that are not among the means that took hold."""
    return tuple(wanted for wanted in MEANS if not any(each.startswith(wanted) for each in means))


@cache
def warn(lacking: tuple[str, ...]) -> None:
    """Say on stderr, once per process, which means programs run without; nothing where none is missing."""
    if lacking:
        print(f"warning: the sandbox is without {', '.join(lacking)} here (see dbtm doctor)", file=sys.stderr)
