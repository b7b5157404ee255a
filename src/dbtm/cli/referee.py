"""`dbtm referee TASK`: all methods on one network and one trainer, at equal training cost."""

from pathlib import Path
from typing import Annotated

import typer

from dbtm.cli import common, tables
from dbtm.cli.options import Device
from dbtm.core.errors import UsageError


def referee(
    context: typer.Context,
    task: Annotated[str, typer.Argument(help="markov, sudoku-mini, sudoku, text, gsm8k or own.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the comparison; the same command resumes it (default: referee/TASK).")
    ] = None,
    methods: Annotated[str, typer.Option(help="all, or comma-separated names: dbtm,dbtm-paper,mdlm.")] = "all",
    flops: Annotated[
        float | None, typer.Option(help="Training FLOPs per method, teachers included (default: the task's).")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Minutes on this device per method, instead of --flops.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs per method: seeds 0, 1, 2 ...")] = 3,
    nfe: Annotated[
        str | None, typer.Option(help="Network evaluations to sample at (default: 1,2,4,... to 128; markov to 32).")
    ] = None,
    n: Annotated[int | None, typer.Option(help="Samples per evaluation (default: the task's).")] = None,
    data: Annotated[Path | None, typer.Option(help="text, gsm8k: a prepared folder; own: a .npy file.")] = None,
    vocab: Annotated[int | None, typer.Option(help="own: size of the vocabulary.")] = None,
    length: Annotated[int | None, typer.Option(help="own: tokens per sequence.")] = None,
    judge: Annotated[str | None, typer.Option(help="text: judge of perplexity (default: smollm2).")] = None,
    teacher_share: Annotated[float, typer.Option(help="Share of a distilled method's budget for its teacher.")] = 0.8,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="[METHOD:]SECTION.KEY=VALUE", help="Change a setting of all methods, or of one."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Runs in parallel (default: one per core, one on a GPU).")] = None,
    device: Device = "auto",
    retry: Annotated[bool, typer.Option("--retry", help="Retry failed runs.")] = False,
    report_only: Annotated[bool, typer.Option("--report-only", help="Run nothing: only rewrite the report.")] = False,
    merge: Annotated[
        list[Path] | None, typer.Option(help="Run nothing: import the runs of this folder; repeatable.")
    ] = None,
) -> None:
    """Compare methods on a task at equal training FLOPs (or minutes): quality by network evaluations and by FLOPs.

    All state is in the folder: stop and rerun the command at any time, add methods or seeds, run it in several
    processes, or on several machines and merge their folders.
    """
    for option, value in (("--flops", flops), ("--minutes", minutes)):
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(f"{option} must be positive")
    common.in_range("--seeds", seeds, 1)
    common.in_range("--n", n, 2)
    common.in_range("--jobs", jobs, 0)
    wanted = "whole numbers of at least 1, such as 1,2,4"
    budgets = None if nfe is None else tuple(common.numbers("--nfe", nfe, int, lambda x: x >= 1, wanted))
    folder = out or Path("referee") / task
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out {folder} is a file: give a folder")
    running = ("methods", "flops", "minutes", "seeds", "nfe", "n", "data", "set_", "jobs", "retry", "judge")
    if report_only or merge:
        common.refuse(context, running, "nothing is run")

    from dbtm.core.signals import leave_on
    from dbtm.service import refereeing
    from dbtm.service.progress import Cancelled

    with leave_on("SIGTERM", "SIGHUP"), common.shown_progress() as progress:
        if merge:
            result = refereeing.merge(folder, tuple(merge), progress)
        elif report_only:
            result = refereeing.report(folder)
        else:
            request = refereeing.RefereeRequest(
                task=task,
                folder=folder,
                methods=tuple(word.strip() for word in methods.split(",")),
                flops=flops,
                minutes=minutes,
                seeds=seeds,
                nfe=budgets,
                n=n,
                teacher_share=teacher_share,
                data=data,
                vocab=vocab,
                length=length,
                judge=judge,
                changes=tuple(set_ or ()),
                jobs=jobs,
                device=device,
                retry=retry,
            )
            try:
                result = refereeing.referee(request, progress)
            except (Cancelled, KeyboardInterrupt):
                raise UsageError(f"stopped: run the same command to resume; finished work is in {folder}") from None
    tables.print_comparison(result)
