"""The outcome of a comparison: one record per entry, with intervals over seeds and samples, and the best entries."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from dbtm.core.errors import UsageError, nearest
from dbtm.evals.intervals import over_seeds, welch, wilson
from dbtm.evals.referee.checked import COSTS, MORE, TRAINING
from dbtm.evals.referee.folder import OWN_COUNT, Entry, Job, Plan, RefereeFolder
from dbtm.evals.referee.measures import METRICS, Metric

INTERVALS = (
    "95 %. Over seeds: Student's t on the runs' numbers. Over samples: Wilson's for shares, the normal interval of the "
    "mean otherwise, seeds pooled. The interval shown covers both."
)


def metric_of(plan: Plan) -> Metric:
    """The metric of the task of the entries, or of the plan's name if it has no entries."""
    names = {entry.config.task.name for entry in plan.entries.values()} or {plan.task}
    name = names.pop()
    if name not in METRICS:
        raise UsageError(f"there is no comparison on '{name[:80]}'{nearest(name[:80], METRICS)}")
    return METRICS[name]


def outcome(folder: RefereeFolder, plan: Plan) -> dict[str, Any]:
    """The document of a folder: all results of its runs so far."""
    metric = metric_of(plan)
    entries = [_entry(folder, plan, entry, metric) for entry in plan.entries.values()]
    settings = plan.document()
    return {
        "task": plan.task,
        "metric": vars(metric),
        "intervals": INTERVALS,
        "settings": {name: settings[name] for name in settings if name not in ("task", "entries")},
        "hardware": sorted({run["hardware"] for entry in entries for run in entry["runs"] if "hardware" in run}),
        "commit": sorted({str(run["commit"]) for entry in entries for run in entry["runs"] if "commit" in run}),
        "entries": entries,
        "best": best(entries, plan.nfe, metric),
        "equal_sample_cost": at_equal_sample_cost(entries, metric),
    }


def _entry(folder: RefereeFolder, plan: Plan, entry: Entry, metric: Metric) -> dict[str, Any]:
    jobs = [Job(entry.label, seed) for seed in plan.seeds]
    failures = {job.seed: folder.failure(job) for job in jobs}
    trained = {job.seed: folder.training(job) for job in jobs}
    rows = {job.seed: folder.rows(job) for job in jobs if not failures[job.seed]}
    names = [str(nfe) for nfe in plan.nfe] if not any(OWN_COUNT in found for found in rows.values()) else [OWN_COUNT]
    by_budget = {name: [found[name] for found in rows.values() if name in found] for name in names}
    reasons = [f"seed {seed}: {failure['reason']}" for seed, failure in failures.items() if failure]
    complete = all(len(found) == len(plan.seeds) for found in by_budget.values())
    return {
        "label": entry.label,
        "method": entry.config.method_name,
        "about": entry.about,
        "teacher": None if entry.teacher is None else entry.teacher.method_name,
        "status": "failed" if reasons else "done" if complete else "missing",
        "reasons": reasons,
        "training": _training([found for found in trained.values() if found]),
        "budgets": {name: pooled(found, metric) for name, found in by_budget.items() if found},
        "runs": [{"seed": seed, **found} for seed, found in trained.items() if found],
        "settings": entry.document(),
    }


def _training(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means over the runs; null if unknown for one of them."""
    known = {name: [run[name] for run in runs if run.get(name) is not None] for name in TRAINING}
    return {name: fmean(values) if values and len(values) == len(runs) else None for name, values in known.items()}


def pooled(rows: Sequence[Mapping[str, Any]], metric: Metric) -> dict[str, Any]:
    """One entry's rows of all seeds at one budget."""
    values = [row["value"] for row in rows if row["value"] is not None]
    if metric.share and not all(0 <= value <= 1 for value in values):
        raise UsageError(
            f"{metric.title}: {max(values, key=abs):g} is not possible; a row of the comparison is damaged"
        )
    out: dict[str, Any] = {"values": values, "seeds": len(values), "n": rows[0]["n"]}
    for name in (*COSTS, *MORE):
        found = [row[name] for row in rows if row.get(name) is not None]
        out |= {name: fmean(found)} if found else {}
    if "matched_perplexity" in out:
        matched = [row["matched_perplexity"] for row in rows if row.get("matched_perplexity") is not None]
        out |= _bounds("matched_perplexity", over_seeds(matched))
    if not values:
        return {**out, "value": None, "low": None, "high": None}
    seeds, samples = over_seeds(values), over_samples(rows, metric)
    shown = [x for x in (*seeds, *samples) if math.isfinite(x)]
    low, high = (min(shown), max(shown)) if shown else (math.nan, math.nan)
    low, high = max(0.0, low), min(1.0, high) if metric.share else high  # no metric is negative
    return {
        **out,
        "value": fmean(values),
        "low": _finite(low),
        "high": _finite(high),
        **_bounds("seeds", seeds),
        **_bounds("samples", samples),
    }


def over_samples(rows: Sequence[Mapping[str, Any]], metric: Metric) -> tuple[float, float]:
    """The interval of the mean of several runs from the variance of their samples only."""
    rows = [row for row in rows if row["value"] is not None]
    if metric.share:
        total = sum(row["n"] for row in rows)
        return wilson(round(sum(row["value"] * row["n"] for row in rows)), total)
    if any(row.get("value_low") is None or row.get("value_high") is None for row in rows):
        return math.nan, math.nan
    half = math.sqrt(sum(((row["value_high"] - row["value_low"]) / 2) ** 2 for row in rows)) / len(rows)
    center = fmean(row["value"] for row in rows)
    return center - half, center + half


def _bounds(name: str, interval: tuple[float, float]) -> dict[str, float | None]:
    return {f"{name}_low": _finite(interval[0]), f"{name}_high": _finite(interval[1])}


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None


# -- who is best -------------------------------------------------------------------------------------------------------


def best(entries: Sequence[Mapping[str, Any]], nfe: Sequence[int], metric: Metric) -> list[dict[str, Any]]:
    """Per budget the best entry and DBTM's best, with Welch's test between them."""
    out = []
    for name in map(str, nfe):
        there = [entry for entry in entries if (entry["budgets"].get(name) or {}).get("value") is not None]
        if not there:
            continue

        def rank(entry: Mapping[str, Any], name: str = name) -> float:
            value = entry["budgets"][name]["value"]
            return value if metric.lower_is_better else -value

        first = min(there, key=rank)
        ours = min((entry for entry in there if entry["method"] == "dbtm"), key=rank, default=None)
        others = min((entry for entry in there if entry["method"] != "dbtm"), key=rank, default=None)
        record: dict[str, Any] = {"nfe": int(name), **_named("best", first, name)}
        if ours is not None and others is not None:
            one, two = ours["budgets"][name]["values"], others["budgets"][name]["values"]
            record |= {
                **_named("dbtm", ours, name),
                **_named("rival", others, name),
                "dbtm_loses": rank(others) < rank(ours),
                "p": welch(one, two),
            }
        out.append(record)
    return out


def at_equal_sample_cost(entries: Sequence[Mapping[str, Any]], metric: Metric) -> list[dict[str, Any]]:
    """Each entry without a budget, and DBTM's best at no more FLOPs per sample."""
    out = []
    for entry in entries:
        own = entry["budgets"].get(OWN_COUNT)
        if own is None or own["value"] is None:
            continue
        most = 1.02 * own["flops_per_sample"]
        ours = [
            (found["value"] if metric.lower_is_better else -found["value"], ours, name)
            for ours in entries
            if ours["method"] == "dbtm"
            for name, found in ours["budgets"].items()
            if found["value"] is not None and found["flops_per_sample"] <= most
        ]
        record = {"label": entry["label"], "flops_per_sample": own["flops_per_sample"], "used": own["used"]}
        record |= _named("rival", entry, OWN_COUNT)
        if ours:
            _, dbtm, name = min(ours, key=lambda found: found[0])
            found = dbtm["budgets"][name]
            loses = metric.better(own["value"], found["value"])
            test = {"dbtm_loses": loses, "p": welch(found["values"], own["values"])}
            record |= {**_named("dbtm", dbtm, name), "dbtm_nfe": int(name), **test}
        out.append(record)
    return out


def _named(role: str, entry: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = entry["budgets"][name]
    return {role: entry["label"], **{f"{role}_{key}": found[key] for key in ("value", "low", "high")}}
