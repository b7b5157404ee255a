"""The state of each table and figure: done here, possible now, or what is missing."""

from dataclasses import dataclass
from pathlib import Path

from dbtm.service.reproduction.entry import SCALES, Entry, Plan
from dbtm.service.reproduction.needs import lacking_data, lacking_judge, lacks_gpu, total_hours
from dbtm.service.reproduction.registry import ENTRIES
from dbtm.service.reproduction.results import ran_small
from dbtm.service.reproduction.running import finished, standing
from dbtm.service.reproduction.steps.base import Resources


@dataclass(frozen=True)
class State:
    """An entry at both scales, and our numbers in results/."""

    entry: Entry
    by_scale: dict[str, str]
    results: str
    """Files of results/ with our numbers; empty if there are none."""


def state_of(entry: Entry, out: Path, resources: Resources) -> State:
    by_scale = {scale: _at(entry, scale, out, resources) for scale in SCALES}
    table = standing(entry)
    files = ", ".join(f"results/{name}.json" for name in entry.sources)
    return State(entry, by_scale, f"{files} ({table.count()} values)" if table is not None else "")


def _at(entry: Entry, scale: str, out: Path, resources: Resources) -> str:
    if finished(entry, scale, out):
        return "done here"
    if scale == "paper" and entry.exact:
        return "the same as small"
    plan = entry.plan(scale)
    waits = [f"needs data {name}" for name in lacking_data(plan, resources)]
    if judge := lacking_judge(plan, resources):
        waits.append(f"needs the judge {judge}")
    if lacks_gpu(plan, resources):
        waits.append(f"needs a GPU for about {total_hours(plan)[0]:,.0f} hours")
    return "; ".join(waits) or "possible now" + (_recorded(entry, plan) if scale == "small" else "")


def _recorded(entry: Entry, plan: Plan) -> str:
    """The CPU time of a recorded run of the same work."""
    ran = ran_small(entry.label)
    return f"; ran in {ran['cpu_seconds']:.0f} CPU s" if ran and ran["plan"] == plan.fingerprint() else ""


def states(out: Path, resources: Resources = Resources()) -> list[State]:
    """All entries in the paper's order."""
    return [state_of(entry, out, resources) for entry in ENTRIES.values()]
