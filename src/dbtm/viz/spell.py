"""Each token's part of a text: joined, the parts are the tokenizer's text.

Tokens are not pieces of text. A character may need several of them (byte-level BPE), and a space before a word depends
on the token before it (WordPiece). So a token's part is what it adds to the text of its neighbours; a character belongs
to the token that completes it, and its other tokens have an empty part.
"""

from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from dbtm.core.terminal import visible

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from dbtm.tasks.base import Task

END, PAD, BLANK = "∎", "▫", "░"
BEFORE, AFTER = 8, 4  # relevant neighbours: a character has at most four bytes


Place = tuple[int, tuple[int, ...]]
"""A token in its context: its place in a window, and the window."""


def speller_of(task: "Task") -> Callable[[np.ndarray], list[str]]:
    """Spells a task's tokens: as words if it has some, else as numbers."""
    from dbtm.tasks.gsm8k.task import Gsm8k
    from dbtm.tasks.own import Own
    from dbtm.tasks.text.task import Text

    if isinstance(task, Text):
        return Speller(task.words, task.borders.eos)
    if isinstance(task, Gsm8k):
        return Speller(task.layout.tokenizer, task.layout.end, task.layout.pad)
    words = task.symbols if isinstance(task, Own) else None
    after = "" if isinstance(task, Own) and task.characters else " "

    def spelled(token: int) -> str:
        if not 0 <= token < task.vocab:
            return BLANK + after
        return visible(str(token) if words is None else words[token] or PAD) + after

    return lambda tokens_L: [spelled(int(token)) for token in tokens_L]


class Speller:
    """Spells rows of a tokenizer; ends of text, padding, and places without a token are shown as marks."""

    def __init__(self, tokenizer: "Tokenizer", end: int, pad: int | None = None):
        self.tokenizer = tokenizer
        self.vocab = 1 + max(tokenizer.get_vocab().values())  # ids may have gaps
        self.known: dict[Place, str] = {}
        self.marks = {pad: PAD, end: END}

    def __call__(self, tokens_L: np.ndarray) -> list[str]:
        out: list[str] = []
        for there, run in groupby(map(int, tokens_L), key=lambda token: 0 <= token < self.vocab):
            ids = list(run)
            spelled = parts(self.tokenizer, ids, self.known) if there else [BLANK] * len(ids)
            out += [self._mark(i, part) if there else part for i, part in zip(ids, spelled, strict=True)]
        return out

    def _mark(self, token: int, part: str) -> str:
        if token not in self.marks:
            return visible(part)
        name = self.tokenizer.id_to_token(token) or ""
        return visible(part.replace(name, self.marks[token])) if name and name in part else self.marks[token]


def parts(tokenizer: "Tokenizer", ids: list[int], known: dict[Place, str] | None = None) -> list[str]:
    """Each token's part of the decoded text, from the text up to it and beyond it, in a window around it.

    `known` caches parts: most tokens and their neighbours stay the same from round to round.
    """
    known, places = {} if known is None else known, list[Place]()
    for i in range(len(ids)):
        start = max(0, i - BEFORE)
        places.append((i - start, tuple(ids[start : i + 1 + AFTER])))
    new = [place for place in dict.fromkeys(places) if place not in known]
    windows = [window[:end] for at, window in new for end in (at, at + 1, len(window))]
    texts = tokenizer.decode_batch(windows, skip_special_tokens=False)
    for place, before, upto, whole in zip(new, texts[0::3], texts[1::3], texts[2::3], strict=True):
        known[place] = whole[_agree(before, whole) : _agree(upto, whole)]
    return [known[place] for place in places]


def _agree(beginning: str, whole: str) -> int:
    """Length of the beginning that later tokens do not change: half a character does not count."""
    return next((i for i, (a, b) in enumerate(zip(beginning, whole)) if a != b), min(len(beginning), len(whole)))
