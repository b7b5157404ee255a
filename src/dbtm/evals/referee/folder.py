"""The folder of a comparison, which has all of its state.

    DIR/
      plan.json                    task, budget, samples, seeds, evaluations, and every entry's configuration
      runs/ENTRY-seed0/            one run: an entry and a seed
        run/                       its training: checkpoints, metrics.jsonl
        training.json              its cost
        rows/8.json                its samples at 8 network evaluations ("all.json": a method without a budget)
        trace.json                 the rounds of one sample
        failed.json                why it failed
        log.txt
      runs/teacher-METHOD-seed0/   a teacher, shared by the students of its kind
      referee.json, referee.md, quality-nfe.svg ..., referee.html

Files are written atomically, so that a killed run can resume. The process that works on a run locks it. Results of
other machines are merged by copying their runs.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dbtm.config import RunConfig, from_dict, to_dict
from dbtm.core import atomic
from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_COUNT, MOST_EVALUATIONS, MOST_SEED
from dbtm.core.numbers import is_number, is_whole
from dbtm.core.settings import changed_keys
from dbtm.evals.referee.budget import TEACHER_SHARE, Budget
from dbtm.evals.referee.checked import read, read_failure, read_object, read_row, read_training
from dbtm.tasks.base import Task

_LABEL = re.compile(r"[a-z0-9][a-z0-9+*.-]{0,39}")
_COPIED = ("training.json", "trace.json", "failed.json")
OWN_COUNT = "all"
"""Name of the row of a method without a budget."""


@dataclass(frozen=True)
class Entry:
    """One row of the comparison: a method with its settings."""

    label: str
    config: RunConfig
    about: str = ""
    teacher: RunConfig | None = None
    """The training of its teacher, if it needs one."""

    def __post_init__(self):
        if not _LABEL.fullmatch(self.label):
            raise UsageError(f"'{self.label}' cannot name a run: use small letters, digits, + * . and -")

    def document(self) -> dict[str, Any]:
        teacher = None if self.teacher is None else to_dict(self.teacher)
        return {"about": self.about, "config": to_dict(self.config), "teacher": teacher}


@dataclass(frozen=True)
class Plan:
    """The plan of a comparison."""

    task: str
    budget: Budget
    n: int
    seeds: tuple[int, ...]
    nfe: tuple[int, ...]
    entries: Mapping[str, Entry] = field(default_factory=dict)
    teacher_share: float = TEACHER_SHARE
    judge: str | None = None

    def jobs(self) -> list["Job"]:
        """All runs, seed by seed, so that early results compare all methods."""
        return [Job(label, seed) for seed in self.seeds for label in self.entries]

    def document(self) -> dict[str, Any]:
        names = ("task", "n", "teacher_share", "judge")
        return {
            **{name: getattr(self, name) for name in names},
            "budget": self.budget.document(),
            "seeds": list(self.seeds),
            "nfe": list(self.nfe),
            "entries": {label: entry.document() for label, entry in self.entries.items()},
        }

    def extended(self, other: "Plan", where: Path) -> "Plan":
        """The plan with the entries, seeds and evaluations of another one; incomparable plans are refused."""
        for name in ("task", "n", "teacher_share", "judge"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise UsageError(f"{where} compares with {name} {mine}, not {theirs}: choose another folder")
        if self.budget != other.budget:
            mine, theirs = ({k: v for k, v in b.document().items() if v} for b in (self.budget, other.budget))
            raise UsageError(f"{where} compares at {mine}, not at {theirs}: choose another folder")
        for label in self.entries.keys() & other.entries.keys():
            _refuse_change(self.entries[label], other.entries[label], where)
        return replace(
            self,
            seeds=tuple(sorted({*self.seeds, *other.seeds})),
            nfe=tuple(sorted({*self.nfe, *other.nfe})),
            entries={**self.entries, **{k: v for k, v in other.entries.items() if k not in self.entries}},
        )


def _refuse_change(old: Entry, new: Entry, where: Path) -> None:
    """Refuse changed settings of an entry; the path of its data may change."""
    one, two = old.document(), new.document()
    for values in (one["config"], two["config"], one["teacher"] or {}, two["teacher"] or {}):
        values.get("task", {}).pop("data", None)
    changed = changed_keys(one, two, old.label)
    if changed:
        raise UsageError(f"{where} has '{old.label}' with another {changed[0]}: choose another folder")


@dataclass(frozen=True)
class Job:
    """One run."""

    label: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.label}-seed{self.seed}"


def _checked(value: Any, right: bool) -> Any:
    """A value of a plan, checked."""
    if not right:
        raise ValueError(f"{str(value)[:40]!r} is not valid there")
    return value


class RefereeFolder:
    """A comparison on disk."""

    def __init__(self, path: Path):
        self.path = path

    # -- the plan ----------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> Plan | None:
        path = self.path / "plan.json"
        if not path.is_file():
            return None
        values = read(path)
        try:
            tasks: dict[Task, Task] = {}  # one shared task, which caches its puzzles

            def run(config: Any) -> RunConfig:
                found = from_dict(config)
                return found.on(tasks.setdefault(found.task, found.task))

            entries = {
                str(label): Entry(
                    str(label),
                    run(entry["config"]),
                    str(entry["about"]),
                    None if entry["teacher"] is None else run(entry["teacher"]),
                )
                for label, entry in values["entries"].items()
            }
            return Plan(
                task=_checked(values["task"], isinstance(values["task"], str)),
                budget=Budget(**values["budget"]),
                n=_checked(values["n"], is_whole(values["n"], 1, MOST_COUNT)),
                seeds=tuple(_checked(seed, is_whole(seed, 0, MOST_SEED)) for seed in values["seeds"]),
                nfe=tuple(_checked(nfe, is_whole(nfe, 1, MOST_EVALUATIONS)) for nfe in values["nfe"]),
                entries=entries,
                teacher_share=_checked(values["teacher_share"], is_number(values["teacher_share"])),
                judge=_checked(values["judge"], isinstance(values["judge"], str | None)),
            )
        except UsageError as error:
            raise UsageError(f"{path} cannot be read: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise UsageError(f"{path} is damaged: {type(error).__name__} {str(error)[:200]}") from None

    def extend(self, plan: Plan) -> Plan:
        """Begin a plan, or add to the existing one."""
        old = self.plan
        plan = plan if old is None else old.extended(plan, self.path)
        write(self.path / "plan.json", plan.document())
        return plan

    # -- runs --------------------------------------------------------------------------------------------------------

    def run(self, job: Job) -> Path:
        return self.path / "runs" / job.name

    def teacher(self, method: str, seed: int) -> Path:
        return self.path / "runs" / f"teacher-{method}-seed{seed}"

    def missing(self, job: Job, plan: Plan) -> list[int | None]:
        """The budgets of a trained run without a row yet; a method without a budget has one row."""
        there = self.rows(job)
        if OWN_COUNT in there:
            return []
        return [nfe for nfe in plan.nfe if str(nfe) not in there]

    def rows(self, job: Job) -> dict[str, dict[str, Any]]:
        """{name of the budget: row}."""
        paths = sorted((self.run(job) / "rows").glob("*.json"))
        return {path.stem: read_row(path) for path in paths if not path.name.startswith(".")}

    def training(self, job: Job) -> dict[str, Any] | None:
        return _if_there(self.run(job) / "training.json", read_training)

    def trace(self, job: Job) -> dict[str, Any] | None:
        return _if_there(self.run(job) / "trace.json", read_object)

    def failure(self, job: Job) -> dict[str, Any] | None:
        return _if_there(self.run(job) / "failed.json", read_failure)

    def done(self, job: Job, plan: Plan) -> bool:
        """Whether a run is finished: it has all its rows, or has failed."""
        if self.failure(job) is not None:
            return True
        return self.training(job) is not None and not self.missing(job, plan) and self.trace(job) is not None

    def forget_failures(self) -> None:
        """Forget failures, so that failed runs are retried."""
        for path in self.path.glob("runs/*/failed.json"):
            path.unlink(missing_ok=True)

    # -- other machines ----------------------------------------------------------------------------------------------

    def merge(self, others: Iterable[Path]) -> list[str]:
        """Import the numbers of other folders (not their checkpoints); returns the runs that already existed, of which
        this folder's are kept.
        """
        kept: list[str] = []
        for path in others:
            other = RefereeFolder(path)
            plan = other.plan
            if plan is None:
                raise UsageError(f"{path} is not a comparison: it has no plan.json")
            self.extend(plan)
            for job in plan.jobs():
                if not other.done(job, plan):
                    continue
                if self.training(job) is not None or self.failure(job) is not None:
                    kept.append(job.name)
                    continue
                self._copy(other.run(job), self.run(job))
        return kept

    def _copy(self, source: Path, target: Path) -> None:
        """Copy the rows first and the files that mark a run as done last."""
        for path in sorted((source / "rows").glob("*.json")):
            copy(path, target / "rows" / path.name)
        for name in _COPIED:
            if (source / name).is_file():
                copy(source / name, target / name)


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    shutil.copyfile(source, part)
    part.replace(target)


def write(path: Path, values: Any) -> None:
    """Write a JSON file atomically."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot create the folder {path.parent}: {error.strerror}") from None
    atomic.write_bytes(path, (json.dumps(values, indent=1, allow_nan=False) + "\n").encode())


def _if_there(path: Path, reader: Callable[[Path], dict[str, Any]]) -> dict[str, Any] | None:
    return reader(path) if path.is_file() else None
