"""The paper's numbers, and ours in results/: inside an installed package, or beside it in a checkout."""

import json
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from dbtm.core.errors import UsageError
from dbtm.service.reproduction.table import Table


@lru_cache(maxsize=1)
def folder() -> Path:
    """The folder of the JSON files of results/."""
    package = Path(str(files("dbtm")))
    places = (package / "results", package.parents[1] / "results")
    for place in places:
        if (place / "paper.json").is_file():
            return place
    raise UsageError(f"the paper's numbers are missing: there is no paper.json in {' or '.join(map(str, places))}")


@lru_cache(maxsize=32)
def read(name: str) -> Any:
    """results/NAME.json."""
    return json.loads((folder() / f"{name}.json").read_text(encoding="utf-8"))


def there(name: str) -> bool:
    return (folder() / f"{name}.json").is_file()


def ran_small(label: str) -> dict[str, Any] | None:
    """The recorded output of an entry's command at the small scale, and its CPU time."""
    return read("reproduce-small")["entries"].get(label) if there("reproduce-small") else None


def papers_table(label: str) -> Table:
    """The numbers that the paper prints under a label; a figure may show those of a table."""
    entry = read("paper")["tables"][label]
    columns = entry["columns"]
    rows = {row: dict(zip(columns, values, strict=True)) for row, values in entry["rows"].items()}
    own = Table(rows, tuple(columns), entry.get("unit", ""))
    if "same" not in entry:
        return own
    shared = papers_table(entry["same"])
    return Table({**own.rows, **shared.rows}, (*own.columns, *shared.columns), shared.unit)
