"""The exception for user errors: a command prints it as one line and exits with code 2.

Running out of memory is reported in the same way.
"""

import difflib
from collections.abc import Iterable


class UsageError(ValueError):
    """Bad input. The message states the problem and the fix, in one line."""


def nearest(word: str, choices: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest choice, or the list of choices if none is close."""
    names = sorted(choices)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else f"; choose one of: {', '.join(names)}"


_NO_MEMORY = (
    "can't allocate memory",
    "calculation overflowed",
    "too big",
    "Maximum allowed dimension",
    "out of memory",
)


def out_of_memory(error: Exception) -> bool:
    """Whether an error of Python, NumPy or PyTorch means that memory ran out, or would, on a CPU or a GPU."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # PyTorch's, without importing it
        return True
    return isinstance(error, RuntimeError | ValueError) and any(words in str(error) for words in _NO_MEMORY)
