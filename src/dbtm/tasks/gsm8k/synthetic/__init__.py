"""Synthetic word problems: problem `key` is a function of its key alone.

A scene has one to five steps over the four operations in one of many wordings; a third of the problems also have an
irrelevant sentence. The program is the story's arithmetic, one line per step. A question always has the same program,
so a model that writes all tokens at once has only one choice.

One program in sixteen, by a checksum of its text, is held out: whatever the keys, no training problem has the same
program, nor, since a question has one program, the same words.
"""

import zlib

from dbtm.tasks.gsm8k.data import Example
from dbtm.tasks.gsm8k.synthetic import measures, money, things
from dbtm.tasks.gsm8k.synthetic.story import Story

SCENES = (*things.SCENES, *money.SCENES, *measures.SCENES)
DISTRACTED = 1 / 3
HELD_OUT = 16
_NEXT = 0x9E3779B97F4A7C15  # to the next key, far from the neighbouring keys


def tell(key: int) -> Example:
    """The story of a key, for training or held out."""
    story = Story(key)
    story.pick(SCENES)(story)
    if story.chance(DISTRACTED):
        story.distract()
    return Example(story.question(), story.code(), float(story.value))


def is_held_out(code: str) -> bool:
    return zlib.crc32(code.encode()) % HELD_OUT == 0


def problem(key: int) -> Example:
    """The training problem of a key."""
    while is_held_out((example := tell(key)).code):
        key += _NEXT
    return example


def held_out(n: int, seed: int = 0) -> list[Example]:
    """n problems with different programs, none of which occurs in training."""
    by_code: dict[str, Example] = {}
    key = seed << 64
    while len(by_code) < n:
        key += 1
        example = tell(key)
        if is_held_out(example.code):
            by_code.setdefault(example.code, example)
    return list(by_code.values())
