"""docs/paper-map.md stays true: every function and test it names exists."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "paper-map.md").read_text().splitlines()
    if line.startswith("| ") and "tests/" in line
]


def resolve(name: str):
    """The object a dotted name points at: module, then attributes."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            thing = getattr(thing, part)
        return thing
    raise AssertionError(f"{name} does not exist")


def test_the_page_has_rows():
    assert len(ROWS) > 50


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_row(row):
    text = " ".join(row)
    names = re.findall(r"`(dbtm\.[\w.]+)`", text)
    tests = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert tests, "a row names its test"
    for name in names:
        resolve(name)
    for path, function in tests:
        assert re.search(rf"^def {function}\b", (ROOT / path).read_text(), re.M), f"{path}::{function}"
