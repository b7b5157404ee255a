"""Tables of settings and of formulas, computed from the recipes: nothing to train."""

import math
from typing import Any

from dbtm.config import RunConfig
from dbtm.core.registry import METHODS
from dbtm.evals.cost import cost_of_run
from dbtm.methods.base import method_of
from dbtm.methods.dbtm import Config, Options
from dbtm.recipes import recipe
from dbtm.service.reproduction.entry import Entry, Found, Plan, Size
from dbtm.service.reproduction.steps.plain import Computed
from dbtm.service.reproduction.steps.puzzles import Solved
from dbtm.service.reproduction.table import Rows, Table, Value
from dbtm.simplex.phase import commitment_time

_HERE = "dbtm.service.reproduction.entries.settings"
_TASKS = {"LM1B": "lm1b", "OpenWebText": "owt", "TinyGSM": "tinygsm", "Sudoku": "sudoku-paper"}


def _of(config: RunConfig) -> tuple[Config, Options]:
    assert isinstance(config.method, Config)
    assert isinstance(config.sample, Options)
    return config.method, config.sample


# -- tab:optimal-anchor ------------------------------------------------------------------------------------------------


def optimal_anchor() -> Rows:
    """t* of every task, from its vocabulary, noise and schedule."""
    rows: Rows = {}
    for column, name in _TASKS.items():
        config = recipe(name)
        path, V = _of(config)[0].path, config.task.vocab
        values: dict[str, Value] = {
            "vocabulary": V,
            "noise scale sigma": path.sigma,
            "schedule exponent a": path.a,
            "sqrt(2 log V)": round(math.sqrt(2 * math.log(V)), 3),
            "optimal t_anchor": round(commitment_time(V, path.sigma, path.a), 3),
        }
        for row, value in values.items():
            rows.setdefault(row, {})["GSM8K" if column == "TinyGSM" else column] = value
    return rows


# -- tab:hyperparameters -----------------------------------------------------------------------------------------------


def hyperparameters() -> Rows:
    """The settings of the paper's four recipes, as they are here."""
    rows: Rows = {}
    for column, name in _TASKS.items():
        for row, value in _hyperparameters(recipe(name)).items():
            rows.setdefault(row, {})[column] = value
    return rows


def _hyperparameters(config: RunConfig) -> dict[str, Value]:
    (method, sample), model, optim, train = _of(config), config.model, config.optim, config.train
    path, loss = method.path, method.loss
    names = {"adamw": "AdamW"}
    schedule = {"constant": "constant after warm-up"}.get(optim.schedule, optim.schedule)
    return {
        "hidden size": model.width,
        "adaLN dimension": model.cond_dim,
        "layers": model.depth,
        "attention heads": model.heads,
        "FFN multiplier": model.ffn,
        "dropout": model.dropout,
        "sequence length": config.task.length,
        "vocabulary": config.task.vocab,
        "parameters, about": f"{cost_of_run(config)['parameters'] / 1e6:.0f}M",
        "optimizer": f"{names.get(optim.name, optim.name)} {optim.betas[0]}, {optim.betas[1]}, {optim.eps}",
        "weight decay": optim.weight_decay,
        "gradient clipping": optim.clip,
        "schedule": schedule,
        "peak learning rate": optim.lr,
        "steps, at most": train.steps,
        "global batch": train.batch,
        "batch per GPU": train.micro_batch or train.batch,
        "precision": train.precision,
        "EMA decay": optim.ema,
        "interpolant": "linear" if path.a == 1 else f"(1 - t)^{path.a:g}",
        "noise scale sigma": path.sigma,
        "coupling": {"ot": "optimal transport"}.get(path.coupling, path.coupling),
        "schedule per token": "clean context" if path.context else "one time",
        "time": "uniform",
        "t_anchor": path.t_anchor,
        "weights: anchor, semigroup, boundary": f"{loss.anchor:g}, {loss.semigroup:g}, {loss.boundary:g}",
        "adaptive c: transport, endpoint": f"{loss.c:g}, {loss.endpoint_c:g}",
        "adaptive r: transport, endpoint": f"{loss.r:g}, {loss.endpoint_r:g}",
        "commit threshold kappa": sample.kappa,
        "commit scorer": {"quality": "quality head"}.get(sample.scorer, sample.scorer),
        "commit temperature": sample.temperature,
        "prior scale sigma": sample.sigma or path.sigma,
        "repetition penalty": sample.repetition_penalty,
    }


# -- tab:ril-setup -----------------------------------------------------------------------------------------------------


def ril_setup() -> Rows:
    """Refinement in the loop, as the recipes have it."""
    rows: Rows = {}
    for column, name in (("LM1B", "lm1b-ril"), ("Sudoku", "sudoku-paper")):
        for row, value in _ril(_of(recipe(name))[0]).items():
            rows.setdefault(row, {})[column] = value
    return rows


def _ril(method: Config) -> dict[str, Value]:
    ril, distill = method.ril, method.distill
    on = bool(distill.weight)
    return {
        "rollout depth k": ", ".join(map(str, ril.depths)) if len(ril.depths) > 1 else ril.depths[0],
        "depths supervised": "all",
        "samples per datum": 1,
        "selection": "confidence in x1",
        "threshold kappa": ril.kappa,
        "coupling of noise and data": {"ot": "optimal transport"}.get(method.path.coupling, method.path.coupling),
        "fresh noise": "on" if ril.fresh_noise else "off",
        "self-distillation": "on" if on else "off",
        "commitment of the teacher": ("commit" if distill.commit else "non-commit") if on else None,
        "soft target": "yes" if on else None,
        "temperature of the target": distill.temperature if on else None,
        "self-distillation from step": distill.start if on else None,
        "teacher refreshed every": distill.refresh if on else None,
        "depths distilled": ", ".join(map(str, range(distill.depth))) if on else None,
    }


# -- tab:flowmap-vs-dbtm -----------------------------------------------------------------------------------------------


FLOW_MAPS = ("fmlm", "dfm", "cfm")
"""Methods of that kind, where they exist here."""


def times_and_teachers() -> Rows:
    """What a method's network takes as input and what its training needs, read off the method itself."""
    rows: Rows = {}
    here = [name for name in FLOW_MAPS if name in METHODS.names()]
    for column, name in (("DBTM", "dbtm"), *(("flow maps", name) for name in here[:1])):
        method = method_of(recipe("lm1b").by(name))
        times = method.outline().trunk.times
        rows.setdefault("time conditioning", {})[column] = f"yes, {times}" if times else "no"
        rows.setdefault("teacher", {})[column] = "yes" if "teacher" in method.needs else "no"
    return rows


def _flow_maps(size: Size) -> Plan:
    """What can be measured of it: of the methods, and the packaged Sudoku model's evaluations within a budget of 64."""
    steps = {
        "methods": Computed(function=f"{_HERE}.times_and_teachers", seconds=1),
        "solved": Solved(model="sudoku", clues=(30,), n=size.puzzles, budgets=(2, 64), seconds=30),
    }
    differs = f"Ours is measured on the packaged Sudoku model, {size.puzzles} puzzles; the paper's are words."
    return Plan(steps, _qualities, differs, "packaged model")


def _qualities(found: Found) -> Table:
    rows = {row["budget"]: row for row in found["solved"]["rows"]}
    few, many = rows[2], rows[64]
    rate, nfe = next(iter(few["rates"].values())), many["nfe"]
    stops = f"{'yes' if nfe < 60 else 'no'}: {nfe:.1f} evaluations used of 64 allowed"
    return Table.of(
        {
            "few-step generation": {"DBTM": f"{rate:.0f} % of puzzles solved in 2 evaluations"},
            **found["methods"]["rows"],
            "stops by itself": {"DBTM": stops},
        }
    )


def _computed(function: str) -> Any:
    def plan(size: Size) -> Plan:
        return Plan(
            {"rows": Computed(function=f"{_HERE}.{function}", seconds=1)}, lambda f: Table.of(f["rows"]["rows"])
        )

    return plan


ENTRIES = (
    Entry("tab:flowmap-vs-dbtm", "How DBTM differs from flow maps: what each needs and can do", _flow_maps),
    Entry(
        "tab:optimal-anchor", "The commitment time t* of each task, from V, sigma and a", _computed("optimal_anchor")
    ),
    Entry("tab:ril-setup", "Settings of refinement in the loop on LM1B and Sudoku", _computed("ril_setup")),
    Entry("tab:hyperparameters", "Settings of the four tasks", _computed("hyperparameters")),
)
