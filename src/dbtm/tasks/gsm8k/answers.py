"""Answers of GSM8K: parsing of numbers with commas, currency signs, per cents and decimals, and their comparison."""

import math
import re

from dbtm.sandbox.outcome import Outcome

MARK = "####"  # stands before the answer in GSM8K's worked solutions
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+"
_NUMBER = re.compile(rf"([-+−]?)\s*+[$€£¥]?\s*+([-+−]?)\s*+({_DIGITS})\s*+(?:%|[$€£¥])?\s*+\.?", re.ASCII)
MOST_TEXT = 300  # characters; so many digits still fit a double


def number(text: str) -> float | None:
    """The value of a text that is a single number: `70,000`, `$1,234.50`, `-5`, `.5`, `20%`; else None."""
    text = text.strip()
    match = _NUMBER.fullmatch(text) if len(text) <= MOST_TEXT else None
    if match is None or (match[1] and match[2]):
        return None
    value = float(match[3].replace(",", ""))
    return -value if (match[1] or match[2]) in ("-", "−") else value


def gold(answer: object) -> float | None:
    """The number of a true answer: a number, or a text whose part after `####` (all of it, without the mark) is one."""
    if isinstance(answer, bool):
        return None
    if isinstance(answer, int | float):
        try:
            value = float(answer)
        except OverflowError:
            return None
        return value if math.isfinite(value) else None
    return number(answer.rpartition(MARK)[2]) if isinstance(answer, str) else None


def same(value: float, answer: float) -> bool:
    """Equal up to the rounding of a few operations on doubles; 33.33 is not a third of 100."""
    return math.isclose(value, answer, rel_tol=1e-9, abs_tol=1e-6)


def verdict(outcome: Outcome, answer: float) -> str:
    """`correct`, `wrong`, or the kind of failure. A program may return its number as text."""
    if outcome.kind != "value":
        return outcome.kind
    value = number(outcome.value) if isinstance(outcome.value, str) else outcome.value
    if value is None:
        return "type"
    return "correct" if same(value, answer) else "wrong"
