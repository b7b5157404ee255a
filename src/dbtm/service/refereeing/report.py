"""The files of a comparison's outcome: numbers, a table, two figures, and a page with traces side by side."""

from pathlib import Path
from typing import Any

import numpy as np

from dbtm.core import atomic
from dbtm.core.errors import UsageError
from dbtm.evals.referee import tables
from dbtm.evals.referee.folder import Entry, Job, Plan, RefereeFolder, write
from dbtm.evals.referee.outcome import outcome
from dbtm.sampling import Round, Trace
from dbtm.service.solving import grid_state
from dbtm.tasks.base import Task
from dbtm.tasks.sudoku.task import Sudoku
from dbtm.viz.frontier import save_figure
from dbtm.viz.referee import draw_quality
from dbtm.viz.referee_page import Shown, Words, grid_trace, referee_page, text_trace
from dbtm.viz.spell import speller_of
from dbtm.viz.token_trace import rounds_of, sample_of

FIGURES = {
    "used": ("quality-nfe", "Quality against network evaluations, with 95 % intervals."),
    "flops_per_sample": ("quality-flops", "The same against FLOPs per sample: evaluations differ in cost."),
}


def write_report(folder: RefereeFolder, plan: Plan) -> tuple[dict[str, Any], list[Path]]:
    """Write referee.json, and the tables and figures made from it."""
    document = outcome(folder, plan)
    paths = [folder.path / name for name in ("referee.json", "referee.md", "referee.html")]
    write(paths[0], document)
    atomic.write_bytes(paths[1], tables.markdown(document).encode("utf-8", "replace"))
    figures = []
    for cost, (stem, caption) in FIGURES.items():
        figure = draw_quality(document, cost)
        paths += save_figure(figure, folder.path / stem)
        figures.append((caption, figure))
    found = [tables.best_table(document), tables.quality_table(document), tables.cost_table(document)]
    page = referee_page(
        f"Methods on {plan.task} at equal training cost",
        [*tables.losses(document), f"Made on {'; '.join(document['hardware']) or 'nothing yet'}."],
        figures,
        [Words(*table) for table in found],
        read_traces(folder, plan),
        plan.document(),
    )
    atomic.write_bytes(paths[2], page.encode("utf-8", "replace"))
    return document, paths


def read_traces(folder: RefereeFolder, plan: Plan) -> list[Shown]:
    """A trace per entry, of its first seed, if there is one."""
    out = []
    for entry in plan.entries.values():
        for job in (Job(entry.label, seed) for seed in plan.seeds):
            document = folder.trace(job)
            if document is not None:
                out.append(_checked(entry, document, folder.run(job) / "trace.json"))
                break
    return out


def _checked(entry: Entry, document: dict[str, Any], path: Path) -> Shown:
    """Refuse a trace that does not fit the entry's task, whatever is wrong with it."""
    try:
        return _shown(entry, document)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise UsageError(f"{path} is damaged: {type(error).__name__} {str(error)[:200]}") from None


def _shown(entry: Entry, document: dict[str, Any]) -> Shown:
    task, trace = entry.config.task, trace_of(document)
    facts = f"{int(trace.nfe[0])} network evaluations"
    if isinstance(task, Sudoku):
        return _grid(entry.label, facts, task, trace)
    return text_trace(entry.label, facts, sample_of(trace, 0, speller_of(task), task.vocab))


def _grid(label: str, facts: str, task: Sudoku, trace: Trace) -> Shown:
    layout = task.layout
    puzzle_C = trace.tokens[0, layout.puzzle_positions]
    rounds = [_blanked(state, task) for state in rounds_of(trace, 0)]
    return grid_trace(label, facts, puzzle_C.tolist(), [grid_state(layout, state) for state in rounds])


def _blanked(state: Round, task: Task) -> Round:
    """Ids beyond the vocabulary (a mask) are positions without a token."""
    return Round(np.where(state.tokens >= task.vocab, -1, state.tokens), state.committed, state.score, state.time)


def trace_of(document: dict[str, Any]) -> Trace:
    """A saved trace."""

    def array(values: Any, kind: type) -> Any:
        return None if values is None else np.array(values, dtype=kind)

    rounds = [
        Round(array(r["tokens"], int), array(r["committed"], bool), array(r["score"], float), r["time"])
        for r in document["rounds"]
    ]
    return Trace(array(document["tokens"], int), array(document["nfe"], int), array(document["prompt"], bool), rounds)
