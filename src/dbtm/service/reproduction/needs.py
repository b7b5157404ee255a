"""The requirements of a plan, and those missing here."""

from importlib.util import find_spec
from pathlib import Path

import torch

from dbtm.evals.judges import smollm2
from dbtm.service.reproduction.entry import Plan
from dbtm.service.reproduction.hours import Hours, hours
from dbtm.service.reproduction.steps.base import Resources


def total_hours(plan: Plan) -> tuple[float, list[Hours]]:
    """GPU hours of a plan of the paper's size, and their parts."""
    parts = hours(plan.order())
    return sum(each.hours for each in parts), parts


def lacking_data(plan: Plan, resources: Resources) -> list[str]:
    return [name for name in plan.data() if name not in resources.data]


def lacking_judge(plan: Plan, resources: Resources) -> str | None:
    """The judge whose package is not installed; weights are fetched on first use."""
    judge = None if plan.judge() is None else resources.judge or plan.judge()
    if judge in (None, "none", "smollm2") or str(judge).endswith(".gguf"):
        return None
    return None if find_spec("transformers") is not None else judge


def fetches_judge(plan: Plan, resources: Resources) -> bool:
    """Whether the judge smollm2 would be fetched first."""
    judge = None if plan.judge() is None else resources.judge or plan.judge()
    return judge == "smollm2" and not Path(smollm2.cache() / smollm2.FILE).is_file()


def lacks_gpu(plan: Plan, resources: Resources) -> bool:
    return plan.gpu() and (resources.device == "cpu" or not torch.cuda.is_available())


def missing(plan: Plan, resources: Resources) -> list[str]:
    """All reasons why a plan cannot run here, in words."""
    found = [f"the data '{name}' is missing" for name in lacking_data(plan, resources)]
    if judge := lacking_judge(plan, resources):
        found.append(f"the judge {judge} needs transformers: pip install 'dbtm[hf]'")
    if lacks_gpu(plan, resources):
        found.append(f"it needs a GPU for about {total_hours(plan)[0]:,.0f} hours")
    return found
