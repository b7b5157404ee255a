"""The outcome of a program."""

import math
import re
from dataclasses import dataclass

KINDS = (
    "parse",  # not a Python program
    "refused",  # uses something outside the allow-list
    "missing",  # defines no function
    "crash",  # raised an exception, or was killed by a signal
    "timeout",  # took too much time
    "memory",  # needed too much memory
    "output",  # printed too much
    "type",  # returned neither a number nor text
    "nonfinite",  # returned NaN, an infinity, or an integer too large for a double
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
    """The error, in words."""
    output: str = ""
    """What the program printed."""


def read_report(kind: str, text: str, output: str) -> Outcome:
    """The outcome of a report. Numbers are parsed from digits: nothing from a program is evaluated, and no report
    raises an exception.
    """
    if kind in ("int", "float") and (_INT if kind == "int" else _FLOAT).fullmatch(text):
        if not math.isfinite(float(text)):  # the child sends no such number: the report is forged
            return Outcome("nonfinite", detail="a number too large for a double", output=output)
        return Outcome("value", int(text) if kind == "int" else float(text), output=output)
    if kind == "str" and len(text) <= MOST_TEXT:
        return Outcome("value", text, output=output)
    if kind in KINDS and len(text) <= MOST_TEXT:
        return Outcome(kind, detail=text, output=output)
    return Outcome("crash", detail="the report cannot be read", output=output)
