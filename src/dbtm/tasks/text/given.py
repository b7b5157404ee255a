"""Places a user's given text as tokens: a prompt, a suffix, or a text with holes anywhere.

A text with holes is a list of parts, a string or HOLE: "The ____ of ____" is ["The ", HOLE, " of ", HOLE]. Tokenizers
join a space to the word after it, so the model generates a space before a hole.
"""

import re
from collections.abc import Sequence

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.tasks.text.task import Text

HOLE = None
HOLE_TOKENS = 3  # of a hole in a text, where no number is given: a word or two
Parts = list[str | None]
_MARK = re.compile(r"_{2,}")


def around(prompt: str, suffix: str) -> Parts:
    """A hole between a beginning and an end; a space is added before an end that begins with a word."""
    return [prompt, HOLE, f" {suffix}" if suffix[:1].isalnum() else suffix]


def template(text: str) -> Parts:
    """Split a text at its holes, each of two or more underscores."""
    parts: Parts = []
    for i, piece in enumerate(_MARK.split(text)):
        parts += [piece] if i == 0 else [HOLE, piece]
    if HOLE not in parts:
        raise UsageError("the text has no hole to fill: mark one with two or more underscores, as in 'The ____ of'")
    return parts


def place(task: Text, parts: Sequence[str | None], hole: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(tokens, clean), (L,) each: the parts from the first position on, generated where clean is false.

    Holes share the rest of the sequence; the first ones get one token more if it does not divide evenly. With `hole`,
    each has this many tokens, and the rest after the last part is generated too. If blocks have border tokens, these go
    around all of it.
    """
    pieces = [_encode(task, part, before_hole=HOLE in parts[i + 1 : i + 2]) for i, part in enumerate(parts)]
    n_given, n_holes = sum(len(piece) for piece in pieces if piece is not None), parts.count(HOLE)
    before, after = ([task.borders.bos], [task.borders.eos]) if task.borders.around and n_given else ([], [])
    room = task.length - len(before) - len(after)
    if n_given + n_holes * (hole or 1) > room:
        raise UsageError(
            f"{n_given} given and at least {n_holes * (hole or 1)} generated tokens do not fit into this model's "
            f"sequences of {room}: give less text{'' if hole is None else ' or smaller holes'}"
        )
    left, rest = divmod(room - n_given, n_holes) if hole is None else (hole, 0)
    row = [(token, True) for token in before]
    for piece in pieces:
        if piece is None:
            row += [(0, False)] * (left + (rest > 0))
            rest -= 1
        else:
            row += [(token, True) for token in piece]
    row += [(0, False)] * (task.length - len(row) - len(after)) + [(token, True) for token in after]
    return np.array([token for token, _ in row]), np.array([clean for _, clean in row])


def extent(task: Text, parts: Sequence[str | None], hole: int) -> int:
    """Number of tokens from the first to the last part, as `place` lays them: what follows continues the text."""
    pieces = [_encode(task, part, before_hole=HOLE in parts[i + 1 : i + 2]) for i, part in enumerate(parts)]
    n_given = sum(len(piece) for piece in pieces if piece is not None)
    return n_given + hole * parts.count(HOLE) + (task.borders.around and n_given > 0)


def check_utf8(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError("the given text is not UTF-8") from None


def _encode(task: Text, part: str | None, before_hole: bool) -> list[int] | None:
    if part is None:
        return None
    check_utf8(part)
    return task.encode(part.rstrip(" ") if before_hole else part)
