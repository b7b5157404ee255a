"""Reads folders of `dbtm referee`: tables of the measurements."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dbtm.checkpoint.folder import read_document
from dbtm.core.errors import UsageError
from dbtm.core.numbers import is_number
from dbtm.service.finding import find_folders

DOCUMENT = "referee.json"
MOST_FOLDERS, MOST_ROWS = 100, 5000
_NUMBERS = (
    "value", "low", "high", "n", "seeds", "used", "flops_per_sample", "seconds_per_sample", "entropy",
    "matched_perplexity",
)  # fmt: skip
_TRAINING = ("flops", "seconds", "steps", "parameters", "peak_memory")


def find_comparisons(places: Iterable[Path]) -> dict[str, Path]:
    """{name: folder} of the comparisons under some folders, or of the folders themselves."""
    return find_folders(places, lambda folder: (folder / DOCUMENT).is_file(), MOST_FOLDERS)


def read_comparison(folder: Path) -> dict[str, Any]:
    """The task, its metric, and one row per entry and budget; a file that is not a comparison is refused."""
    document = read_document(folder / DOCUMENT)
    try:
        metric = _of(document, "metric", dict)
        entries = [_entry(entry) for entry in _of(document, "entries", list)]
        settings = _of(document, "settings", dict)
        return {
            "task": str(_of(document, "task", str))[:80],
            "metric": {
                "title": str(metric["title"])[:200],
                "lower_is_better": bool(metric["lower_is_better"]),
                "share": bool(metric.get("share")),
            },
            "intervals": str(document.get("intervals", ""))[:1000],
            "budget": {key: _number(value) for key, value in _of(settings, "budget", dict).items()},
            "samples": _number(settings.get("n")),
            "hardware": [str(name)[:200] for name in _of(document, "hardware", list)[:8]],
            "commit": [str(name)[:80] for name in _of(document, "commit", list)[:8]],
            "entries": [entry for entry, _ in entries],
            "rows": [row for _, rows in entries for row in rows][:MOST_ROWS],
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{DOCUMENT} is damaged or of another version: {type(error).__name__}") from None


def _entry(entry: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """An entry, and its row per budget of network evaluations; `nfe` is null for a method without a budget."""
    names = {key: str(_of(entry, key, str))[:200] for key in ("label", "method", "about", "status")}
    training = {key: _number(_of(entry, "training", dict).get(key)) for key in _TRAINING}
    reasons = [str(reason)[:300] for reason in _of(entry, "reasons", list)[:8]]
    rows = [
        {
            "label": names["label"],
            "method": names["method"],
            "nfe": int(budget) if budget.isdecimal() else None,
            **{key: _number(found.get(key)) for key in _NUMBERS},
        }
        for budget, found in _of(entry, "budgets", dict).items()
    ]
    return {**names, "reasons": reasons, "training": training}, rows


def _of(document: Mapping[str, Any], key: str, kind: type) -> Any:
    value = document[key]
    if not isinstance(value, kind):
        raise TypeError(key)
    return value


def _number(value: Any) -> float | int | None:
    """A finite number, or None."""
    return value if is_number(value) else None
