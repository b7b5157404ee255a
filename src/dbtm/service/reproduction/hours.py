"""GPU hours of a plan: counted FLOPs over the measured rate of a similar step."""

from dataclasses import dataclass
from typing import Any

from dbtm.config import RunConfig
from dbtm.evals.cost import cost_of_run
from dbtm.evals.step_cost import planned_flops
from dbtm.service.reproduction import results
from dbtm.service.reproduction.steps.base import Step
from dbtm.service.reproduction.steps.programs import Answered, WrittenOne
from dbtm.service.reproduction.steps.puzzles import Solved, SolvedOne
from dbtm.service.reproduction.steps.text import Judged
from dbtm.service.reproduction.steps.training import Train

MEASURED = ("sudoku-paper", "lm1b", "owt")
"""Recipes whose step was measured on a GPU: results/bench-step-*.json."""
_STEP = "boundary on all rows"  # the paper's step
_BACKBONES = "bench-backbone-compiled"
JUDGES = {"gpt2-large": 774e6, "gpt2": 124e6, "smollm2": 135e6}
"""Parameters: a judge reads a token for twice as many FLOPs."""


@dataclass(frozen=True)
class Hours:
    """Time on one GPU, and how it was computed."""

    hours: float
    how: str


def rate(recipe: str) -> tuple[float, str, str]:
    """FLOPs per second of the measured step nearest to a recipe's, its recipe, and its hardware."""
    family = recipe.partition("-")[0]
    name = {"sudoku": "sudoku-paper", "owt": "owt"}.get(family, "lm1b")
    bench = results.read(f"bench-step-{name}")
    row = next(row for row in bench["rows"] if row["step"] == _STEP)
    return row["flops"] / (row["ms"] / 1e3), name, bench["hardware"].removeprefix("cuda: ")


def training_hours(config: RunConfig) -> Hours:
    per_second, name, hardware = rate(config.recipe)
    flops, slower = planned_flops(config), _slower(config)
    measured = f", {slower:.2f} x as long for its linear mixers (results/{_BACKBONES}.json)" if slower != 1 else ""
    how = (
        f"{config.recipe}: {config.train.steps:,} steps of {config.train.batch} take {flops:.2g} FLOPs by the cost "
        f"counter, at the {per_second / 1e12:.0f} TFLOP/s of {name}'s step on one {hardware} "
        f"(results/bench-step-{name}.json){measured}"
    )
    return Hours(slower * flops / per_second / 3600, how)


def _slower(config: RunConfig) -> float:
    """Measured time of a step with linear mixers in three of four blocks over one with attention, at this length."""
    if config.model.backbone != "delta":
        return 1.0
    rows = results.read(_BACKBONES)["rows"]
    near = min({row["length"] for row in rows}, key=lambda length: abs(length - config.task.length))
    ms = {row["backbone"]: row["step_ms"] for row in rows if row["length"] == near}
    return ms["mixed"] / ms["attention"]


def hours(steps: list[Step]) -> list[Hours]:
    """Hours of each run of the paper's size, and of drawing and judging samples."""
    found = [training_hours(step.configuration()) for step in steps if isinstance(step, Train) and not step.small]
    drawn = sum(_sampling(step) for step in steps)
    return [*found, Hours(drawn, "samples drawn and judged, by the same counter and rates")] if drawn else found


def _sampling(step: Step) -> float:
    """Hours of a step's network evaluations, at the rate of training; a judge's are added."""
    model = getattr(step, "model", None)
    if not isinstance(model, Train) or model.small:
        return 0.0
    config = model.configuration()
    each, (per_second, _, _) = _evaluation(config), rate(config.recipe)
    evaluations, judged = 0.0, 0.0
    if isinstance(step, Judged):
        evaluations = step.n * sum(dict(options).get("nfe", 1) for _, _, options in step.settings)
        judged = 2 * JUDGES.get(step.judge, 1e9) * config.task.length * step.n * len(step.settings)
    elif isinstance(step, Solved):
        evaluations = len(step.clues) * step.n * sum(step.budgets) * max(1, len(step.kappas))
    elif isinstance(step, Answered):
        evaluations = (step.n or 1_319) * sum(step.budgets)
    elif isinstance(step, SolvedOne | WrittenOne):
        evaluations = step.nfe
    return (evaluations * each + judged) / per_second / 3600


_EVALUATIONS: dict[tuple[Any, ...], float] = {}  # many steps sample networks of the same sizes


def _evaluation(config: RunConfig) -> float:
    """FLOPs of one network evaluation, of a whole sequence where the method counts by these."""
    sizes = (config.method, config.model, config.sample, config.shape)
    if sizes not in _EVALUATIONS:
        one = cost_of_run(config)
        _EVALUATIONS[sizes] = one.get("flops_per_sequence", one["flops_per_evaluation"])
    return _EVALUATIONS[sizes]
