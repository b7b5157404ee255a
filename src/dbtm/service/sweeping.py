"""Sweeps of a text model over sampler options; drawn samples and scores are kept in a folder."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbtm.core.atomic import write_bytes
from dbtm.core.errors import UsageError
from dbtm.evals.drawing import draw_samples, resolve
from dbtm.evals.judges import load_judge
from dbtm.evals.judges.base import Judge
from dbtm.evals.perplexity import measure, references, text_task
from dbtm.evals.samples import SampleSet
from dbtm.evals.settings import check
from dbtm.evals.sweep.folder import Plan, Planned, SweepFolder, identity
from dbtm.evals.sweep.outcome import Curves, Rows, curves, matched, matched_entropies, summary
from dbtm.evals.sweep.studies import STUDIES, Cell, cells
from dbtm.sampling import Sampler
from dbtm.service.evaluation import Meter
from dbtm.service.evaluation.generated_text import load_text_model
from dbtm.service.evaluation.models import describe_origin
from dbtm.service.progress import Progress
from dbtm.viz.frontier import draw_frontiers, save_figure

__all__ = ["STUDIES", "ComparisonRequest", "Frontiers", "SweepRequest", "SweepResult", "compare_sweeps", "run_sweep"]


@dataclass(frozen=True, kw_only=True)
class SweepRequest:
    """What to draw and judge in a folder; finished work is not repeated."""

    folder: Path
    checkpoint: str | None = None  # None: existing samples are only judged
    studies: tuple[str, ...] = ("frontier",)  # or all
    cells: tuple[Cell, ...] = ()  # further ones, outside the named studies
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # by option; others have their defaults
    judge: str | None = "smollm2"  # None: samples are only drawn
    n: int = 256  # samples per setting
    seed: int = 0
    entropies: tuple[float, ...] = ()  # to compare at; empty: around real text's
    references: bool = True  # real and shuffled text too
    data: Path | None = None  # new path of the prepared text
    batch: int | None = None  # None: what fits
    device: str = "auto"


@dataclass(frozen=True)
class Frontiers:
    """The frontiers of one or several sweeps under one judge."""

    judge: dict[str, Any]  # as it describes itself
    sweeps: tuple[Curves, ...]
    entropies: tuple[float, ...]

    @property
    def records(self) -> list[dict[str, Any]]:
        """One per budget and sweep, as in the JSON."""
        return matched(self.sweeps, self.entropies)

    def document(self) -> dict[str, Any]:
        return {"judge": self.judge, "frontier": self.records}

    def save_figure(self, stem: Path) -> list[Path]:
        """STEM.png and STEM.svg."""
        return save_figure(draw_frontiers(self.sweeps, self.judge["name"]), stem)


@dataclass(frozen=True)
class SweepResult:
    """A sweep so far."""

    folder: SweepFolder
    frontiers: Frontiers | None = None  # None: not judged
    plan: Plan | None = None
    rows: Rows = field(default_factory=dict)  # by identity of the samples
    files: tuple[Path, ...] = ()  # of the outcome


def run_sweep(request: SweepRequest, progress: Progress = Progress(), judge: Judge | None = None) -> SweepResult:
    """Draw, judge, summarise; several sweeps may share a loaded judge."""
    folder = SweepFolder(request.folder)
    if request.checkpoint is None and folder.plan is None:
        raise UsageError(f"{request.folder} has no sweep: give a checkpoint to sample from")
    sampler, planned = None, list[Planned]()
    if request.checkpoint is not None:
        sampler = load_text_model(request.checkpoint, request.device, request.batch, request.data, progress)
        planned = _planned(sampler, request)
    if judge is None and request.judge is not None:
        judge = load_judge(request.judge, request.device)
    if sampler is not None and request.checkpoint is not None:
        compared = _references(folder, sampler, request.n) if request.references else []
        origin = describe_origin(sampler, request.checkpoint, request.seed)
        _draw(folder, folder.extend(origin, request.n, planned), sampler, compared, progress)
    if judge is None:
        return SweepResult(folder)
    _judge(folder, judge, progress)
    return _summarised(folder, judge, request.entropies)


def _planned(sampler: Sampler, request: SweepRequest) -> list[Planned]:
    """The cells of the studies, with all settings of their samples."""
    planned = []
    for cell in [*cells(sampler, request.studies, request.values), *request.cells]:
        check(sampler, cell.asked)
        planned.append(Planned(cell.study, cell.row, cell.column, resolve(sampler, cell.asked)))
    return planned


def _references(folder: SweepFolder, sampler: Sampler, n: int) -> list[SampleSet]:
    """Real and shuffled text; the folder's own, if it has some."""
    sets = references(text_task(sampler.task), n)
    folder.refuse_other_text(sets[0].origin)
    return sets


def _draw(folder: SweepFolder, plan: Plan, sampler: Sampler, compared: list[SampleSet], progress: Progress) -> None:
    """Draw the missing sets of samples, references first."""
    there = folder.drawn()
    for each in compared:
        if identity(each.kind, each.settings) not in there:
            folder.add_samples(each)
    wanted, meter = plan.settings(), Meter(progress)
    progress.stage(f"drawing {len(wanted)} sets of samples", len(wanted) * plan.n)
    for settings in wanted:
        if identity("sample", settings) not in there:
            seed = plan.origin["seed"]
            folder.add_samples(draw_samples(sampler, settings, plan.n, seed, plan.origin, meter, progress.cancelled))
        meter.before += plan.n
        meter(0)


def _judge(folder: SweepFolder, judge: Judge, progress: Progress) -> None:
    """Judge the sets that are not judged yet."""
    described = judge.describe()
    there = folder.judged(described).keys()
    waiting, number = len(folder.drawn() - there), 0
    for each in folder.sets():
        if identity(each.kind, each.settings) not in there:
            number += 1
            progress.stage(f"judging set {number} of {waiting}")
            folder.add_row(measure(each, judge, Meter(progress)).document(), described)


def _summarised(folder: SweepFolder, judge: Judge, entropies: Sequence[float]) -> SweepResult:
    """The scores of all judged sets, and the files of the outcome."""
    plan = folder.plan
    assert plan is not None
    rows = folder.judged(judge.describe())
    own = curves(folder.path.resolve().name, plan, rows)
    frontiers = Frontiers(judge.describe(), (own,), tuple(entropies or matched_entropies([own])))
    document = summary(plan, judge, frontiers.records, rows, folder.real_text())
    files = [folder.path / "sweep.json"]
    write_bytes(files[0], (json.dumps(document, indent=2, allow_nan=False) + "\n").encode())
    if own.points:
        files += frontiers.save_figure(folder.path / "frontier")
    return SweepResult(folder, frontiers, plan, rows, tuple(files))


# -- several sweeps ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ComparisonRequest:
    """Sweeps with the same judge; the name of a folder is its label."""

    folders: tuple[Path, ...]
    judge: str | None = None  # by name, or as an error message describes it; None: the only one
    entropies: tuple[float, ...] = ()


def compare_sweeps(request: ComparisonRequest) -> Frontiers:
    """The frontiers of several sweeps."""
    labels = [folder.resolve().name for folder in request.folders]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"two of these folders are called '{label}', which is their label: rename one")
    folders = [SweepFolder(folder) for folder in request.folders]
    judge = _only_judge([each for folder in folders for each in folder.judges()], request.judge)
    sweeps = []
    for folder, label in zip(folders, labels):
        sweeps.append(curves(label, folder.plan or Plan({}, 0), folder.judged(judge)))
        if not sweeps[-1].points:
            raise UsageError(f"{folder.path} has no frontier by the judge {_in_words(judge)}: judge its samples first")
    return Frontiers(judge, tuple(sweeps), tuple(request.entropies or matched_entropies(sweeps)))


def _only_judge(judges: Sequence[dict[str, Any]], asked: str | None) -> dict[str, Any]:
    """The requested judge, or the only one."""
    if not judges:
        raise UsageError("these folders have no judged samples: judge them first")
    every = {_in_words(judge): judge for judge in judges}
    fitting = {words: judge for words, judge in every.items() if asked in (None, judge["name"], words)}
    if not fitting:
        raise UsageError(f"these sweeps were judged by {', '.join(sorted(every))}, not by {asked}")
    if len(fitting) > 1:
        raise UsageError(f"these sweeps were judged by {', '.join(sorted(fitting))}: choose one judge")
    return next(iter(fitting.values()))


def _in_words(judge: dict[str, Any]) -> str:
    """A judge's name with the details that distinguish it."""
    weights = judge.get("sha256") or judge.get("revision")
    details = [judge.get("dtype"), None if weights is None else weights[:8]]
    return f"{judge['name']} ({' '.join(filter(None, details)) or 'not described'})"
