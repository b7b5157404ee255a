"""A step: a piece of work with its own folder, done once for all tables that need it.

A step is plain data. Its folder is named after a digest of that data, so that tables share equal runs, and
a killed command finds its finished work. `result.json` is written last: a folder that has it is done.
"""

import dataclasses
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbtm.core.atomic import write_bytes
from dbtm.core.errors import UsageError
from dbtm.service.progress import Progress

RESULT = "result.json"


@dataclass(frozen=True)
class Resources:
    """The user's data and judge."""

    data: Mapping[str, Path] = field(default_factory=dict)
    """Prepared sets and files by name: text, lm1b, owt, tinygsm, gsm8k."""
    judge: str | None = None
    """The judge of text; None: the plan's own. `none`: only entropy is measured."""
    device: str = "auto"

    def find(self, name: str) -> Path:
        if name not in self.data:
            raise UsageError(f"the data '{name}' is missing: give its path")
        return self.data[name]


@dataclass(frozen=True)
class Workspace:
    """The folder for the results, and the user's data and judge."""

    out: Path
    resources: Resources = field(default_factory=Resources)

    def folder(self, step: "Step") -> Path:
        return self.out / "steps" / f"{step.title(self.resources)}-{digest(step.identity(self.resources))[:10]}"

    def result(self, step: "Step") -> dict[str, Any] | None:
        """The result of a step; None if it is not done."""
        path = self.folder(step) / RESULT
        if not path.is_file():
            return None
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"{path} is damaged: delete it to do the step again ({error})") from None
        if not isinstance(found, dict):
            raise UsageError(f"{path} is damaged: delete it to do the step again")
        return found

    def finish(self, step: "Step", result: dict[str, Any]) -> None:
        text = json.dumps(result, indent=1, allow_nan=False) + "\n"
        write_bytes(self.folder(step) / RESULT, text.encode())


@dataclass(frozen=True, kw_only=True)
class Step(ABC):
    """One piece of work."""

    seconds: float = field(default=5.0, compare=False)
    """About how long it takes on two CPU cores; used only to estimate the time left."""

    def inputs(self) -> "Iterator[Step]":
        """The steps whose results it reads."""
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Step):
                yield value

    def identity(self, resources: Resources) -> dict[str, Any]:
        """All that its result depends on."""
        values: dict[str, Any] = {"step": type(self).__name__}
        for each in dataclasses.fields(self):
            if each.compare:
                value = getattr(self, each.name)
                values[each.name] = value.identity(resources) if isinstance(value, Step) else value
        return values

    @abstractmethod
    def title(self, resources: Resources) -> str:
        """A word or two: the start of its folder's name."""

    @abstractmethod
    def about(self) -> str:
        """What it does, for progress lines."""

    @abstractmethod
    def run(self, space: Workspace, progress: Progress) -> dict[str, Any]:
        """Do or resume it, and return the result as in the JSON."""


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def in_order(steps: Mapping[str, Step]) -> list[Step]:
    """All steps and their inputs, each once, inputs first."""
    found: dict[Step, None] = {}

    def visit(step: Step) -> None:
        for each in step.inputs():
            visit(each)
        found.setdefault(step)

    for step in steps.values():
        visit(step)
    return list(found)


def input_result(space: Workspace, step: Step) -> dict[str, Any]:
    """The result of a finished step."""
    found = space.result(step)
    assert found is not None, f"{step.about()} is not done"
    return found


Listener = Callable[[int, int], None]
