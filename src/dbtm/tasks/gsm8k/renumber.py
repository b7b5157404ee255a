"""Examples with other numbers: the same story and the same program, so that numbers are learned as things to copy.

A few thousand examples are soon known by heart. A number that question and program share is changed in both at once,
and only where nothing says that the program has it from elsewhere, as the 100 of a per cent or the 2 of a half.
Programs are read as straight lines of arithmetic (nothing is executed); every value on the way keeps its sign, and
stays whole if it was. Whatever is in doubt is left as it is.
"""

import ast
import operator
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from dbtm.tasks.gsm8k.data import Example

KNOWN = frozenset({7, 10, 12, 16, 24, 30, 31, 36, 52, 60, 90, 100, 180, 360, 365, 1000, 3600, 5280})
"""What programs know without being told: days, months, hours, ounces, degrees, feet."""
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
_OPERATIONS: dict[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable] = {"int": int, "float": float, "round": round, "abs": abs}
_CANNOT = (SyntaxError, ValueError, KeyError, TypeError, ArithmeticError, RecursionError, MemoryError)

Swap = Mapping[int, int]


class Line(NamedTuple):
    """`name = expression`; what is returned has no name."""

    name: str
    expression: ast.expr


def copies(example: Example, n: int, seed: int = 0) -> Iterator[Example]:
    """Up to n examples that differ from this one and from each other in their numbers, and in nothing else."""
    try:
        lines = straight_lines(example.code)
        before = computed(lines, {})
    except _CANNOT:
        return
    free, order = _free(example, lines, before)
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
    said, literals = _said(example.question), Counter(_literals(*(line.expression for line in lines)))
    if _coincide(values[:-1], said) or not all(_is_told(line.expression, said) for line in lines):
        return [], []
    named = {int(digits) for digits in _IN_NAMES.findall(example.code)}
    shared = (asked.keys() & used.keys()) - KNOWN - named
    free = sorted(x for x in shared if _is_free(x, asked, used, said, literals))
    return free, sorted(asked.keys() | set(free))


# -- the program -------------------------------------------------------------------------------------------------------


def straight_lines(code: str) -> list[Line]:
    """The lines of a function that assigns and returns, and nothing else; ValueError for any other program."""
    match ast.parse(code).body:
        case [ast.FunctionDef(body=body)]:
            return [_line(statement) for statement in body]
    raise ValueError("not a single function")


def _line(statement: ast.stmt) -> Line:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=expression):
            return Line(name, expression)
        case ast.Return(value=ast.expr() as expression):
            return Line("", expression)
    raise ValueError("neither an assignment nor a return")


def computed(lines: list[Line], swap: Swap) -> list[float]:
    """What the lines compute, in their order, with some literals swapped; names and literals alone compute nothing."""
    known: dict[str, float] = {}
    found = []
    for name, expression in lines:
        known[name] = _value(expression, known, swap)
        if not isinstance(expression, ast.Name | ast.Constant):
            found.append(known[name])
    return found


def _value(node: ast.expr, known: dict[str, float], swap: Swap) -> float:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return swap.get(value, value) if isinstance(value, int) else value
        case ast.Name(id=name):
            return known[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, known, swap)
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATIONS[type(op)](_value(left, known, swap), _value(right, known, swap))
        case ast.Call(func=ast.Name(id=name), args=[only], keywords=[]):
            return _FUNCTIONS[name](_value(only, known, swap))
    raise ValueError("not arithmetic")


def _alike(lines: list[Line], swap: Swap, before: list[float]) -> bool:
    """Whether other numbers leave every value on the way of its kind, and none is one that programs know."""
    try:
        return not KNOWN.intersection(swap.values()) and list(map(_kind, computed(lines, swap))) == list(
            map(_kind, before)
        )
    except _CANNOT:
        return False


def _literals(*expressions: ast.expr) -> list[float]:
    nodes = (node for expression in expressions for node in ast.walk(expression))
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, int | float)]


def _is_told(expression: ast.expr, said: Counter[float]) -> bool:
    """Whether nothing in it may have been worked out in the head; a literal alone has to be in the question."""
    if isinstance(expression, ast.Constant):
        return expression.value in said
    return all(x <= 12 or x in said or x in KNOWN for x in _literals(expression))


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


def _is_free(x: int, asked: Counter[int], used: Counter[int], said: Counter[float], literals: Counter[float]) -> bool:
    """Whether the program has a number from the question alone; a single digit only where each has it once."""
    if x < 3 or (x < 10 and max(asked[x], used[x]) > 1):
        return False
    if said[x] != asked[x] or literals[x] != used[x]:
        return False  # it stands there in another spelling as well
    return not any(hundredth in literals for hundredth in (x / 100, 1 + x / 100, 1 - x / 100))


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
    return NUMBER.sub(lambda found: str(swap.get(int(found[0]), int(found[0]))), text)
