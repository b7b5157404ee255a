"""The outcome of a comparison as text tables, for a terminal, Markdown and a page."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dbtm.evals.referee.folder import OWN_COUNT

Document = Mapping[str, Any]
LEVEL = 0.05
"""p of Welch's test below which a difference is significant."""


class Table(NamedTuple):
    title: str
    head: list[str]
    rows: list[list[str]]
    note: str = ""

    def markdown(self) -> str:
        lines = [f"| {' | '.join(self.head)} |", "|---" * len(self.head) + "|"]
        lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in self.rows]
        return "\n".join(lines)


def quality_table(document: Document) -> Table:
    """Quality by network evaluations, with intervals; failed methods are marked."""
    metric, nfe = document["metric"], document["settings"]["nfe"]
    head = ["method", *(f"{k} NFE" for k in nfe), "own count"]
    rows = []
    for entry in document["entries"]:
        found = entry["budgets"]
        cells = [cell(found.get(str(k)), metric) for k in nfe]
        own = found.get(OWN_COUNT)
        rows.append([name_of(entry), *cells, "" if own is None else f"{cell(own, metric)} at {own['used']:.3g} NFE"])
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    direction = "lower is better" if metric["lower_is_better"] else "higher is better"
    unit = ", %" if metric["share"] else ""
    return Table(f"{metric['title']}{unit}: {direction}", head, rows, _note(document))


def name_of(entry: Document) -> str:
    """The label, marked if runs failed or are missing."""
    if entry["status"] == "failed":
        return f"{entry['label']} (failed: {grouped(entry['reasons'])})"
    return entry["label"] + (" (runs are missing)" if entry["status"] == "missing" else "")


def grouped(reasons: Sequence[str]) -> str:
    """`seed 0: why; seed 1: why` as `seeds 0, 1: why`."""
    seeds: dict[str, list[str]] = {}
    for reason in reasons:
        seed, _, why = reason.removeprefix("seed ").partition(": ")
        seeds.setdefault(why, []).append(seed)
    return "; ".join(f"seed{'s' * (len(found) > 1)} {', '.join(found)}: {why}" for why, found in seeds.items())


def cell(found: Document | None, metric: Document) -> str:
    """A value with its interval, as 0.12 [0.10, 0.14] or, for a share, 81.2 [78.0, 84.1]."""
    if found is None or found["value"] is None:
        return ""
    shown = number(found["value"], metric)
    if found["low"] is None or found["high"] is None:
        return shown
    entropy = f" ({found['entropy']:.2f})" if "entropy" in found else ""
    return f"{shown}{entropy} [{number(found['low'], metric)}, {number(found['high'], metric)}]"


def number(value: float, metric: Document) -> str:
    if metric["share"]:
        return f"{100 * value:.1f}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"


def cost_table(document: Document) -> Table:
    """The cost of the entries: training first, then a sample at a few evaluations."""
    head = ["method", "teacher", "parameters", "training FLOPs", "seconds", "steps", "sequences", "peak memory"]
    head += ["FLOPs per evaluation", "ms per sample at 1 NFE (own count)"]
    rows = []
    for entry in document["entries"]:
        training = entry["training"]
        first = next(iter(entry["budgets"].values()), None)
        per_evaluation = "" if first is None else f"{first['flops_per_sample'] / first['used']:.3g}"
        rows.append(
            [
                entry["label"],
                entry["teacher"] or "",
                _count(training["parameters"]),
                _short(training["flops"], "{:.3g}"),
                _short(training["seconds"], "{:.0f}"),
                _count(training["steps"]),
                _count(training["sequences"]),
                _short(training["peak_memory"], "{:.0f} MiB", 1 / 2**20),
                per_evaluation,
                "" if first is None else f"{1e3 * first['seconds_per_sample']:.3g}",
            ]
        )
    return Table("Costs (means over seeds; teachers included)", head, rows)


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _short(value: float | None, form: str, scale: float = 1.0) -> str:
    return "" if value is None else form.format(scale * value)


def best_table(document: Document) -> Table:
    """The best entry per budget, and DBTM's position."""
    metric = document["metric"]
    rows = []
    for record in document["best"]:
        best = f"{record['best']}: {_value(record, 'best', metric)}"
        rows.append([f"{record['nfe']}", best, verdict(record, metric)])
    return Table("Best at equal training cost", ["NFE", "best", "DBTM"], rows)


def verdict(record: Document, metric: Document) -> str:
    """In words: whether DBTM is behind, by how much, and with what significance."""
    if "rival" not in record:
        return ""
    against = f"{record['dbtm']}: {_value(record, 'dbtm', metric)}"
    p = record["p"]
    sure = "one seed, not tested" if p is None else f"p = {p:.2g}"
    if not record["dbtm_loses"]:
        ahead = "ahead of" if p is not None and p < LEVEL else "not separable from"
        return f"{against}, {ahead} {record['rival']} ({sure})"
    behind = "loses to" if p is not None and p < LEVEL else "behind, not separable from"
    return f"{against}, {behind} {record['rival']} at {_value(record, 'rival', metric)} ({sure})"


def _value(record: Document, role: str, metric: Document) -> str:
    return cell({key: record[f"{role}_{key}"] for key in ("value", "low", "high")}, metric)


def losses(document: Document) -> list[str]:
    """Sentences about where DBTM loses at equal cost, or one if it does not."""
    metric = document["metric"]
    compared = [record for record in document["best"] if "rival" in record]
    if not compared:
        return ["DBTM and a rival have no numbers at the same evaluations yet."]
    lost = [r for r in compared if r["dbtm_loses"] and r["p"] is not None and r["p"] < LEVEL]
    behind = [r for r in compared if r["dbtm_loses"] and r not in lost]
    out = [f"At {r['nfe']} NFE {verdict(r, metric)}." for r in lost]
    if behind:
        out.append(f"Behind, but not separably (p >= {LEVEL}): at {_list(behind)} NFE.")
    if not lost and not behind:
        out = ["DBTM is not behind at any number of evaluations."]
    return out + [_beside_own_count(record, metric) for record in document["equal_sample_cost"]]


def _beside_own_count(record: Document, metric: Document) -> str:
    """A method that generates with a cache has many cheap evaluations, so both are compared by FLOPs per sample."""
    theirs = (
        f"{record['label']} has {_value(record, 'rival', metric)} with {record['used']:.3g} evaluations, "
        f"{record['flops_per_sample']:.3g} FLOPs per sample"
    )
    if "dbtm" not in record:
        return f"{theirs}: DBTM costs more at any number of evaluations."
    p = record["p"]
    sure = "one seed, not tested" if p is None else f"p = {p:.2g}"
    words = (
        "loses"
        if record["dbtm_loses"] and p is not None and p < LEVEL
        else "is behind"
        if record["dbtm_loses"]
        else "is ahead"
    )
    return f"{theirs}; with at most as many FLOPs DBTM has {_value(record, 'dbtm', metric)} and {words} ({sure})."


def _list(records: Sequence[Document]) -> str:
    return ", ".join(str(record["nfe"]) for record in records)


def _note(document: Document) -> str:
    """The settings of the numbers."""
    settings = document["settings"]
    budget = settings["budget"]
    spent = f"{budget['flops']:.3g} training FLOPs" if budget["flops"] else f"{budget['minutes']:g} minutes of training"
    least = floor_of(document)
    floor = "" if least is None else f" Samples of the exact distribution have {least:.3f} at this number of samples."
    seeds = ", ".join(map(str, settings["seeds"]))
    return (
        f"{spent} per run, seeds {seeds}, {settings['n']:,} samples per run and budget. "
        f"Intervals: {document['intervals']}{floor}"
    )


def floor_of(document: Document) -> float | None:
    """The metric of samples of the truth, if not 0."""
    found = (budget.get("floor") for entry in document["entries"] for budget in entry["budgets"].values())
    return next((floor for floor in found if floor is not None), None)


def markdown(document: Document) -> str:
    """The whole report as Markdown."""
    parts = [f"# Methods on {document['task']} at equal training cost", *losses(document)]
    for table in (best_table(document), quality_table(document), cost_table(document)):
        parts += [f"## {table.title}", table.markdown(), *([table.note] if table.note else [])]
    parts.append(f"Made on {'; '.join(document['hardware']) or 'nothing yet'}, commit {', '.join(document['commit'])}.")
    return "\n\n".join(parts) + "\n"
