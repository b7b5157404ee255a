"""An example with other numbers: the same story and the same program, so that numbers are learned as things to copy.

A few thousand examples are soon known by heart. Only a number that the question and the program share is changed, in
both at once; and not where the program may have it from elsewhere, as the 100 of a per cent or the 2 of a half.
"""

import random
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from dbtm.tasks.gsm8k.data import Example

NUMBER = re.compile(r"(?<![\w.])(?<!\d,)[1-9]\d*(?!\w|[.,]\d)")  # neither part of a name nor of 1.5 or 5,000
KNOWN = frozenset({"10", "12", "24", "30", "52", "60", "100", "365", "1000"})  # what programs know without being told
_TRIES = 32


def renumber(example: Example, key: int, share: float = 1.0) -> Example:
    """The example with other numbers, by a key; as it was with probability 1 - share, and where none may be changed."""
    draw = random.Random(key).random
    if draw() >= share:
        return example
    asked, used = Counter(NUMBER.findall(example.question)), Counter(NUMBER.findall(example.code))
    free = sorted((number for number in asked.keys() & used.keys() if _is_free(number, asked, used)), key=int)
    kept = (asked.keys() | used.keys()) - set(free)
    for _ in range(_TRIES if free else 0):
        values = [_like(number, draw) for number in free]
        ascending = all(int(a) < int(b) for a, b in pairwise(values))
        if ascending and not kept.intersection(values) and not KNOWN.intersection(values):
            new = dict(zip(free, values, strict=True))
            return Example(_swap(example.question, new), _swap(example.code, new), None)
    return example


def _is_free(number: str, asked: Counter[str], used: Counter[str]) -> bool:
    """Whether the program has the number from the question alone; a single digit only where each has it once."""
    if len(number) == 1:
        return int(number) > 2 and asked[number] == used[number] == 1
    return number not in KNOWN


def _like(number: str, draw: Callable[[], float]) -> str:
    """Another number of as many digits; zeros at its end stay."""
    core = number.rstrip("0")
    least = 3 if len(number) == 1 else 10 ** (len(core) - 1)
    return str(least + int(draw() * (10 ** len(core) - least))) + number[len(core) :]


def _swap(text: str, new: dict[str, str]) -> str:
    return NUMBER.sub(lambda found: new.get(found[0], found[0]), text)
