"""Tables of text at given settings: by method and budget, by threshold, by anchor time, by one knob at a time."""

from collections.abc import Iterable
from typing import Any

from dbtm.service.reproduction import results
from dbtm.service.reproduction.entries import runs
from dbtm.service.reproduction.entries.rivals import missing_note, trained
from dbtm.service.reproduction.entry import Entry, Found, Plan, Size
from dbtm.service.reproduction.steps.base import Step
from dbtm.service.reproduction.steps.text import Judged, Setting, setting
from dbtm.service.reproduction.steps.training import Train
from dbtm.service.reproduction.table import Rows, Table

BUDGETS = (1, 2, 4, 8, 16, 128, 256, 1024)
RIVALS = ("Duo + DCD", "Duo + Di4C", "MDLM + SDTT", "MDLM + Di4C", "CFM", "FMLM", "FMLM+", "DFM (PSD)", "DFM (ESD)")
PLAIN = ("AR", "MDLM", "Duo", "FLM")
JUDGE: dict[str, Any] = {"judge": "gpt2-large", "n": 1024}
UNIT = "generative perplexity (entropy)"


def rows_of(found: Iterable[dict]) -> Rows:
    """The cells of judged steps."""
    rows: Rows = {}
    for step in found:
        for cell in step["rows"]:
            rows.setdefault(cell["row"], {})[cell["column"]] = [cell["perplexity"], cell["entropy"]]
    return rows


def _table(found: Found) -> Table:
    rows = rows_of(step for step in found.values() if "rows" in step)
    real = next((step["real"] for step in found.values() if step.get("real")), None)
    if real is not None and rows:
        rows["real held-out text"] = {next(iter(next(iter(rows.values())))): real}
    return Table.of(rows, UNIT)


def _small(steps: dict[str, Step], size: Size, **more) -> Plan:
    return Plan(steps, _table, runs.differs(size), tag=runs.TAG, **more)


# -- tab:language-results, tab:language-results-nfe --------------------------------------------------------------------


def _budgets(row: str, budgets: Iterable[int], column: str = "{nfe} NFE", **options) -> tuple[Setting, ...]:
    return tuple(setting(row, column.format(nfe=nfe), nfe=nfe, **options) for nfe in budgets)


def _rivals(size: Size, column: str, budgets: tuple[int, ...]) -> tuple[dict[str, Step], list[str]]:
    """Rivals that exist here; without distillation they have a row that the paper does not have."""
    found, missing = trained((*RIVALS, *PLAIN), runs.base(size), runs.OURS, size.ril_steps)
    steps: dict[str, Step] = {}
    for name, run in found.items():
        row = name if name in RIVALS else f"{name}, not distilled"
        settings = _budgets(row, budgets, column)
        if run.method == "ar":
            settings = (setting("AR, one evaluation per token", column.format(nfe=budgets[-1])),)
        steps[name] = Judged(model=run, settings=settings, n=size.samples, seconds=15)
    return steps, [name for name in missing if name in RIVALS]


def _language_small(size: Size) -> Plan:
    budgets, n = (1, 2, 4), size.samples
    steps: dict[str, Step] = {}
    for column, linear in (("LM1B {nfe} NFE", False), ("OWT {nfe} NFE", True)):
        first = runs.base(size, *(runs.LINEAR if linear else ()))
        models = {"DBTM": first, "DBTM + ril": runs.ril(size, start=first, linear=linear)}
        for name, run in models.items():
            step = Judged(model=run, settings=_budgets(name, budgets, column), n=n, real=name == "DBTM", seconds=15)
            steps[f"{column} {name}"] = step
    rivals, missing = _rivals(size, "LM1B {nfe} NFE", budgets)
    note = "our OWT rows have the linear-time backbone, as in the paper, but the same small text as the LM1B rows"
    return _small(steps | rivals, size, notes=(note, *missing_note(missing)))


def _language_paper() -> Plan:
    steps = {}
    for column, recipe, kappa in (("LM1B {nfe} NFE", "lm1b", 0.9), ("OWT {nfe} NFE", "owt-delta", 0.3)):
        for name, end in (("DBTM", ""), ("DBTM + ril", "-ril")):
            settings = _budgets(name, (1, 2, 4), column, kappa=kappa, repetition_penalty=1.0)
            steps[recipe + end] = Judged(model=runs.paper(recipe + end), settings=settings, **JUDGE)
    return Plan(steps, _table, notes=_QUOTED)


_QUOTED = ("the paper quotes the other methods' numbers; lm1b-mdlm, owt-mdlm and others train them as published",)


def _nfe_small(size: Size) -> Plan:
    budgets = size.budgets if size.name == "trial" else (1, 2, 4, 8, 16, 128)
    n, linear = size.samples, runs.base(size, *runs.LINEAR)
    models: dict[str, Train] = {
        "LM1B, DBTM": runs.base(size),
        "LM1B, DBTM + ril": runs.ril(size),
        "OWT, DBTM (lin)": linear,
        "OWT, DBTM + ril (lin)": runs.ril(size, start=linear, linear=True),
    }
    steps: dict[str, Step] = {
        name: Judged(model=run, settings=_budgets(name, budgets), n=n, seconds=25) for name, run in models.items()
    }
    few = budgets if size.name == "trial" else budgets[:5]
    packaged = _budgets("the packaged model, 8M parameters, V = 4096, L = 128", few)
    steps["packaged"] = Judged(model="text", settings=packaged, n=n // 2, seconds=60)
    found, missing = trained(("FMLM", "DFM (PSD)", "DFM (ESD)", "FMLM+"), runs.base(size), runs.OURS, size.ril_steps)
    for name, run in found.items():
        steps[name] = Judged(model=run, settings=_budgets(f"LM1B, {name}", budgets), n=n, seconds=25)
    return _small(steps, size, notes=missing_note(missing))


def _nfe_paper() -> Plan:
    names = {
        "lm1b": ("LM1B, DBTM{ril}", 0.9),
        "owt": ("OWT, DBTM{ril} (attn)", 0.3),
        "owt-delta": ("OWT, DBTM{ril} (lin)", 0.3),
    }
    steps = {}
    for recipe, (name, kappa) in names.items():
        for end, ril in (("", ""), ("-ril", " + ril")):
            settings = _budgets(name.format(ril=ril), BUDGETS, kappa=kappa, repetition_penalty=1.0)
            steps[recipe + end] = Judged(model=runs.paper(recipe + end), settings=settings, **JUDGE)
    return Plan(steps, _table, notes=_QUOTED)


def _standing(column: str, names: dict[str, str], budgets: tuple[int, ...]) -> Table:
    """Our 47M models on Wikipedia and news (results/text.json), under smollm2."""
    rows: Rows = {}
    for arm, name in names.items():
        for row in results.read("text")["arms"][arm]["evaluation"]["rows"]:
            nfe = row["settings"].get("nfe")
            if row["kind"] == "sample" and nfe in budgets:
                value = [row["perplexity"], row["entropy"]]
                rows.setdefault(f"{name} (47M, V = 8192, smollm2)", {})[column.format(nfe=nfe)] = value
    return Table.of(rows, UNIT)


# -- tab:commit-vs-noncommit -------------------------------------------------------------------------------------------


def grid(name: str, budgets: Iterable[int], kappas: Iterable[float], **options) -> tuple[Setting, ...]:
    """Rows by budget, columns by threshold."""
    column = name + " {kappa:g}"
    return tuple(
        setting(f"{nfe} NFE", column.format(kappa=kappa), nfe=nfe, kappa=kappa, **options)
        for nfe in budgets
        for kappa in kappas
    )


_KAPPAS = (0.5, 0.7, 0.9, 0.99, 0.999)


def _commit_small(size: Size) -> Plan:
    steps: dict[str, Step] = {}
    for name, changes in (("commit", ()), ("non-commit", runs.NON_COMMIT)):
        settings = grid(name, size.budgets, (0.5, 0.9, 0.999), commit=name == "commit", repetition_penalty=0.0)
        steps[name] = Judged(model=runs.ril(size, *changes), settings=settings, n=size.samples, seconds=40)
    return _small(steps, size)


def _commit_paper() -> Plan:
    steps = {}
    for name, changes in (("commit", ()), ("non-commit", runs.NON_COMMIT)):
        settings = grid(name, (1, 2, 4, 8, 16), _KAPPAS, commit=name == "commit", repetition_penalty=0.0)
        steps[name] = Judged(model=runs.paper("lm1b-ril", *changes), settings=settings, **JUDGE)
    return Plan(steps, _table, notes=("both arms without a repetition penalty, which held distributions do not have",))


def study(name: str, rename=str) -> Rows:
    """A study of the packaged model in results/."""
    rows: Rows = {}
    for cell in results.read("text-small-studies")["studies"]:
        if cell["study"] == name:
            rows.setdefault(cell["row"], {})[rename(cell["column"])] = [cell["perplexity"], cell["entropy"]]
    return rows


def _commit_standing() -> Table:
    return Table.of({f"{nfe} NFE": cells for nfe, cells in study("commit").items()}, UNIT)


# -- tab:anchor-ablation -----------------------------------------------------------------------------------------------

_ANCHORS = ("0.60", "0.75", "0.80", "0.85")


def _anchor_small(size: Size) -> Plan:
    steps: dict[str, Step] = {}
    for anchor in _ANCHORS:
        changes = () if anchor == "0.75" else (f"method.path.t_anchor={float(anchor)}",)
        settings = grid(f"{anchor}, kappa", size.budgets, (0.7, 0.999))
        steps[anchor] = Judged(model=runs.base(size, *changes), settings=settings, n=size.samples, seconds=30)
    return _small(steps, size, notes=("trained without rollouts, unlike the paper's, to stay within minutes",))


def _anchor_paper() -> Plan:
    steps = {}
    for anchor in _ANCHORS:
        changes = () if anchor == "0.75" else (f"method.path.t_anchor={float(anchor)}",)
        settings = grid(f"{anchor}, kappa", (1, 2, 4, 8, 16), _KAPPAS[1:], repetition_penalty=1.0)
        steps[anchor] = Judged(model=runs.paper("lm1b-ril", *changes), settings=settings, **JUDGE)
    return Plan(steps, _table)


# -- tab:ablation-lm1b -------------------------------------------------------------------------------------------------


def _ablation(first: Train, arms: dict[str, Train], n: int, judge: str) -> dict[str, Step]:
    """One knob at a time off the first run, at 1 and 8 evaluations."""
    both = (1, 8)
    settings = [s for row in ("sigma: 1.0", "a: 1", "c: 1", "scorer: confidence") for s in _budgets(row, both)]
    settings += _budgets("scorer: quality head", both, scorer="quality")
    steps: dict[str, Step] = {"default": Judged(model=first, settings=tuple(settings), n=n, judge=judge, seconds=25)}
    for row, run in arms.items():
        more = _budgets(row, both)
        if row == "sigma: 1.2":  # the paper compares the rules on this run
            more += _budgets("rule: iterate the map", both, sampler="iterate") + _budgets(
                "rule: renoise and remap", both
            )
        steps[row] = Judged(model=run, settings=more, n=n, judge=judge, seconds=15)
    return steps


_KNOBS = {"sigma: 1.2": "method.path.sigma=1.2", "a: 2": "method.path.a=2", "c: 1e-5": "method.loss.c=1e-05"}


def _ablation_small(size: Size) -> Plan:
    arms = {row: runs.base(size, change) for row, change in _KNOBS.items()}
    return _small(_ablation(runs.base(size), arms, size.samples, "smollm2"), size)


def _ablation_paper() -> Plan:
    few = "train.batch=128"
    arms = {row: runs.paper("lm1b", few, change) for row, change in _KNOBS.items()}
    note = "batch size 128, from the table's caption; it does not give the number of steps: we use 200,000"
    return Plan(_ablation(runs.paper("lm1b", few), arms, 1024, "gpt2-large"), _table, notes=(note,))


def _ablation_standing() -> Table:
    rows: Rows = {}
    for name, row in (("iterate", "rule: iterate the map"), ("renoise + remap", "rule: renoise and remap")):
        rows[row] = {f"{nfe} NFE": cells[name] for nfe, cells in study("iterate").items() if nfe in ("1", "8")}
    rows["scorer: confidence"] = {
        f"{nfe} NFE": cells["confidence"] for nfe, cells in study("scorer").items() if nfe in ("1", "8")
    }
    return Table.of(rows, UNIT)


# -- tab:autonomous-field-horizon --------------------------------------------------------------------------------------

_ROW = "perplexity (entropy)"


def _horizon(model: Train | str, n: int, judge: str) -> Judged:
    settings = [setting(_ROW, f"H = {h}", sampler="integrate", nfe=64, horizon=float(h)) for h in (1, 4, 8)]
    settings.append(setting(_ROW, "one-step map", nfe=1))
    return Judged(model=model, settings=tuple(settings), n=n, judge=judge, seconds=25)


def _horizon_small(size: Size) -> Plan:
    note = "the field integrated is T(x) - x, which is not the autonomous field b itself (docs/theory.md)"
    return _small({"horizon": _horizon(runs.base(size), size.samples, "smollm2")}, size, notes=(note,))


def _horizon_paper() -> Plan:
    return Plan({"horizon": _horizon(runs.paper("lm1b"), 1024, "gpt2-large")}, _table)


ENTRIES = (
    Entry(
        "tab:language-results",
        "Perplexity and entropy of text at 1, 2 and 4 NFE, against distilled diffusion and flow maps",
        _language_small,
        _language_paper,
        lambda: _standing("LM1B {nfe} NFE", {"text": "DBTM", "text-distill": "DBTM + ril"}, (1, 2, 4)),
        ("text",),
        "Wikipedia and news, smollm2",
    ),
    Entry(
        "tab:commit-vs-noncommit",
        "Rollouts that commit tokens against rollouts that hold distributions, by NFE and threshold",
        _commit_small,
        _commit_paper,
        _commit_standing,
        ("text-small-studies",),
        "packaged 8M model, smollm2",
    ),
    Entry(
        "tab:language-results-nfe",
        "Perplexity and entropy of text up to 1,024 NFE",
        _nfe_small,
        _nfe_paper,
        lambda: _standing("{nfe} NFE", {"text": "LM1B, DBTM", "text-distill": "LM1B, DBTM + ril"}, BUDGETS),
        ("text",),
        "Wikipedia and news, smollm2",
    ),
    Entry(
        "tab:autonomous-field-horizon",
        "Integrating the field of the map up to a horizon, against the map itself",
        _horizon_small,
        _horizon_paper,
        lambda: Table.of({_ROW: study("horizon")["64 Euler steps"]}, UNIT),
        ("text-small-studies",),
        "packaged 8M model, smollm2",
    ),
    Entry(
        "tab:ablation-lm1b",
        "One setting at a time: noise, schedule, adaptive constant, scorer, refinement rule",
        _ablation_small,
        _ablation_paper,
        _ablation_standing,
        ("text-small-studies",),
        "packaged 8M model, smollm2",
    ),
    Entry(
        "tab:anchor-ablation",
        "Perplexity by the time from which the anchor supervises",
        _anchor_small,
        _anchor_paper,
    ),
)
