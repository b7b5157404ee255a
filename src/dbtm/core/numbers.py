"""Numbers in untrusted files: JSON allows integers of any size, and Python reads NaN and infinities."""

import sys
from typing import Any, TypeGuard

_MOST = sys.float_info.max


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a value is a number and finite as a float; True and False do not count."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_MOST <= value <= _MOST


def is_whole(value: Any, least: int, most: int) -> TypeGuard[int]:
    """Whether a value is an integer within bounds."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
