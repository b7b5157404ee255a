"""The folder of a sweep, which has all of its state: stop the sweep at any time and resume it, here or elsewhere.

    DIR/
      plan.json       checkpoint, number of samples, seed, and the cells of every study with their settings
      samples.jsonl   the sets drawn so far (`samples`)
      rows.jsonl      the numbers of the sets judged so far, with their judge
      sweep.json      the outcome: rows, frontier, perplexity at matched entropy, the studies' tables
      frontier.png, frontier.svg

Drawing needs the checkpoint and is fast only on a GPU; judging needs only this folder and the judge.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dbtm.core import atomic
from dbtm.core.errors import UsageError
from dbtm.core.numbers import is_number
from dbtm.evals.samples import KINDS, SampleSet, from_record, key
from dbtm.evals.sweep import journal

_SAME_JUDGE = ("name", "dtype", "sha256", "revision")
_SAME = ("sha256", "seed")  # of the origin: equal for all sets of a folder
MOST_ENTROPY = 100.0  # nats: that of e^100 tokens
NUMBERS = ("perplexity", "perplexity_low", "perplexity_high", "entropy", "entropy_low", "entropy_high", "n")
"""Numbers of a row; null if missing."""


def identity(kind: str, settings: dict[str, Any]) -> str:
    """The identity of a set of samples."""
    return f"{kind} {key(settings)}"


def same_judge(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether numbers are comparable: same weights, name and arithmetic."""
    return all(one.get(name) == other.get(name) for name in _SAME_JUDGE)


@dataclass(frozen=True)
class Planned:
    """A cell of a study with its settings resolved."""

    study: str
    row: str
    column: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """The plan of a sweep."""

    origin: dict[str, Any]
    n: int
    cells: tuple[Planned, ...] = ()

    def extended(self, cells: Iterable[Planned]) -> "Plan":
        """The plan with further cells, each once; a repeated study replaces the old one."""
        new = tuple({(c.study, c.row, c.column, key(c.settings)): c for c in cells}.values())
        studies = {cell.study for cell in new}
        return replace(self, cells=(*(cell for cell in self.cells if cell.study not in studies), *new))

    def settings(self) -> list[dict[str, Any]]:
        """All settings to draw, each once."""
        return list({key(cell.settings): cell.settings for cell in self.cells}.values())


class SweepFolder:
    """A sweep on disk."""

    def __init__(self, path: Path):
        self.path = path
        self.samples, self.rows = path / "samples.jsonl", path / "rows.jsonl"

    @property
    def plan(self) -> Plan | None:
        path = self.path / "plan.json"
        if not path.is_file():
            return None
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            cells = tuple(Planned(**cell) for cell in values["cells"])
            return Plan(dict(values["origin"]), int(values["n"]), cells)
        except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            raise UsageError(f"{path} is damaged: {type(error).__name__} {error}") from None

    def extend(self, origin: dict[str, Any], n: int, cells: Iterable[Planned]) -> Plan:
        """Add cells to the plan, or begin one; another checkpoint, seed or number of samples is refused."""
        old = self.plan
        if old is not None:
            for name in _SAME:
                if old.origin.get(name) != origin.get(name):
                    what = "checkpoint" if name == "sha256" else name
                    raise UsageError(f"{self.path} has a sweep of another {what}: choose another folder")
            if old.n != n:
                raise UsageError(
                    f"{self.path} has a sweep of {old.n} samples per setting: use as many (n={old.n}), or choose "
                    "another folder"
                )
        plan = (old or Plan(origin, n)).extended(cells)
        values = {"origin": plan.origin, "n": plan.n, "cells": [vars(cell) for cell in plan.cells]}
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot create the folder {self.path}: {error.strerror}") from None
        atomic.write_bytes(self.path / "plan.json", (json.dumps(values, indent=1) + "\n").encode())
        return plan

    def drawn(self) -> set[str]:
        """Identities of the drawn sets."""
        return {identity(each.kind, each.settings) for each in self.sets()}

    def sets(self) -> Iterator[SampleSet]:
        if self.samples.is_file():
            for number, record in journal.read_records(self.samples, cut_short=True):
                yield from_record(record, f"{self.samples}, line {number}")

    def real_text(self) -> dict[str, Any] | None:
        """Origin of the reference text; None if there is none."""
        return next((each.origin for each in self.sets() if each.kind == "real"), None)

    def refuse_other_text(self, origin: dict[str, Any]) -> None:
        """Refuse another reference text than the folder's."""
        there = self.real_text()
        if there is not None and there.get("sha256") != origin.get("sha256"):
            raise UsageError(
                f"{self.path} compares with other real text, {there.get('data', 'not described')}: choose another "
                "folder, give that text, or leave real text out"
            )

    def add_samples(self, samples: SampleSet) -> None:
        journal.append_record(self.samples, samples.record())

    def judged(self, judge: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Identity -> the row of numbers by this judge, given by its description."""
        rows = [row for row in self._all_rows() if same_judge(row["judged_by"], judge)]
        return {identity(row["kind"], row["settings"]): row for row in rows}

    def judges(self) -> list[dict[str, Any]]:
        """The judges of the rows, in order of appearance."""
        judges: list[dict[str, Any]] = []
        for row in self._all_rows():
            if not any(same_judge(row["judged_by"], judge) for judge in judges):
                judges.append(row["judged_by"])
        return judges

    def _all_rows(self) -> Iterator[dict[str, Any]]:
        if self.rows.is_file():
            for number, row in journal.read_records(self.rows, cut_short=True):
                row = {"judged_by": {"name": row.get("judge")}, **row}  # old rows have only the name
                _check_row(row, f"{self.rows}, line {number}")
                yield row

    def add_row(self, row: dict[str, Any], judge: dict[str, Any]) -> None:
        journal.append_record(self.rows, {**row, "judged_by": judge})


def _check_row(row: dict[str, Any], where: str) -> None:
    """Refuse a row that is not from `add_row`."""
    wrong = [name for name in NUMBERS if not (row.get(name, "") is None or is_number(row.get(name)))]
    wrong += [] if wrong or 0 <= (row["entropy"] or 0) <= MOST_ENTROPY else ["entropy"]
    wrong += [name for name in ("entropy", "n") if row.get(name, 0) is None]
    wrong += [name for name in ("settings", "judged_by") if not isinstance(row.get(name), dict)]
    wrong += [] if row.get("kind") in [*KINDS] else ["kind"]
    if not wrong and not isinstance(row["judged_by"].get("name"), str):
        wrong = ["judge"]
    if wrong:
        raise UsageError(f"{where} is damaged (see {', '.join(wrong)}): delete the line and judge again")
