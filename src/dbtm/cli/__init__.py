"""The command `dbtm`: one small module per command; the only place that parses arguments and prints.

Command modules import nothing heavy at their top, so that `dbtm --help` answers at once.
"""

import io
import os
import sys
from typing import Annotated, Any, NoReturn

import typer

from dbtm import __version__
from dbtm.cli import (
    bench,
    bench_backbone,
    data,
    data_gsm8k,
    data_text,
    demo,
    doctor,
    evaluate,
    evaluate_continuations,
    evaluate_gsm8k,
    evaluate_nll,
    evaluate_own,
    evaluate_text,
    export,
    pack,
    plan,
    plot,
    recipes,
    referee,
    reproduce,
    sample,
    solve,
    studio,
    sweep,
    theory,
    train,
    tune,
)
from dbtm.cli.console import complain
from dbtm.core.errors import UsageError, out_of_memory

app = typer.Typer(
    help="Discrete Beckmann Transport Models: noise to a clean token sequence in one network evaluation.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("solve")(solve.solve)
app.command("train")(train.train)
app.command("plan")(plan.plan)
app.command("plot")(plot.plot)
app.command("pack")(pack.pack)
app.command("tune")(tune.tune)
app.command("export")(export.export)
app.command("sample")(sample.sample)
app.command("studio")(studio.studio)
app.command("recipes")(recipes.recipes)
app.command("referee")(referee.referee)
app.command("doctor")(doctor.doctor)
app.command("reproduce")(reproduce.reproduce)
evaluate.app.command("gsm8k")(evaluate_gsm8k.gsm8k)
evaluate.app.command("text")(evaluate_text.text)
evaluate.app.command("continuations")(evaluate_continuations.continuations)
evaluate.app.command("own")(evaluate_own.own)
evaluate.app.command("nll")(evaluate_nll.nll)
app.add_typer(evaluate.app, name="eval")
app.add_typer(sweep.app, name="sweep")
data.app.command("gsm8k")(data_gsm8k.gsm8k)
for command in (data_text.text, data_text.lm1b, data_text.owt):
    data.app.command()(command)
app.add_typer(data.app, name="data")
app.add_typer(theory.app, name="theory")
bench.app.command("backbone")(bench_backbone.backbone)
app.add_typer(bench.app, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"dbtm {__version__}")
        raise typer.Exit


@app.callback()
def _root(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False) -> None:
    pass


_WordsError: type[Exception] = typer.BadParameter.__mro__[2]  # click's ClickException, wherever typer keeps it


def main() -> None:
    """Run the command; a user's mistake, or too little memory, ends in one line and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a plain terminal shows ? for characters it lacks
    try:
        try:
            code = app(prog_name="dbtm", standalone_mode=False)  # what a command exits with, or what it returns
        finally:
            if sys.stdout:
                sys.stdout.flush()  # a full disk is reported here, not at exit
        sys.exit(code if isinstance(code, int) else 0)
    except SystemExit:
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":  # click saw the pipe closed, and would exit with 1
            sys.exit(0)
        raise
    except UsageError as error:
        _end(str(error))
    except _WordsError as error:
        _end_words(error)
    except BrokenPipeError:
        _silence()
        sys.exit(0)
    except OSError as error:
        _end(str(error))
    except (MemoryError, RuntimeError, ValueError) as error:
        if not out_of_memory(error):
            raise
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        _end(f"not enough memory ({reason}): reduce the size, the number or the batch")


def _end_words(error: Any) -> NoReturn:
    """Report unknown or invalid options and arguments in click's words. Help is printed already."""
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.exit(2)
    where = f" (see {error.ctx.command_path} --help)" if getattr(error, "ctx", None) else ""
    _end(error.format_message().rstrip(".") + where)


def _end(line: str) -> NoReturn:
    complain(line)
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError:
        _silence()
    sys.exit(2)


def _silence() -> None:
    """Discard stdout, so that Python does not fail on it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
