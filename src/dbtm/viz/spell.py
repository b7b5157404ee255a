"""Every token's part of a text: joined, the parts are the text as the tokenizer writes it.

Tokens are not pieces of text. A character may be spread over several of them (byte-level BPE), and whether a space
stands before a word depends on what is before it (WordPiece). So a token's part is what it adds to the text of its
neighbours; a character belongs to the token that completes it, and the others of its tokens have an empty part.
"""

from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from dbtm.tasks.base import Task

END, PAD, BLANK = "∎", "▫", "░"
BEFORE, AFTER = 8, 4  # neighbours that matter: a character has at most four bytes
_HIDDEN = [*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]  # C1 codes, changes of direction
_VISIBLE = {i: chr(0x2400 + i) for i in range(0x20) if chr(i) not in "\n\t"} | {0x7F: "␡"} | dict.fromkeys(_HIDDEN, "�")


def speller_of(task: "Task") -> Callable[[np.ndarray], list[str]]:
    """How a task's tokens are spelled: as words where it has some, else as numbers."""
    from dbtm.tasks.gsm8k.task import Gsm8k
    from dbtm.tasks.text.task import Text

    if isinstance(task, Text):
        return Speller(task.words, task.borders.eos)
    if isinstance(task, Gsm8k):
        return Speller(task.layout.tokenizer, task.layout.end, task.layout.pad)
    return lambda tokens_L: [f"{token} " if 0 <= token < task.vocab else f"{BLANK} " for token in tokens_L]


class Speller:
    """Spells rows of a tokenizer; ends of text, padding, and places without a token are shown as marks."""

    def __init__(self, tokenizer: "Tokenizer", end: int, pad: int | None = None):
        self.tokenizer = tokenizer
        self.vocab = 1 + max(tokenizer.get_vocab().values())  # ids may have gaps
        self.marks = {pad: PAD, end: END}

    def __call__(self, tokens_L: np.ndarray) -> list[str]:
        out: list[str] = []
        for there, run in groupby(map(int, tokens_L), key=lambda token: 0 <= token < self.vocab):
            ids = list(run)
            spelled = parts(self.tokenizer, ids) if there else [BLANK] * len(ids)
            out += [self._mark(i, part) if there else part for i, part in zip(ids, spelled, strict=True)]
        return out

    def _mark(self, token: int, part: str) -> str:
        if token not in self.marks:
            return visible(part)
        name = self.tokenizer.id_to_token(token) or ""
        return part.replace(name, self.marks[token]) if name and name in part else self.marks[token]


def parts(tokenizer: "Tokenizer", ids: list[int]) -> list[str]:
    """Every token's part of the decoded text, from the text up to it and beyond it, in a window around it."""
    windows = []
    for i in range(len(ids)):
        start = max(0, i - BEFORE)
        windows += [ids[start:i], ids[start : i + 1], ids[start : i + 1 + AFTER]]
    texts = tokenizer.decode_batch(windows, skip_special_tokens=False)
    triples = zip(texts[0::3], texts[1::3], texts[2::3], strict=True)
    return [whole[_agree(before, whole) : _agree(upto, whole)] for before, upto, whole in triples]


def _agree(beginning: str, whole: str) -> int:
    """How much of a beginning still stands when more is known: half a character does not."""
    return next((i for i, (a, b) in enumerate(zip(beginning, whole)) if a != b), min(len(beginning), len(whole)))


def visible(text: str) -> str:
    """Control characters as pictures, so that no sample can give orders to a terminal."""
    return text.translate(_VISIBLE)
