"""Every token's part of a text: joined, the parts are the text as the tokenizer writes it.

Tokens are not pieces of text. A character may be spread over several of them (byte-level BPE), and whether a space
stands before a word depends on what is before it (WordPiece). So a token's part is what it adds to the text of its
neighbours; a character belongs to the token that completes it, and the others of its tokens have an empty part.
"""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END, PAD = "∎", "▫"
BEFORE, AFTER = 8, 4  # neighbours that matter: a character has at most four bytes
_HIDDEN = [*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]  # C1 codes, changes of direction
_VISIBLE = {i: chr(0x2400 + i) for i in range(0x20) if chr(i) not in "\n\t"} | {0x7F: "␡"} | dict.fromkeys(_HIDDEN, "�")


class Speller:
    """Spells rows of a tokenizer; ends of text and padding are shown as marks."""

    def __init__(self, tokenizer: "Tokenizer", end: int, pad: int | None = None):
        self.tokenizer = tokenizer
        self.marks = {pad: PAD, end: END}

    def __call__(self, tokens_L: np.ndarray) -> list[str]:
        ids = [int(token) for token in tokens_L]
        return [self._mark(i, part) for i, part in zip(ids, parts(self.tokenizer, ids), strict=True)]

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
    found = zip(texts[0::3], texts[1::3], texts[2::3], strict=True)
    return [whole[_agree(before, whole) : _agree(upto, whole)] for before, upto, whole in found]


def _agree(beginning: str, whole: str) -> int:
    """How much of a beginning still stands when more is known: half a character does not."""
    return next((i for i, (a, b) in enumerate(zip(beginning, whole)) if a != b), min(len(beginning), len(whole)))


def visible(text: str) -> str:
    """Control characters as pictures, so that no sample can give orders to a terminal."""
    return text.translate(_VISIBLE)
