"""The one exception a user's mistake raises: the command prints it as a single line and exits with code 2."""

import difflib
from collections.abc import Iterable


class UsageError(ValueError):
    """Bad input. The message says what is wrong and how to put it right, in one line."""


def nearest(word: str, choices: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest choice, or the list of choices where none is close."""
    names = sorted(choices)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else f"; choose one of: {', '.join(names)}"
