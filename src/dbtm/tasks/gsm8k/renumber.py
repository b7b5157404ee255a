"""Examples with other numbers: the same story and the same program, so that numbers are learned as things to copy.

A few thousand examples are soon known by heart. A number that question and program share is changed in both at once,
and only where nothing says that the program has it from elsewhere, as the 100 of a per cent or the 2 of a half.
Programs are read as straight lines of arithmetic (`arithmetic`); every value on the way keeps its sign, and stays whole
if it was. An example is left as it is where a number of its program may have been worked out in the head, from one that
would change; so is whatever else is in doubt.
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
"""What programs know without being told: days, months, hours, ounces, degrees, feet."""
PARTNERS = frozenset({1, 2, 100})
"""What numbers are taken with in the head, told or not: one more, twice, half, the rest of a hundred per cent."""
NUMBER = re.compile(r"(?<![\w.:/])(?<!\d,)[1-9]\d*(?!\w|[.,:/]\d)")  # no part of a name, of 1.5, 5,000, 7:45 or 2/3
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
_TRIES = 32  # draws for a copy: not every one keeps order, signs and whole numbers


def copies(example: Example, n: int, seed: int = 0) -> Iterator[Example]:
    """Up to n examples that differ from this one and from each other in their numbers, and in nothing else."""
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
    """The numbers that may be changed, and with them those whose order they have to keep, both ascending."""
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
    """Whether other numbers leave every value on the way of its kind, and none is one that programs know."""
    try:
        return not KNOWN.intersection(swap.values()) and list(map(_kind, computed(lines, swap))) == list(
            map(_kind, before)
        )
    except CANNOT:
        return False


def _is_told(expression: ast.expr, said: Counter[float]) -> bool:
    """Whether it has no number but small, told and known ones; a literal alone has to be in the question."""
    if isinstance(expression, ast.Constant):
        return expression.value in said
    return all(x <= 12 or x in said or x in KNOWN for x in literals(expression))


def _worked_out(lines: list[Line], values: list[float], said: Counter[float], free: list[int]) -> bool:
    """Whether a literal that is not told may come from a number that is to change, or from a value computed before.

    It may where it is that value, or one operation makes it of the two, of one and a number of the question, or of one
    and a PARTNER: in "18 km, twice as far as Ann", the 9 of `9 + 18` is 18 / 2.
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
    """The numbers, and what one operation makes of each and any other partner."""
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
    """Whether a value on the way could be another number: a program may then have taken either for the other."""
    return len(set(values)) < len(values) or any(value in said for value in values)


# -- the numbers -------------------------------------------------------------------------------------------------------


def _numbers(text: str) -> Counter[int]:
    """The numbers that may be swapped, and how often each stands there."""
    return Counter(int(number) for number in NUMBER.findall(text))


def _said(question: str) -> Counter[float]:
    """All numbers of a question, in digits of any spelling and in words."""
    digits = [float(number.replace(",", "")) for number in _SPELLED.findall(question)]
    words = re.findall(r"[a-z]+", question.lower())
    return Counter(digits + [_VALUES[word] for word in (w.removesuffix("s") for w in words) if word in _VALUES])


def _is_free(x: int, asked: Counter[int], used: Counter[int], said: Counter[float], written: Counter[float]) -> bool:
    """Whether the program has a number from the question alone; a single digit only where each has it once."""
    if not 3 <= x < 10**15 or (x < 10 and max(asked[x], used[x]) > 1):
        return False
    if said[x] != asked[x] or written[x] != used[x]:
        return False  # it stands there in another spelling as well
    return not any(hundredth in written for hundredth in (x / 100, 1 + x / 100, 1 - x / 100))


def _like(x: int, draw: Callable[[], float]) -> int:
    """Another number of as many digits; zeros at its end stay."""
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
