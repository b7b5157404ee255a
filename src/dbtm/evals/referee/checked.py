"""Validated reading of a comparison's files, which may come from another machine or a damaged disk."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_COUNT
from dbtm.core.numbers import is_number, is_whole

MOST_JSON = 64 << 20  # bytes
COSTS = ("used", "flops_per_sample", "seconds_per_sample")
MORE = ("entropy", "matched_perplexity", "floor")
TRAINING = ("flops", "seconds", "steps", "sequences", "parameters", "peak_memory")


def read(path: Path) -> Any:
    """A JSON file of bounded size."""
    try:
        if path.stat().st_size > MOST_JSON:
            raise UsageError(f"{path} is damaged: it has more than {MOST_JSON >> 20} MiB")
        found = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(found, allow_nan=False)  # Python reads NaN and infinities, but the report cannot contain them
        return found
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is damaged: it is not JSON") from None


def read_object(path: Path) -> dict[str, Any]:
    found = read(path)
    if not isinstance(found, dict):
        raise UsageError(f"{path} is damaged: it is not a JSON object")
    return found


def read_row(path: Path) -> dict[str, Any]:
    """The row of a budget."""
    row = read_object(path)
    if path.stem != "all" and not (path.stem.isascii() and path.stem.isdecimal() and len(path.stem) < 10):
        raise UsageError(f"{path} is not a row of a comparison: rows are named by their network evaluations")
    _numbers(path, row, ("value", "value_low", "value_high", *COSTS, *MORE))
    if "value" not in row:
        raise UsageError(f"{path} is damaged: it has no value")
    for name in COSTS:
        if not (row.get(name) or 0) > 0:
            raise UsageError(f"{path} is damaged: {name} must be positive")
    if not is_whole(row.get("n"), 1, MOST_COUNT):
        raise UsageError(f"{path} is damaged: n must be a whole number of at least 1")
    return row


def read_training(path: Path) -> dict[str, Any]:
    """The cost of a run."""
    found = read_object(path)
    _numbers(path, found, TRAINING)
    for name in ("hardware", "commit"):
        if not isinstance(found.get(name), str | None):
            raise UsageError(f"{path} is damaged: {name} must be a text")
    return found


def read_failure(path: Path) -> dict[str, Any]:
    """The reason why a run failed."""
    found = read_object(path)
    if not isinstance(found.get("reason"), str):
        raise UsageError(f"{path} is damaged: it has no reason")
    return found


def _numbers(path: Path, found: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        if found.get(name) is not None and not (is_number(found[name]) and abs(found[name]) < 1e100):
            raise UsageError(f"{path} is damaged: {name} must be a number")
