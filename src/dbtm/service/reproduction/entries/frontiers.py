"""Frontiers of perplexity against entropy over the knobs of the sampler, as tables and as figures."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dbtm.evals.sweep.frontier import Point, frontier, perplexity_at
from dbtm.evals.sweep.outcome import Curves
from dbtm.service.reproduction import results
from dbtm.service.reproduction.entries import runs
from dbtm.service.reproduction.entries.rivals import missing_note, trained
from dbtm.service.reproduction.entries.theory import simplex_rows
from dbtm.service.reproduction.entry import Entry, Found, Plan, Size
from dbtm.service.reproduction.steps.base import Step
from dbtm.service.reproduction.steps.plain import TheoryFigure
from dbtm.service.reproduction.steps.text import Judged, Setting, setting
from dbtm.service.reproduction.steps.training import Train
from dbtm.service.reproduction.table import Rows, Table
from dbtm.viz.frontier import draw_frontiers

UNIT = "generative perplexity; best with its entropy"
_OFFSETS = (-0.3, -0.2, -0.1, 0.0, 0.1)  # of the entropies compared at, around real text's
SMALL_KNOBS = {"temperature": (0.0, 0.5, 1.0), "kappa": (0.5, 0.99), "repetition_penalty": (0.0,)}
PAPER_KNOBS = {
    "temperature": (0.0, 0.3, 0.5, 0.7, 0.85, 1.0, 1.2),
    "sigma": (0.6, 0.8, 1.2, 1.5, 2.0, 3.0, 5.0),
    "kappa": (0.1, 0.3, 0.5, 0.7, 0.99, 0.999),
    "repetition_penalty": (0.0, 0.5),
}
_RIVALS = {"lm1b": ("FMLM",), "owt": ("FMLM", "FMLM+")}


def _settings(budgets: Sequence[int], knobs: Mapping[str, Sequence[float]]) -> tuple[Setting, ...]:
    """One knob at a time off the run's own settings; one evaluation commits everything, so that some have no effect."""
    found = []
    for nfe in budgets:
        for knob, values in knobs.items():
            for value in values if nfe > 1 or knob in ("temperature", "sigma") else ():
                found.append(setting(str(nfe), f"{knob} {value:g}", nfe=nfe, **{knob: value}))
    return tuple(found)


# -- the table ---------------------------------------------------------------------------------------------------------


def _curves(found: Found) -> Iterator[Curves]:
    """The points of every model, by budget."""
    for name, step in found.items():
        if "rows" not in step:
            continue
        points: dict[int, list[Point]] = {}
        for number, row in enumerate(step["rows"]):
            if row["perplexity"] is not None:
                points.setdefault(int(row["row"]), []).append(Point(row["entropy"], row["perplexity"], number))
        real = step.get("real")
        known = None if real is None or real[0] is None else Point(real[1], real[0])
        yield Curves(name, points, [row["settings"] for row in step["rows"]], known)


def _table(found: Found) -> Table:
    return Table.of(frontier_rows(list(_curves(found))), UNIT)


def frontier_rows(sweeps: Sequence[Curves], entropies: Sequence[float] | None = None) -> Rows:
    """Best, the end of low perplexity, as the paper has it; the range; and perplexity at equal entropies."""
    real = next((each.real for each in sweeps if each.real), None)
    if entropies is None:
        entropies = [] if real is None else [round(real.entropy + offset, 2) for offset in _OFFSETS]
    rows: Rows = {}
    for nfe in sorted({nfe for each in sweeps for nfe in each.points}):
        for each in sweeps:
            curve = frontier(each.points.get(nfe, []))
            if curve:
                first, last = curve[0], curve[-1]
                cells: dict[str, Any] = {
                    "best": [first.perplexity, first.entropy],
                    "entropies": f"{first.entropy:.2f}-{last.entropy:.2f}",
                }
                cells |= {f"{entropy:.2f}": perplexity_at(entropy, curve) for entropy in entropies}
                rows[f"{nfe} NFE, {each.label}"] = cells
    if real is not None:
        rows["real held-out text"] = {"best": [real.perplexity, real.entropy]}
    return rows


def _draw(found: Found):
    judge = next((step["judge"] for step in found.values() if "judge" in step), "no judge")
    return draw_frontiers(list(_curves(found)), judge)


# -- plans -------------------------------------------------------------------------------------------------------------


def _models_small(size: Size, which: str) -> dict[str, Train]:
    if which == "lm1b":
        return {"DBTM": runs.base(size), "DBTM + ril": runs.ril(size)}
    linear = runs.base(size, *runs.LINEAR)
    return {
        "DBTM (attn)": runs.base(size),
        "DBTM + ril (attn)": runs.ril(size),
        "DBTM (lin)": linear,
        "DBTM + ril (lin)": runs.ril(size, start=linear, linear=True),
    }


def _plan_small(which: str, figure: bool):
    def plan(size: Size) -> Plan:
        models = _models_small(size, which)
        rivals, missing = trained(_RIVALS[which], runs.base(size), runs.OURS, size.ril_steps)
        steps: dict[str, Step] = {}
        for i, (name, run) in enumerate(models.items()):
            settings = _settings(size.budgets, SMALL_KNOBS)
            steps[name] = Judged(model=run, settings=settings, n=size.samples, real=i == 0, seconds=50)
        for name, run in rivals.items():
            settings = tuple(setting(str(nfe), "", nfe=nfe) for nfe in size.budgets)
            steps[name] = Judged(model=run, settings=settings, n=size.samples, seconds=20)
        return _finished(steps, which, figure, runs.differs(size), runs.TAG, missing_note(missing))

    return plan


def _plan_paper(which: str, figure: bool):
    def plan() -> Plan:
        names = {"lm1b": {"DBTM": "lm1b", "DBTM + ril": "lm1b-ril"}}.get(which) or {
            "DBTM (attn)": "owt",
            "DBTM + ril (attn)": "owt-ril",
            "DBTM (lin)": "owt-delta",
            "DBTM + ril (lin)": "owt-delta-ril",
        }
        settings = _settings((1, 2, 4, 8, 16), PAPER_KNOBS)
        steps: dict[str, Step] = {
            name: Judged(model=runs.paper(recipe), settings=settings, n=1024, judge="gpt2-large", real=i == 0)
            for i, (name, recipe) in enumerate(names.items())
        }
        notes = ("one knob is varied at a time, over the paper's ranges; the paper does not give its grids",)
        return _finished(steps, which, figure, "", "", notes)

    return plan


def _finished(steps: dict[str, Step], which: str, figure: bool, differs: str, tag: str, notes: tuple[str, ...]) -> Plan:
    if not figure:
        return Plan(steps, _table, differs, tag, notes=notes)
    if which == "lm1b":
        return Plan(steps, _table, differs, tag, notes=notes, draw=_draw)
    top = TheoryFigure(figure="simplex", seconds=15)
    return Plan({"top": top, **steps}, _with_simplex, differs, tag, notes=notes, draw=_draw, files=("top",))


def _with_simplex(found: Found) -> Table:
    rows = simplex_rows(found["top"]["numbers"])
    return Table.of({**rows, **_table(found).rows}, UNIT)


def _standing() -> Table:
    """The packaged model's sweep under smollm2."""
    rows: Rows = {}
    for record in results.read("text-small-sweep")["frontier"]:
        curve = [Point(point["entropy"], point["perplexity"]) for point in record["frontier"]]
        cells: dict[str, Any] = {
            "best": [curve[0].perplexity, curve[0].entropy],
            "entropies": f"{curve[0].entropy:.2f}-{curve[-1].entropy:.2f}",
        }
        cells |= {f"{e:.2f}": perplexity_at(e, curve) for e in (4.0, 4.1, 4.15, 4.2, 4.25, 4.3)}
        rows[f"{record['nfe']} NFE, the packaged model (8M, V = 4096, smollm2)"] = cells
    return Table.of(rows, UNIT)


ENTRIES = (
    Entry(
        "fig:discrete-btm",
        "Field and transport map on the 2-simplex; frontiers of perplexity against entropy on OpenWebText",
        _plan_small("owt", True),
        _plan_paper("owt", True),
        lambda: Table.of(simplex_rows(results.read("theory/simplex")["numbers"])),
        ("theory/simplex",),
    ),
    Entry(
        "fig:generative-frontier-lm1b",
        "Frontiers of perplexity against entropy on LM1B, by NFE",
        _plan_small("lm1b", True),
        _plan_paper("lm1b", True),
        _standing,
        ("text-small-sweep",),
        "packaged 8M model, smollm2",
    ),
    Entry(
        "tab:decode-frontier-lm1b",
        "The LM1B frontiers in numbers: best perplexity, and perplexity at equal entropy",
        _plan_small("lm1b", False),
        _plan_paper("lm1b", False),
        _standing,
        ("text-small-sweep",),
        "packaged 8M model, smollm2",
    ),
    Entry(
        "tab:decode-frontier-owt",
        "The OpenWebText frontiers in numbers, attention against the linear-time backbone",
        _plan_small("owt", False),
        _plan_paper("owt", False),
    ),
)
