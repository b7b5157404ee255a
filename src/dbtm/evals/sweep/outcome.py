"""The outcome of a sweep: the pooled frontier by budget, perplexity at matched entropy, and the studies' cells."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from dbtm.evals.judges.base import Judge
from dbtm.evals.provenance import made
from dbtm.evals.sweep.folder import NUMBERS, Plan, identity
from dbtm.evals.sweep.frontier import Point, best_near, frontier, lowest, perplexity_at
from dbtm.evals.sweep.studies import TITLES

NEAR = 0.20  # nats: largest distance of `best_near_real` from real text's entropy
_OFFSETS = (-0.4, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2)  # of the matched entropies, around real text's

Rows = dict[str, dict[str, Any]]


class Curves(NamedTuple):
    """One sweep's points, pooled over all options, and their reference."""

    label: str
    points: dict[int, list[Point]]
    """By network evaluations: the budget, or the number used if there is none. `row` is an index into `settings`."""
    settings: list[dict[str, Any]]
    real: Point | None
    """Real text under the same judge, if measured."""


def curves(label: str, plan: Plan, rows: Rows) -> Curves:
    """The points of the plan's frontier that have a perplexity, without rows of other studies and older grids."""
    real, points, settings = None, dict[int, list[Point]](), list[dict[str, Any]]()
    wanted = {identity("sample", cell.settings) for cell in plan.cells if cell.study == "frontier"}
    for name, row in rows.items():
        if row["perplexity"] is None:
            continue
        point = Point(row["entropy"], row["perplexity"], len(settings))
        if row["kind"] == "real":
            real = point
        elif name in wanted:
            budget = row["settings"]["nfe"] if "nfe" in row["settings"] else round(row["nfe"])
            points.setdefault(budget, []).append(point)
            settings.append(row["settings"])
    return Curves(label, dict(sorted(points.items())), settings, real)


def matched_entropies(sweeps: Sequence[Curves]) -> list[float]:
    """Entropies to compare at: around real text's, or else the tenths that the points reach."""
    real = next((each.real for each in sweeps if each.real), None)
    if real is not None:
        return [round(real.entropy + offset, 2) for offset in _OFFSETS]
    reached = [point.entropy for each in sweeps for points in each.points.values() for point in points]
    if not reached:
        return []
    tenths = [tenth / 10 for tenth in range(int(10 * min(reached)), int(10 * max(reached)) + 2)]
    return [entropy for entropy in tenths if min(reached) <= entropy <= max(reached)]


def matched(sweeps: Sequence[Curves], entropies: Sequence[float]) -> list[dict[str, Any]]:
    """One record per budget and sweep: the frontier with its settings, its range, perplexities at the entropies.

    Two settings are called best: the paper's, with the lowest perplexity at any entropy, and the one with the lowest
    perplexity near real text's entropy (None if there is none), which excludes collapsed samples.
    """
    records = []
    for nfe in sorted({nfe for each in sweeps for nfe in each.points}):
        for each in sweeps:
            curve = frontier(each.points.get(nfe, []))
            if not curve:
                continue
            near = best_near(each.real.entropy, each.points[nfe], NEAR) if each.real else None
            records.append(
                {
                    "nfe": nfe,
                    "label": each.label,
                    "best_paper": _entry(lowest(each.points[nfe]), each.settings),
                    "best_near_real": _entry(near, each.settings),
                    "range": [curve[0].entropy, curve[-1].entropy],
                    "matched": {f"{e:.2f}": perplexity_at(e, curve) for e in entropies},
                    "frontier": [_entry(point, each.settings) for point in curve],
                    "points": len(each.points[nfe]),
                }
            )
    return records


def _entry(point: Point | None, settings: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    return point and {"entropy": point.entropy, "perplexity": point.perplexity, "settings": settings[point.row]}


def summary(
    plan: Plan, judge: Judge, records: Sequence[dict[str, Any]], rows: Rows, real_text: dict[str, Any] | None
) -> dict[str, Any]:
    """The whole JSON of a sweep; `real_text` is the origin of the reference text."""
    studies = [
        {**vars(cell), **{name: row[name] for name in NUMBERS}}
        for cell in plan.cells
        if cell.study in TITLES and (row := rows.get(identity("sample", cell.settings)))
    ]
    return {
        "judge": judge.describe(),
        "origin": plan.origin,
        "real_text": real_text,
        "n": plan.n,
        **made(judge.device),
        "frontier": list(records),
        "studies": studies,
        "rows": list(rows.values()),
    }
