"""Examples with other numbers in the same story and program, so that the model learns to copy numbers.

A model soon memorises a few thousand examples. A number that question and program share is changed in both, unless the
program may have it from elsewhere, such as the 100 of a per cent or the 2 of a half. Programs are read as straight-line
arithmetic (`arithmetic`); every intermediate value keeps its sign and integrality. An example stays unchanged if a
number of its program may have been computed mentally from a number that would change, or in any other doubt.
"""

import ast
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from dbtm.tasks.gsm8k.arithmetic import CANNOT, Line, Swap, computed, literals, straight_lines
from dbtm.tasks.gsm8k.data import Example

KNOWN = frozenset({7, 10, 12, 16, 24, 30, 31, 36, 52, 60, 90, 100, 180, 360, 365, 1000, 3600, 5280})
"""Numbers that programs may use without the question: days, months, hours, ounces, degrees, feet."""
PARTNERS = frozenset({1, 2, 100})
"""Operands of mental arithmetic, in the question or not: one more, twice, half, the rest of a hundred per cent."""
NUMBER = re.compile(r"(?<![\w.:/])(?<!\d,)[1-9]\d*(?!\w|[.,:/]\d)")  # not part of a name, of 1.5, 5,000, 7:45 or 2/3
_IN_NAMES = re.compile(r"_(\d+)(?=_|\b)")  # laps_in_25_minutes
_SPELLED = re.compile(r"\d[\d,]*(?:\.\d+)?")
_WORDS = (
    "one once",
    "two twice double half pair couple both second",
    "three thrice triple third",
    "four quarter fourth",
    "five fifth",
    "six sixth",
    "seven seventh week",
    "eight eighth",
    "nine ninth",
    "ten tenth",
    "eleven",
    "twelve dozen",
)
_VALUES = {word: float(value) for value, words in enumerate(_WORDS, start=1) for word in words.split()}
_TRIES = 32  # draws per copy: not every draw keeps order, signs and integrality


def copies(example: Example, n: int, seed: int = 0) -> Iterator[Example]:
    """Up to n examples that differ from this one and from each other only in their numbers."""
    try:
        lines = straight_lines(example.code)
        before = computed(lines, {})
        free, order = _free(example, lines, before)
    except CANNOT:
        return
    draw, seen = random.Random(seed).random, {tuple(free)}
    for _ in range(n * _TRIES if free else 0):
        swap = {x: _like(x, draw) for x in free}
        new = tuple(swap.values())
        if new not in seen and _ascending([swap.get(x, x) for x in order]) and _alike(lines, swap, before):
            seen.add(new)
            yield Example(_swapped(example.question, swap), _swapped(example.code, swap), None)
        if len(seen) > n:
            return


def _free(example: Example, lines: list[Line], values: list[float]) -> tuple[list[int], list[int]]:
    """The numbers that may change, and those whose order must be kept, both ascending."""
    asked, used = _numbers(example.question), _numbers(example.code)
    said, written = _said(example.question), Counter(literals(*(line.expression for line in lines)))
    if _coincide(values[:-1], said) or not all(_is_told(line.expression, said) for line in lines):
        return [], []
    named = {int(digits) for digits in _IN_NAMES.findall(example.code)}
    shared = (asked.keys() & used.keys()) - KNOWN - named
    free = sorted(x for x in shared if _is_free(x, asked, used, said, written))
    if _worked_out(lines, values, said, free):
        return [], []
    return free, sorted(asked.keys() | set(free))


# -- the program -------------------------------------------------------------------------------------------------------


def _alike(lines: list[Line], swap: Swap, before: list[float]) -> bool:
    """True if every intermediate value keeps its sign and integrality, and no new number is in KNOWN."""
    try:
        return not KNOWN.intersection(swap.values()) and list(map(_kind, computed(lines, swap))) == list(
            map(_kind, before)
        )
    except CANNOT:
        return False


def _is_told(expression: ast.expr, said: Counter[float]) -> bool:
    """True if all its numbers are small, in the question or in KNOWN; a single literal must be in the question."""
    if isinstance(expression, ast.Constant):
        return expression.value in said
    return all(x <= 12 or x in said or x in KNOWN for x in literals(expression))


def _worked_out(lines: list[Line], values: list[float], said: Counter[float], free: list[int]) -> bool:
    """Whether a literal outside the question may come from a number that will change, or from an earlier value.

    It may if it equals one, or is the result of one operation on one of them and another, a number of the question or
    a PARTNER: in "18 km, twice as far as Ann", the 9 of `9 + 18` is 18 / 2.
    """
    changing: set[float] = set(free)
    results = iter(values)
    for line in lines:
        untold = {x for x in literals(line.expression) if x not in said}
        if untold and not untold.isdisjoint(_within_reach(changing, changing | said.keys() | PARTNERS)):
            return True
        if line.computes:
            changing.add(next(results))
    return False


def _within_reach(numbers: Iterable[float], partners: Iterable[float]) -> Iterator[float]:
    """The numbers, and the results of one operation on each with another partner."""
    for a in numbers:
        yield a
        for b in partners:
            if a != b:
                yield from (a + b, a - b, b - a, a * b)
                if a and b:
                    yield from (a / b, b / a)


def _kind(value: float) -> tuple[int, bool]:
    """Sign, and whether it is whole."""
    return (value > 0) - (value < 0), float(value).is_integer()


def _coincide(values: list[float], said: Counter[float]) -> bool:
    """Whether an intermediate value equals another number: the program may then mean either."""
    return len(set(values)) < len(values) or any(value in said for value in values)


# -- the numbers -------------------------------------------------------------------------------------------------------


def _numbers(text: str) -> Counter[int]:
    """The numbers that may be swapped, and how often each occurs."""
    return Counter(int(number) for number in NUMBER.findall(text))


def _said(question: str) -> Counter[float]:
    """All numbers of a question, in digits of any spelling and in words."""
    digits = [float(number.replace(",", "")) for number in _SPELLED.findall(question)]
    words = re.findall(r"[a-z]+", question.lower())
    return Counter(digits + [_VALUES[word] for word in (w.removesuffix("s") for w in words) if word in _VALUES])


def _is_free(x: int, asked: Counter[int], used: Counter[int], said: Counter[float], written: Counter[float]) -> bool:
    """Whether the program has a number only from the question; a single digit must occur once in each."""
    if not 3 <= x < 10**15 or (x < 10 and max(asked[x], used[x]) > 1):
        return False
    if said[x] != asked[x] or written[x] != used[x]:
        return False  # it also occurs in another spelling
    return not any(hundredth in written for hundredth in (x / 100, 1 + x / 100, 1 - x / 100))


def _like(x: int, draw: Callable[[], float]) -> int:
    """Another number with as many digits and the same trailing zeros."""
    zeros = 1
    while x % (10 * zeros) == 0:
        zeros *= 10
    core = x // zeros
    least = 3 if x < 10 else 10 ** (len(str(core)) - 1)
    return (least + int(draw() * (10 ** len(str(core)) - least))) * zeros


def _ascending(values: list[int]) -> bool:
    return all(a < b for a, b in pairwise(values))


def _swapped(text: str, swap: Swap) -> str:
    return NUMBER.sub(lambda match: str(swap.get(int(match[0]), int(match[0]))), text)
