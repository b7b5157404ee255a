"""`dbtm reproduce NAME`: a table or figure of the paper, our numbers beside the paper's; `dbtm reproduce list`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbtm.cli import common, files, tables
from dbtm.cli.console import complain, open_console, say
from dbtm.cli.options import Device
from dbtm.core.errors import UsageError, nearest

if TYPE_CHECKING:
    from dbtm.service.progress import Progress
    from dbtm.service.reproduction.entry import Entry, Plan
    from dbtm.service.reproduction.running import Reproduction
    from dbtm.service.reproduction.steps.base import Resources

SCALES = ("small", "paper")
GETS = {
    "lm1b": "dbtm data lm1b --out DIR",
    "owt": "dbtm data owt --out DIR",
    "tinygsm": "dbtm data gsm8k --hub TinyGSM/TinyGSM --tokenizer HuggingFaceTB/SmolLM-135M --length 512 --out DIR",
    "gsm8k": "GSM8K's test.jsonl, with question and answer",
}
"""Data that the paper's scale needs, and the command that makes it."""
_DATA = "Data as NAME=PATH, repeatable: lm1b, owt, tinygsm, gsm8k; or a folder of prepared text for the small scale."


def reproduce(
    name: Annotated[
        str, typer.Argument(help="Label of a table or figure, such as sudoku-threshold-sweep; `list`; or `all`.")
    ],
    scale: Annotated[str, typer.Option(help="small: minutes on two CPU cores. paper: the paper's setting.")] = "small",
    out: Annotated[Path, typer.Option(help="Folder for the results; run the command again to resume.")] = Path(
        "reproduce"
    ),
    data: Annotated[list[str] | None, typer.Option(help=_DATA)] = None,
    judge: Annotated[
        str | None, typer.Option(help="Judge of text (default: smollm2; gpt2-large at the paper's scale), or none.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print what it needs and run nothing.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the numbers to this file.")] = None,
    device: Device = "auto",
) -> None:
    """Run a table or figure of the paper and print our numbers beside the paper's; stop and resume at any time."""
    if scale not in (*SCALES, "trial"):
        raise UsageError(f"--scale {scale} is not a choice{nearest(scale, SCALES)}")
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out} is a file: give a folder")
    files.check("--json", json_file)
    given = _given(data or [])
    if name == "list":
        return _list(out, given, judge, device, json_file)

    from dbtm.service.reproduction.registry import ENTRIES, find
    from dbtm.service.reproduction.steps.base import Resources

    resources = Resources(given, judge, device)
    entries = list(ENTRIES.values()) if name == "all" else [find(name)]
    if name == "all" and json_file is not None:
        raise UsageError("--json holds one table: leave it out; --out has a file per table")
    for entry in entries:
        if plan:
            _print_plan(entry, resources, out)
        else:
            _run(entry, scale, out, resources, json_file)
    return None


def _given(words: list[str]) -> dict[str, Path]:
    """--data as {name: path}; a path without a name is text for the small scale."""
    found: dict[str, Path] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not equals:
            name, path = "text", word
        if name not in (*GETS, "text"):
            raise UsageError(f"--data {word}: there is no data '{name}'{nearest(name, [*GETS, 'text'])}")
        if not Path(path).exists():
            raise UsageError(f"--data {word}: {path} does not exist")
        found[name] = Path(path)
    return found


# -- list --------------------------------------------------------------------------------------------------------------


def _list(out: Path, given: dict[str, Path], judge: str | None, device: str, json_file: Path | None) -> None:
    from rich.table import Table

    from dbtm.service.reproduction.states import states
    from dbtm.service.reproduction.steps.base import Resources

    found = states(out, Resources(given, judge, device))
    table = Table()
    for column in ("table or figure", "what it shows", "scale small", "scale paper", "ours in results/"):
        table.add_column(column, overflow="fold")
    for state in found:
        table.add_row(state.entry.label, state.entry.caption, *state.by_scale.values(), state.results or "-")
    open_console().print(table)
    say("GPU hours: counted FLOPs over measured step rates; `dbtm reproduce NAME --plan` has the details")
    document = [{"label": s.entry.label, **s.by_scale, "results": s.results} for s in found]
    tables.write_json(json_file, {"entries": document})


# -- one ---------------------------------------------------------------------------------------------------------------


def _print_plan(entry: "Entry", resources: "Resources", out: Path) -> None:
    """Recipes, data, judge and time at both scales."""
    from dbtm.service.reproduction.needs import fetches_judge

    console = open_console()
    console.print(f"\n[bold]{entry.label}[/]: {entry.caption}", soft_wrap=True)
    for scale in SCALES:
        plan = entry.plan(scale)
        if scale == "paper" and entry.exact:
            say("scale paper: the same as small")
            continue
        seconds = sum(step.seconds for step in plan.order())
        time = "" if plan.gpu() else f", about {max(1, round(seconds / 60))} min on two CPU cores"
        say(f"scale {scale}: {len(plan.order())} steps{time}")
        for what, names in (("trains", plan.recipes()), ("samples", plan.models())):
            if names:
                say(f"  {what}: {', '.join(names)}")
        for name in plan.data():
            here = f"here, {resources.data[name]}" if name in resources.data else f"missing; get it: {GETS[name]}"
            say(f"  data {name}: {here}")
        if plan.judge():
            fetched = " (98 MB, fetched once)" if fetches_judge(plan, resources) else ""
            say(f"  judge: {resources.judge or plan.judge()}{fetched}")
        if plan.gpu():
            _print_hours(plan)
            _print_commands(plan, resources, out)
        for note in plan.notes:
            say(f"  note: {note}")


def _print_hours(plan: "Plan") -> None:
    from dbtm.service.reproduction.needs import total_hours

    total, parts = total_hours(plan)
    say(f"  GPU: about {total:,.0f} hours")
    for part in parts:
        say(f"    {part.hours:,.1f} h  {part.how}")


def _print_commands(plan: "Plan", resources: "Resources", out: Path) -> None:
    """Commands that train the paper's runs on several GPUs; the reproduction then finds them finished."""
    from dbtm.service.reproduction.steps.base import Workspace
    from dbtm.service.reproduction.steps.training import Train

    space = Workspace(out, resources)
    if any(name not in resources.data for name in plan.data()):
        return
    say("  or train on several GPUs; this command then uses the finished runs:")
    for step in plan.order():
        if isinstance(step, Train):
            words = [f"--set {change}" for change in step.changes]
            words += [f"--data {resources.data[step.data]}"] if isinstance(step.data, str) else []
            words += [f"--out {step.run_folder(space)}", "--resume auto"]
            say(f"    torchrun --nproc-per-node 8 -m dbtm train {step.recipe} {' '.join(words)}")


def _run(entry: "Entry", scale: str, out: Path, resources: "Resources", json_file: Path | None) -> None:
    from dbtm.service.progress import Cancelled
    from dbtm.service.reproduction.running import ReproductionRequest, reproduce
    from dbtm.train.loop import NonFiniteLoss

    _refuse(entry, entry.plan(scale), scale, resources)
    request = ReproductionRequest(name=entry.label, scale=scale, out=out, resources=resources)
    try:
        with _shown_progress() as progress:
            result = reproduce(request, progress)
    except (Cancelled, KeyboardInterrupt):
        complain(f"stopped: run the same command to resume; finished work is in {out}")
        raise typer.Exit(130) from None
    except NonFiniteLoss as error:
        complain(str(error))
        raise typer.Exit(1) from None
    _print(result)
    tables.write_json(json_file, _document(result))
    tables.print_paths(*result.files, json_file)


@contextmanager
def _shown_progress() -> "Iterator[Progress]":
    """One bar for all stages, with the time left; without a terminal, a line per stage."""
    from dbtm.service.progress import Progress

    with common.progress_bar() as bars:
        bar = bars.add_task("starting", total=None)

        class Shown(Progress):
            def stage(self, name: str, total: int | None = None) -> None:
                bars.reset(bar, description=name, total=total)
                if bars.disable:
                    say(name, error=True)

            def advance(self, done: int, total: int | None = None) -> None:
                bars.update(bar, completed=done, total=total)

            def note(self, text: str) -> None:
                say(f"warning: {text}", error=True)

        yield Shown()


def _document(result: "Reproduction") -> dict[str, Any]:
    import json

    return json.loads(result.files[0].read_text(encoding="utf-8"))


def _refuse(entry: "Entry", plan: "Plan", scale: str, resources: "Resources") -> None:
    """An error that says what is missing and how to get it."""
    from dbtm.service.reproduction.needs import lacking_data, lacking_judge, lacks_gpu, total_hours

    for name in lacking_data(plan, resources):
        raise UsageError(
            f"{entry.label} at --scale {scale} needs the data {name}: get it ({GETS[name]}), then --data {name}=PATH"
        )
    if judge := lacking_judge(plan, resources):
        raise UsageError(f"the judge {judge} needs transformers: pip install 'dbtm[hf]', or choose another --judge")
    if lacks_gpu(plan, resources):
        hours = total_hours(plan)[0]
        raise UsageError(
            f"{entry.label} at --scale {scale} needs a GPU for about {hours:,.0f} hours (--plan says how that is "
            "computed); --scale small runs here"
        )


def _print(result: "Reproduction") -> None:
    """Print the table, its caption, and the samples of a figure."""
    from rich.markup import escape
    from rich.table import Table

    from dbtm.service.reproduction.table import shown

    comparison, console = result.comparison, open_console()
    console.print(f"\n[bold]{comparison.label}[/]: {escape(result.entry.caption)}", soft_wrap=True)
    if comparison.differs:
        console.print(f"[bold yellow]scale {escape(comparison.scale)}[/]: {escape(comparison.differs)}", soft_wrap=True)
    table = Table()
    table.add_column(comparison.paper.unit or comparison.ours.unit, overflow="fold", max_width=44)
    table.add_column("")
    for column in comparison.columns():
        table.add_column(escape(column), justify="right")
    last = None
    for row, whose, values in comparison.lines():
        style = "dim" if whose == "paper" else ""
        cells = [escape(shown(value)) for value in values]
        if last not in (None, row):
            table.add_section()
        table.add_row("" if row == last else escape(row), escape(whose), *cells, style=style)
        last = row
    common.print_whole(table)
    for note in comparison.notes:
        console.print(f"note: {escape(note)}", soft_wrap=True)
    for title, text in comparison.texts.items():
        console.print(f"\n[bold]{escape(title)}[/]\n{escape(text)}", soft_wrap=True)
