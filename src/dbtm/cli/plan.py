"""`dbtm plan`: estimated cost of a run on a number of GPUs."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbtm.cli.common import print_whole
from dbtm.cli.console import say
from dbtm.core.errors import UsageError

if TYPE_CHECKING:
    from dbtm.service.planning import Option, Plan


def plan(
    recipe: Annotated[str, typer.Argument(help="See `dbtm recipes`.")],
    gpus: Annotated[int, typer.Option(help="GPUs, 1 to 4096, in nodes of eight.")] = 8,
    gpu: Annotated[str, typer.Option(help="a100, h100, h200 or b200.")] = "h200",
    method: Annotated[str | None, typer.Option(help="Another method than the recipe's.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="section.key=value, as in `dbtm train`.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
) -> None:
    """Plan a run: memory per GPU by part, step time, days, GPU-hours, communication, and the layout that fits best."""
    from dbtm.service.planning import PlanRequest
    from dbtm.service.planning import plan as plan_run

    found = plan_run(PlanRequest(recipe, method, tuple(set_ or ()), gpus, gpu))
    if as_json:
        say(json.dumps(_document(found), indent=2))
    else:
        _print(found)
    if found.best is None:
        least = min(found.options, key=lambda option: option.bytes)
        raise UsageError(
            f"no layout fits: the smallest ({_name(least)}) takes {least.bytes / 2**30:,.0f} GiB of "
            f"{found.gpu.memory / 2**30:,.0f} per GPU: use more GPUs, or a smaller model"
        )


def _name(option: "Option") -> str:
    return option.layout + (", recompute" if option.recompute else "")


def _settings(plan: "Plan", option: "Option") -> list[str]:
    """The settings of `dbtm train` for an option."""
    out = [] if plan.gpus == 1 else [f"train.layout={option.layout}"]
    out += ["train.recompute=true"] if option.recompute else []
    if option.micro_batch != (plan.config.train.micro_batch or plan.config.train.batch // plan.gpus):
        out.append(f"train.micro_batch={option.micro_batch}")
    return out


def _document(plan: "Plan") -> dict[str, Any]:
    return {
        "recipe": plan.config.recipe,
        "gpu": plan.gpu.name,
        "gpus": plan.gpus,
        "parameters": plan.parameters,
        "flops_per_step": plan.flops,
        "steps": plan.config.train.steps,
        "batch": plan.config.train.batch,
        "options": [_row(plan, option) for option in plan.options],
    }


def _row(plan: "Plan", option: "Option") -> dict[str, Any]:
    time = option.time
    return {
        "layout": option.layout,
        "recompute": option.recompute,
        "shards": option.shards,
        "micro_batch": option.micro_batch,
        "fits": option.fits,
        "memory_gib": {name: round(value / 2**30, 3) for name, value in option.memory.items()},
        "total_gib": round(option.bytes / 2**30, 3),
        "step_seconds": time.total,
        "compute_seconds": time.compute,
        "optimizer_seconds": time.optimizer,
        "communication_seconds": time.communication,
        "communication_share": time.exposed / time.total,
        "tokens_per_second": plan.tokens_per_second(option),
        "days": plan.seconds(option) / 86400,
        "gpu_hours": plan.gpu_hours(option),
        "settings": _settings(plan, option),
    }


def _print(plan: "Plan") -> None:
    from rich.table import Table

    train = plan.config.train
    say(
        f"{plan.config.recipe}: {plan.parameters / 1e6:,.0f}M parameters, {train.steps:,} steps of {train.batch:,} x "
        f"{plan.config.shape.length:,} tokens, {plan.flops / 1e12:,.1f} TFLOP each, on {plan.gpus:,} x {plan.gpu.name}"
    )
    table = Table(box=None, pad_edge=False)
    for column in ("layout", "micro-batch", "GiB/GPU", "step", "tokens/s", "days", "GPU-hours", "comm."):
        table.add_column(column, justify="left" if column == "layout" else "right", no_wrap=True)
    for option in plan.options:
        cells = [_name(option), f"{option.micro_batch}", f"{option.bytes / 2**30:,.1f}"]
        if option.fits:
            time = option.time
            cells += [f"{1e3 * time.total:,.0f} ms", f"{plan.tokens_per_second(option):,.0f}"]
            cells += [f"{plan.seconds(option) / 86400:,.2f}", f"{plan.gpu_hours(option):,.0f}"]
            cells += [f"{time.exposed / time.total:.0%}"]
        else:
            cells.append("does not fit")
        table.add_row(*cells, style="bold" if option is plan.best else None)
    print_whole(table)
    if (best := plan.best) is not None:
        parts = ", ".join(f"{name} {value / 2**30:,.1f}" for name, value in best.memory.items())
        say(f"memory per GPU in GiB ({_name(best)}): {parts}")
        if settings := _settings(plan, best):
            say("settings: " + " ".join(f"--set {setting}" for setting in settings))
    say("an estimate (docs/scale.md): one H200 is measured, links and other GPUs are data sheets")
