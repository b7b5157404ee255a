"""`dbtm sample CHECKPOINT`: draw texts, programs or token sequences, and show their refinement."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dbtm.cli import files
from dbtm.cli.common import check_kappa, in_range, shown_progress
from dbtm.cli.console import open_console, say
from dbtm.cli.options import Checkpoint, Device, Html, Seed, takes_sampler_options
from dbtm.core.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from dbtm.sampling import Sampler
    from dbtm.service.generation import ProgramsResult, SampleResult
    from dbtm.tasks.base import Task
    from dbtm.viz.token_trace import Sample


class Words(NamedTuple):
    """The given parts of a sample; None for options left out."""

    prompt: str | None = None
    suffix: str | None = None
    infill: str | None = None
    hole: int | None = None
    given: str | None = None

    def only(self, *names: str, why: str) -> None:
        """Refuse all other options."""
        for name, value in self._asdict().items():
            if value is not None and name not in names:
                raise UsageError(f"--{name} {why}")


@takes_sampler_options()
def sample(
    checkpoint: Checkpoint,
    n: Annotated[int, typer.Option(help="How many samples.")] = 4,
    seed: Seed = 0,
    prompt: Annotated[
        str | None,
        typer.Option(
            help="Text that samples begin with; spaces at its end are dropped: the model writes them. For programs: "
            "the question (default: built-in ones)."
        ),
    ] = None,
    suffix: Annotated[str | None, typer.Option(help="Text that samples end with.")] = None,
    infill: Annotated[
        str | None,
        typer.Option(help="Text with holes, each of two or more underscores: 'The ____ of ____'."),
    ] = None,
    hole: Annotated[
        int | None,
        typer.Option(
            help="Tokens per hole of --infill (default: 3). The rest of the sequence continues the text: --trace, "
            "--json and --html show it too."
        ),
    ] = None,
    given: Annotated[
        str | None, typer.Option(help="Tokens to keep, _ where to generate: '3 1 _ _ 7' (prompt, suffix, infilling).")
    ] = None,
    run: Annotated[bool, typer.Option("--run/--no-run", help="Programs: run them in the sandbox, or not.")] = True,
    trace: Annotated[bool, typer.Option("--trace", help="Show the rounds (a dozen if there are many).")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write tokens, texts and rounds as JSON.")] = None,
    html: Html = None,
    device: Device = "auto",
    *,
    options: dict[str, Any],
) -> None:
    """Draw samples; show the rounds with --trace or in a page, --html."""
    in_range("--n", n, 1)
    if hole is not None and (infill is None or hole < 1):
        raise UsageError("--hole needs --infill" if infill is None else "--hole must be at least 1")
    check_kappa(options.get("kappa"))
    files.check_all([("--json", json_file), ("--html", html)])
    from dbtm.checkpoint.loading import load

    kept = trace or json_file is not None or html is not None
    common = {"checkpoint": checkpoint, "n": n, "options": options, "seed": seed, "trace": kept}
    result = _generate(load(checkpoint, device), Words(prompt, suffix, infill, hole, given), run, common)
    from dbtm.service.pages import samples_page, views_of

    samples = views_of(result)
    if json_file is not None:  # files first: the reader of a pipe may stop reading
        import json

        files.write_text(json_file, json.dumps(result.document()) + "\n")
    if html is not None:
        files.write_text(html, samples_page(result))
    _print(result, samples, trace)
    if json_file is not None:
        say(json_file)
    if html is not None:
        say(f"page: {html}")


# -- from words to a result --------------------------------------------------------------------------------------------


def _generate(sampler: "Sampler", words: Words, run: bool, common: dict[str, Any]) -> "SampleResult":
    """The request for this kind of model; every mistake is reported before sampling starts."""
    from dbtm.service.generation import (
        InfillRequest,
        ProgramsRequest,
        SampleRequest,
        hole_size,
        infill,
        sample,
        write_programs,
    )
    from dbtm.tasks.gsm8k.task import Gsm8k
    from dbtm.tasks.text.task import Text

    task = sampler.task
    assert task is not None
    with shown_progress() as progress:
        if isinstance(task, Gsm8k):
            words.only("prompt", why="is for text: a program is generated from its question, --prompt 'How many ...?'")
            return write_programs(ProgramsRequest(question=words.prompt, run=run, **common), sampler, progress)
        if not run:
            raise UsageError("--no-run is for models that write programs: leave it out")
        if isinstance(task, Text) and words.given is None:
            hole = hole_size(words.infill, words.hole)
            return infill(InfillRequest(parts=_parts(words), hole=hole, **common), sampler, progress)
        why = "and --given cannot be combined: leave one out"
        if not isinstance(task, Text):
            why = f"is for text, but this model was trained on '{task.name}': give tokens with --given"
        words.only("given", why=why)
        return sample(SampleRequest(tokens=_row(words.given, task), **common), sampler, progress)


def _parts(words: Words) -> Sequence[str | None]:
    """A hole between a prompt and a suffix, or a text with holes."""
    from dbtm.tasks.text import given

    if words.infill is None:
        return given.around(words.prompt or "", words.suffix or "")
    words.only("infill", "hole", why="cannot be combined with --infill: write it into that text")
    return given.template(words.infill)


def _row(text: str | None, task: "Task") -> list[int | None] | None:
    """'3 1 _ _ 7' as tokens, None for positions to generate; also as rows are written: 'AC__GT', '3,1,_,_,7'."""
    if text is None:
        return None
    words = task.split_row(text)
    if len(words) != task.length:
        raise UsageError(f"--given has {len(words)} entries, the model's sequences have {task.length}")
    tokens = [None if word == "_" else task.token(word) for word in words]
    for word, token in zip(words, tokens):
        if word != "_" and token is None:
            known = f"0..{task.vocab - 1}" if task.token("0") == 0 else "one of its training data's symbols"
            raise UsageError(f"--given: '{word}' is not a token ({known}) or _")
    return tokens


# -- from a result to views --------------------------------------------------------------------------------------------


def _print(result: "SampleResult", samples: "list[Sample]", trace: bool) -> None:
    """Print each sample under a heading, with or without its rounds; plain token sequences get one line each."""
    from rich.text import Text

    from dbtm.service.generation import ProgramsResult
    from dbtm.service.pages import noun_of

    if noun_of(result) == "token sequence":
        _print_tokens(result, trace)
        return
    console = open_console()
    for b, sample in enumerate(samples):
        heading = Text.assemble((f"sample {b + 1} of {len(samples)}", "bold"), f"  {result.trace.nfe[b]} NFE")
        console.print(heading)
        if isinstance(result, ProgramsResult):
            _print_program(console, result, b, sample, trace)
        else:
            _print_text(console, sample, trace, result.shown)
        console.print()


def _print_text(console: "Console", sample: "Sample", trace: bool, shown: int | None = None) -> None:
    """The text itself, or its rounds with all tokens; wrapped on a terminal only."""
    from dbtm.viz.token_trace import TextTrace, result_text

    console.print(TextTrace(sample) if trace else result_text(sample, shown), soft_wrap=not console.is_terminal)


def _print_tokens(result: "SampleResult", trace: bool) -> None:
    """One line per sample. In its rounds, uncommitted tokens are in parentheses; _ is a position without a token."""
    from dbtm.viz.spell import speller_of
    from dbtm.viz.states import left_out, progress_of, spaced
    from dbtm.viz.token_trace import blanks, rounds_of

    vocab, spell = result.task.vocab, speller_of(result.task)
    for b, row in enumerate(result.trace.tokens):
        rounds = rounds_of(result.trace, b) if trace else []
        for number in spaced(len(rounds)):
            state, last = rounds[number - 1], number == len(rounds)
            settled = [last] * len(row) if state.committed is None else state.committed[b]
            words = [spelled.strip() for spelled in spell(state.tokens[b])]
            cells = zip(words, settled, blanks(state, b, vocab), strict=True)
            shown = " ".join("_" if blank else word if done else f"({word})" for word, done, blank in cells)
            say(f"  round {number}{progress_of(None, 0, state.time)}: {shown}")
        if left_out(len(rounds)):
            say(f"  {left_out(len(rounds))}")
        say(f"{result.task.text(row)}    ({result.trace.nfe[b]} NFE)")


def _print_program(console: "Console", result: "ProgramsResult", b: int, sample: "Sample", trace: bool) -> None:
    """The question, the rounds if requested, the program, and its result."""
    from rich.syntax import Syntax
    from rich.text import Text

    from dbtm.core.terminal import visible
    from dbtm.viz.token_trace import LOOKS

    pipe = not console.is_terminal
    console.print(Text(visible(sample.question), LOOKS["given"].style), "", sep="\n", soft_wrap=pipe)
    if trace:
        _print_text(console, sample, trace)
        console.print()
    program = visible(result.programs[b]).rstrip()
    code = Syntax("", "python", theme="ansi_dark", background_color="default").highlight(program)
    if not program:
        code = Text("(an empty program)", "dim")
    console.print(code, "", Text(sample.facts["answer"], "bold"), sep="\n", soft_wrap=pipe)
