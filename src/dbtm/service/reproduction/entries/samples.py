"""Samples of text to read, and perplexity over training."""

from dbtm.service.reproduction.entries import runs
from dbtm.service.reproduction.entry import Entry, Found, Plan, Size
from dbtm.service.reproduction.steps.base import Step
from dbtm.service.reproduction.steps.text import Judged, setting
from dbtm.service.reproduction.steps.training import Train
from dbtm.service.reproduction.table import Rows, Table
from dbtm.viz.reproduction import draw_curves, draw_texts

_ROW = "the sample shown"
_PACKAGED = (
    "Ours is the packaged model (8M parameters, V = 4096, L = 128, Wikipedia and news) under the judge smollm2; the "
    "paper's has 140M to 178M parameters, on {corpus} under GPT-2 Large. Perplexities of different judges do not "
    "compare."
)


# -- fig:samples_* -----------------------------------------------------------------------------------------------------


def _shown(corpus: str, recipe: str, budgets: tuple[int, ...], kappa: float):
    def judged(model: Train | str, **more) -> Judged:
        options = {} if model == "text" else {"kappa": kappa, "repetition_penalty": 1.0}
        settings = tuple(setting(_ROW, f"{nfe} NFE", nfe=nfe, **options) for nfe in budgets)
        return Judged(model=model, settings=settings, n=1, **more)

    def small(size: Size) -> Plan:
        step = judged("text", seconds=10 + sum(budgets) / 10)
        return Plan(
            {"samples": step}, _table, _PACKAGED.format(corpus=corpus), "packaged model", draw=_draw, texts=_texts
        )

    def paper() -> Plan:
        step = judged(runs.paper(recipe), judge="gpt2-large")
        return Plan({"samples": step}, _table, draw=_draw, texts=_texts)

    return small, paper


def _table(found: Found) -> Table:
    cells = {cell["column"]: [cell["perplexity"], cell["entropy"]] for cell in found["samples"]["rows"]}
    return Table.of({_ROW: cells}, "generative perplexity (entropy)")


def _texts(found: Found) -> dict[str, str]:
    return {cell["column"]: cell["text"] for cell in found["samples"]["rows"]}


def _draw(found: Found):
    panels = {}
    for cell in found["samples"]["rows"]:
        judged = "" if cell["perplexity"] is None else f"perplexity {cell['perplexity']:.1f}, "
        panels[f"{cell['column']}: {judged}entropy {cell['entropy']:.2f}"] = ([cell["text"]], None)
    return draw_texts(panels)


# -- fig:onpolicy-gate-lm1b --------------------------------------------------------------------------------------------

_ARMS = {"commit": (), "non-commit": runs.NON_COMMIT}
_BUDGETS = (1, 2, 4)


def _judged_at(model: Train, row: str, step: int, at: int, n: int, **more) -> Judged:
    settings = tuple(setting(f"{row}, {nfe} NFE", str(step), nfe=nfe, repetition_penalty=0.0) for nfe in _BUDGETS)
    return Judged(model=model, settings=settings, n=n, at=at, seconds=10, **more)


def _gate_small(size: Size) -> Plan:
    first, steps = runs.base(size), dict[str, Step]()
    for at in runs.thirds(size.text_steps):
        steps[f"before {at}"] = _judged_at(first, "before rollouts", at, at, size.samples)
    for name, changes in _ARMS.items():
        for at in runs.thirds(size.ril_steps):
            run = runs.ril(size, *changes)
            steps[f"{name} {at}"] = _judged_at(run, name, size.text_steps + at, at, size.samples)
    return Plan(steps, _gate_table, runs.differs(size), runs.TAG, draw=_draw_gate)


def _gate_paper() -> Plan:
    steps, every = dict[str, Step](), tuple(range(10_000, 200_001, 10_000))
    kept = f"train.milestones={list(every)}".replace(" ", "")
    for name, changes in _ARMS.items():
        run = runs.paper("lm1b-ril", kept, *changes)
        for at in every:
            steps[f"{name} {at}"] = _judged_at(run, name, at, at, 4, judge="gpt2")
    return Plan(steps, _gate_table, draw=_draw_gate)


def _points(found: Found) -> dict[str, dict[int, list]]:
    rows: dict[str, dict[int, list]] = {}
    for step in found.values():
        for cell in step["rows"]:
            rows.setdefault(cell["row"], {})[int(cell["column"])] = [cell["perplexity"], cell["entropy"]]
    return rows


def _gate_table(found: Found) -> Table:
    rows: Rows = {}
    for row, points in _points(found).items():
        rows[row] = {f"step {step}": points[step] for step in sorted(points)}
    return Table.of({**_gate_claims(_points(found)), **rows}, "generative perplexity (entropy)")


def _gate_claims(points: dict[str, dict[int, list]]) -> Rows:
    """The caption's claims, of the last points at one evaluation."""
    last = {name: values[max(values)] for name in _ARMS if (values := points.get(f"{name}, 1 NFE"))}
    before = points.get("before rollouts, 1 NFE")
    if before is None:  # one run throughout
        before = {step: value for step, value in points["commit, 1 NFE"].items() if step <= 100_000}
    start = before[max(before)]
    if None in (start[0], last["commit"][0], last["non-commit"][0]):
        return {}
    words = f"{start[0]:.0f} to {last['commit'][0]:.0f}, entropy {start[1]:.2f} to {last['commit'][1]:.2f}"
    other = f"{last['commit'][0]:.0f} against {last['non-commit'][0]:.0f} at the end"
    return {
        "perplexity once rollouts start": {"claim": words},
        "commit against non-commit": {"claim": other},
    }


def _draw_gate(found: Found):
    panels: dict[str, dict[str, tuple[list, list]]] = {}
    for row, points in _points(found).items():
        name, _, budget = row.partition(", ")
        steps = sorted(points)
        if all(points[step][0] is not None for step in steps):
            panels.setdefault(f"perplexity at {budget}", {})[name] = (steps, [points[step][0] for step in steps])
        if budget == "1 NFE":
            panels.setdefault("entropy at 1 NFE", {})[name] = (steps, [points[step][1] for step in steps])
    return draw_curves(panels, "training steps", "")


ENTRIES = (
    Entry(
        "fig:onpolicy-gate-lm1b",
        "Perplexity and entropy over training, before and after rollouts start",
        _gate_small,
        _gate_paper,
    ),
    Entry(
        "fig:samples_refinement_lm1b",
        "A sample of text at 1, 2, 4 and 8 NFE",
        *_shown("LM1B", "lm1b-ril", (1, 2, 4, 8), 0.9),
    ),
    *(
        Entry(
            f"fig:samples_owt_{nfe}",
            f"A sample of text at {nfe} NFE",
            *_shown("OpenWebText", "owt-delta-ril", (nfe,), 0.3),
        )
        for nfe in (16, 32, 256)
    ),
)
