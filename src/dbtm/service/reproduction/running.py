"""Runs the remaining steps of a table or figure, and writes the result."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbtm.core.atomic import write_bytes
from dbtm.core.device import pick_device
from dbtm.core.errors import UsageError
from dbtm.evals.provenance import made
from dbtm.service.progress import Cancelled, Progress
from dbtm.service.reproduction.entry import Entry, Found, Plan
from dbtm.service.reproduction.needs import missing
from dbtm.service.reproduction.registry import find
from dbtm.service.reproduction.results import papers_table
from dbtm.service.reproduction.steps.base import RESULT, Resources, Step, Workspace
from dbtm.service.reproduction.table import Comparison, Table, markdown, shown
from dbtm.viz.frontier import save_figure


@dataclass(frozen=True, kw_only=True)
class ReproductionRequest:
    """A table or figure at a scale."""

    name: str
    scale: str = "small"
    """small, paper, or trial: everything is done and nothing learned, for tests."""
    out: Path = Path("reproduce")
    resources: Resources = field(default_factory=Resources)


@dataclass(frozen=True)
class Reproduction:
    """The result."""

    entry: Entry
    plan: Plan
    comparison: Comparison
    files: tuple[Path, ...]


class Overall(Progress):
    """Progress of one step among several: reports its stages with the step's number and the time left."""

    def __init__(self, progress: Progress, steps: list[Step]):
        self.progress, self.steps = progress, steps
        self.done, self.started, self.spent = 0.0, time.monotonic(), 0.0
        self.number = 0

    def begin(self, number: int) -> None:
        self.number = number

    def finish(self, step: Step, worked: bool) -> None:
        self.done += step.seconds
        if worked:
            self.spent += step.seconds

    def left(self) -> str:
        """The time left, from the actual and the estimated time of the steps so far."""
        rest = sum(step.seconds for step in self.steps) - self.done
        took = time.monotonic() - self.started
        pace = took / self.spent if self.spent else 1.0
        minutes = rest * pace / 60
        return f"about {minutes:.0f} min left" if minutes >= 1.5 else "about a minute left"

    def stage(self, name: str, total: int | None = None) -> None:
        self.progress.stage(f"[{self.number}/{len(self.steps)}, {self.left()}] {name}", total)

    def advance(self, done: int, total: int | None = None) -> None:
        self.progress.advance(done, total)

    def note(self, text: str) -> None:
        self.progress.note(text)

    def cancelled(self) -> bool:
        return self.progress.cancelled()


def reproduce(request: ReproductionRequest, progress: Progress = Progress()) -> Reproduction:
    """Do the steps that are not done yet, compare with the paper's numbers, and write tables and figures."""
    entry = find(request.name)
    plan = entry.plan(request.scale)
    lacking = missing(plan, request.resources)
    if lacking:
        raise UsageError(f"{entry.label} at scale {request.scale} cannot be run here: {'; '.join(lacking)}")
    space = Workspace(request.out, request.resources)
    _make(request.out)
    _run(plan, space, progress)
    found = {name: _result(space, step) for name, step in plan.steps.items()}
    with _of_whole_results(space):
        comparison = compare(entry, plan, request.scale, found)
        files = tuple(_write(comparison, plan, found, space, request))
    return Reproduction(entry, plan, comparison, files)


@contextmanager
def _of_whole_results(space: Workspace) -> Iterator[None]:
    """Make the table, or refuse the results on disk if they are damaged in any way."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, StopIteration) as error:
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise UsageError(
            f"a {RESULT} below {space.out / 'steps'} is damaged ({reason}): delete it to do the step again"
        ) from error


def _run(plan: Plan, space: Workspace, progress: Progress) -> None:
    steps = plan.order()
    overall = Overall(progress, steps)
    for number, step in enumerate(steps, 1):
        worked = space.result(step) is None
        if worked:
            if progress.cancelled():
                raise Cancelled
            overall.begin(number)
            folder = space.folder(step)
            _make(folder)
            _describe(step, space)
            space.finish(step, step.run(space, overall))
        overall.finish(step, worked)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot use {folder} as the folder for the results: {error.strerror}") from None


def _describe(step: Step, space: Workspace) -> None:
    """The description of a step, for its folder."""
    text = json.dumps(step.identity(space.resources), indent=1, default=str) + "\n"
    write_bytes(space.folder(step) / "step.json", text.encode())


def _result(space: Workspace, step: Step) -> dict[str, Any]:
    found = space.result(step)
    assert found is not None
    return found


def compare(entry: Entry, plan: Plan, scale: str, found: Found) -> Comparison:
    """Our numbers beside the paper's and those in results/."""
    whose = f"{scale} ({plan.tag})" if plan.tag else scale
    ours, paper = plan.table(found), papers_table(entry.label)
    return Comparison(
        entry.label,
        "exact" if entry.exact and not plan.differs else whose,
        ours,
        paper,
        plan.differs,
        standing(entry),
        entry.standing_of,
        tuple(f"results/{name}.json" for name in entry.sources),
        (*plan.notes, *_unequal(entry, ours, paper)),
        {} if plan.texts is None else plan.texts(found),
    )


def _unequal(entry: Entry, ours: Table, paper: Table) -> Iterator[str]:
    """Deviations of a table that should equal the paper's."""
    if not entry.exact or not entry.label.startswith("tab:") or entry.plan("small").differs:
        return
    cells = [
        f"{row} ({column})"
        for row, values in paper.rows.items()
        for column, value in values.items()
        if value is not None and ours.get(row, column) != value
    ]
    yield f"differs from the paper: {', '.join(cells)}" if cells else "every cell equals the paper's"


def standing(entry: Entry) -> Table | None:
    """Our numbers in results/."""
    return None if entry.standing is None else entry.standing()


# -- files -------------------------------------------------------------------------------------------------------------


def stem(label: str, scale: str) -> str:
    """The name of an entry's files."""
    return f"{label.replace(':', '-')}-{scale}"


def _write(
    comparison: Comparison, plan: Plan, found: Found, space: Workspace, request: ReproductionRequest
) -> Iterator[Path]:
    """NAME-SCALE.json and .md, and the drawings of a figure."""
    name = stem(comparison.label, request.scale)
    drawings = list(_drawings(plan, found, space, name))
    device = made(pick_device(request.resources.device))
    plan_of = {"plan": plan.fingerprint()}
    document = {**comparison.document(), **plan_of, "figures": [path.name for path in drawings], "made": device}
    path = request.out / f"{name}.json"
    write_bytes(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())
    yield path
    text = request.out / f"{name}.md"
    write_bytes(text, as_markdown(comparison, find(comparison.label).caption, drawings).encode())
    yield text
    yield from drawings


def _drawings(plan: Plan, found: Found, space: Workspace, name: str) -> Iterator[Path]:
    for step in plan.files:
        for file in found[step]["files"]:
            source = space.folder(plan.steps[step]) / file
            target = space.out / f"{name}{source.suffix}"
            if plan.draw is not None:
                target = space.out / f"{name}-{source.stem}{source.suffix}"
            write_bytes(target, source.read_bytes())
            yield target
    if plan.draw is not None:
        yield from save_figure(plan.draw(found), space.out / name)


def as_markdown(comparison: Comparison, caption: str, drawings: list[Path]) -> str:
    lines = [f"# {comparison.label}", "", f"{caption}.", ""]
    if comparison.differs:
        lines += [f"**Scale {comparison.scale}.** {comparison.differs}", ""]
    unit = comparison.paper.unit or comparison.ours.unit
    rows = [[row, whose, *map(shown, values)] for row, whose, values in comparison.lines()]
    lines += [markdown([unit, "", *comparison.columns()], rows), ""]
    lines += [f"- {note}" for note in comparison.notes]
    if comparison.sources and comparison.standing:
        lines.append(f"- ours in results/: {', '.join(comparison.sources)}")
    for title, text in comparison.texts.items():
        lines += ["", f"**{title}**", "", "```", text.replace("```", "'''"), "```"]
    lines += [f"\n![{path.stem}]({path.name})" for path in drawings if path.suffix == ".png"]
    return "\n".join(lines).rstrip() + "\n"


def finished(entry: Entry, scale: str, out: Path) -> bool:
    """Whether an entry's numbers exist for its current plan, which changes with recipes and methods."""
    path = out / f"{stem(entry.label, scale)}.json"
    if not path.is_file():
        return False
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("plan") == entry.plan(scale).fingerprint()
