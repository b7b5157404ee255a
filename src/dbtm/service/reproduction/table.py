"""A table of the paper, or of ours: rows and columns by name, to compare both."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Value = float | str | list[float | None] | None
"""A number, words, or [perplexity, entropy]; None for no value."""
Rows = dict[str, dict[str, Value]]


@dataclass(frozen=True)
class Table:
    """Values by row and column."""

    rows: Rows
    columns: tuple[str, ...]
    unit: str = ""

    @classmethod
    def of(cls, rows: Mapping[str, Mapping[str, Value]], unit: str = "") -> "Table":
        """A table whose columns are those of its rows, in order of appearance."""
        columns = dict.fromkeys(column for cells in rows.values() for column in cells)
        return cls({row: dict(cells) for row, cells in rows.items()}, tuple(columns), unit)

    def get(self, row: str, column: str) -> Value:
        return self.rows.get(row, {}).get(column)

    def count(self) -> int:
        """Number of values."""
        return sum(value is not None for cells in self.rows.values() for value in cells.values())


@dataclass(frozen=True)
class Comparison:
    """Our table beside the paper's: the rows of both, the paper's first."""

    label: str
    scale: str
    ours: Table
    paper: Table
    differs: str = ""
    """How our setting differs from the paper's, in a sentence."""
    standing: Table | None = None
    """Our numbers in results/, measured earlier."""
    standing_of: str = ""
    """What those numbers are measured on, in a few words."""
    sources: tuple[str, ...] = ()
    """The files of `standing`."""
    notes: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    """Samples to show, by a title."""

    def columns(self) -> list[str]:
        tables = [self.paper, self.ours, *([self.standing] if self.standing else [])]
        return list(dict.fromkeys(column for table in tables for column in table.columns))

    def row_names(self) -> list[str]:
        tables = [self.paper, self.ours, *([self.standing] if self.standing else [])]
        return list(dict.fromkeys(row for table in tables for row in table.rows))

    def lines(self) -> Iterator[tuple[str, str, list[Value]]]:
        """(row, source, values by column): per row ours, ours in results/, and the paper's, if present."""
        columns = self.columns()
        stands = f"ours, results/ ({self.standing_of})" if self.standing_of else "ours, results/"
        sides = [(f"ours, {self.scale}", self.ours), (stands, self.standing), ("paper", self.paper)]
        for row in self.row_names():
            for whose, table in sides:
                values = [] if table is None else [table.get(row, column) for column in columns]
                if any(value is not None for value in values):
                    yield row, whose, values

    def document(self) -> dict[str, Any]:
        """The JSON, without values that differ between runs of the same command."""
        return {
            "label": self.label,
            "scale": self.scale,
            "differs": self.differs,
            "unit": self.paper.unit or self.ours.unit,
            "columns": self.columns(),
            "rows": [
                {"row": row, "of": whose, "values": dict(zip(self.columns(), values, strict=True))}
                for row, whose, values in self.lines()
            ],
            "results": list(self.sources),
            "notes": list(self.notes),
            "texts": dict(self.texts),
        }


def shown(value: Value) -> str:
    """A value as it is printed: 85.5 (3.92) for a perplexity with its entropy, a dash for no value."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        perplexity, entropy = value
        return f"{'-' if perplexity is None else _number(perplexity)} ({'-' if entropy is None else f'{entropy:.2f}'})"
    return _number(value)


def _number(value: float) -> str:
    if value == int(value):
        return f"{value:.0f}"
    if abs(value) < 0.01:
        return f"{value:.3g}"
    digits = 4 if abs(value) < 10 else 2 if abs(value) < 1000 else 1
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [list(columns), ["---"] * len(columns), *map(list, rows)]
    clean = [[cell.replace("|", "/").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in clean)
