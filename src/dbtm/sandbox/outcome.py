"""What came of a program."""

import math
import re
from dataclasses import dataclass

KINDS = (
    "parse",  # not a Python program
    "refused",  # uses something that the allow-list does not name
    "missing",  # defines no function
    "crash",  # raised an exception, or was ended by a signal
    "timeout",  # took too much time
    "memory",  # wanted too much memory
    "output",  # printed too much
    "type",  # returned something that is not a number
    "nonfinite",  # returned NaN, an infinity, or an integer beyond every double
)
"""Kinds of failure: why a program has no value."""

MOST_TEXT = 400  # characters of a report: the child sends 200 at most
_INT = re.compile(r"-?\d{1,400}", re.ASCII)
_FLOAT = re.compile(r"-?\d{1,20}(\.\d{1,20})?(e[-+]?\d{1,3})?", re.ASCII)


@dataclass(frozen=True)
class Outcome:
    """The value that a program returned, or the kind of its failure."""

    kind: str
    """`value`, or one of KINDS."""
    value: int | float | str | None = None
    detail: str = ""
    """What went wrong, in words."""
    output: str = ""
    """What the program printed."""


def read_report(kind: str, text: str, output: str) -> Outcome:
    """The outcome of a report. Numbers are read by their digits: nothing that a program says is ever evaluated, and
    whatever stands in a report, this raises nothing.
    """
    if kind in ("int", "float") and (_INT if kind == "int" else _FLOAT).fullmatch(text):
        if not math.isfinite(float(text)):  # the child sends no such number: someone else wrote this report
            return Outcome("nonfinite", detail="a number beyond every double", output=output)
        return Outcome("value", int(text) if kind == "int" else float(text), output=output)
    if kind == "str" and len(text) <= MOST_TEXT:
        return Outcome("value", text, output=output)
    if kind in KINDS and len(text) <= MOST_TEXT:
        return Outcome(kind, detail=text, output=output)
    return Outcome("crash", detail="the report cannot be read", output=output)
