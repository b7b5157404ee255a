"""Results as tables for a terminal, and what the measuring commands share."""

from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbtm.cli import files
from dbtm.cli.common import number, numbers, print_whole
from dbtm.cli.console import open_console, say
from dbtm.core.limits import MOST_EVALUATIONS

if TYPE_CHECKING:
    from rich.table import Table

    from dbtm.evals.estimates import Estimate
    from dbtm.evals.likelihood import LikelihoodScore
    from dbtm.evals.perplexity import TextScore
    from dbtm.evals.programs import ProgramScore
    from dbtm.evals.sudoku import SudokuScore
    from dbtm.evals.sweep.folder import Planned
    from dbtm.service.refereeing import RefereeResult
    from dbtm.service.sweeping import Frontiers

# -- words -------------------------------------------------------------------------------------------------------------

Judge = Annotated[
    str,
    typer.Option(help="smollm2, a GGUF file, a causal language model of transformers (gpt2-large, a folder), or none."),
]
Data = Annotated[Path | None, typer.Option(help="New path of the prepared text, if it has moved.")]
References = Annotated[bool, typer.Option(help="Measure real and shuffled validation text too.")]
Entropies = Annotated[
    str | None, typer.Option(help="Entropies to compare at, such as 4.2,4.3 (default: around real text's).")
]


def budgets_of(text: str | None) -> tuple[int, ...] | None:
    """--nfe as numbers; None if not given."""
    if text is None:
        return None
    wanted = f"whole numbers from 1 to {MOST_EVALUATIONS}, such as 1,2,4"
    return tuple(numbers("--nfe", text, int, lambda value: 1 <= value <= MOST_EVALUATIONS, wanted))


def thresholds_of(text: str | None) -> tuple[float, ...]:
    """--kappa as numbers; empty if not given."""
    if text is None:
        return ()
    return tuple(numbers("--kappa", text, float, lambda value: 0 <= value <= 1, "numbers from 0 to 1, such as .5,.9"))


def entropies_of(text: str | None) -> tuple[float, ...]:
    """--entropy as numbers; empty if not given."""
    if text is None:
        return ()
    return tuple(
        numbers("--entropy", text, float, lambda x: 0 <= x < float("inf"), "numbers of at least 0, such as 4.2,4.3")
    )


def write_json(path: Path | None, document: Mapping[str, Any]) -> None:
    """Write a result to a file, if one is given."""
    if path is not None:
        import json

        files.write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")


def print_paths(*paths: Path | None) -> None:
    """Print the files that a command has written."""
    for path in paths:
        if path is not None:
            say(path)


# -- Sudoku ------------------------------------------------------------------------------------------------------------


def threshold_table(scores: "Sequence[SudokuScore]") -> "Table":
    """The paper's threshold sweep (tab:sudoku-threshold-sweep): rows NFE, columns kappa, best of a row in bold.

    A cell holds the exact-solve rate with its 95 % interval, and below it the evaluations used and the throughput.
    """
    from rich.table import Table

    columns = list(dict.fromkeys(_column(score) for score in scores if score.settings.get("nfe") != 1))
    columns = columns or list(dict.fromkeys(_column(score) for score in scores))[:1]
    table = Table()
    table.add_column("NFE", justify="right")
    for column in columns:
        table.add_column(column, justify="right")
    for nfe in dict.fromkeys(score.settings.get("nfe") for score in scores):
        of_budget = {_column(score): score for score in scores if score.settings.get("nfe") == nfe}
        best = max(score.solved for score in of_budget.values())
        several = len(of_budget) > 1
        cells = [_solve_rate(score, several and score.solved == best) for score in of_budget.values()]
        # A budget of 1 is evaluated once and stands for all columns: kappa makes no difference there.
        table.add_row(_budget(nfe), *(cells * len(columns) if nfe == 1 else cells), end_section=True)
    return table


def _budget(nfe: int | None) -> str:
    return "1 per token" if nfe is None else str(nfe)


def _column(score: "SudokuScore") -> str:
    kappa = score.settings.get("kappa")
    if "kappa" not in score.settings:
        return "% solved"
    if kappa is None:
        return "no threshold"
    return "the checkpoint's kappa" if score.tuned else f"kappa {kappa:g}"


def _solve_rate(score: "SudokuScore", best: bool) -> str:
    from dbtm.evals.intervals import wilson

    low, high = wilson(score.solved, score.total)
    rate = f"{score.solved / score.total:.2%}".removesuffix("%")
    rate = f"[bold]{rate}[/bold]" if best else rate
    kappa = score.settings.get("kappa")
    named = f"kappa {kappa:g}, " if kappa is not None and score.tuned and score.settings["nfe"] > 1 else ""
    return (
        f"{rate} ({100 * low:.1f}-{100 * high:.1f})\n"
        f"[dim]{named}{score.mean_nfe:.2f} NFE, {number(score.total / score.seconds)}/s[/dim]"
    )


# -- programs ----------------------------------------------------------------------------------------------------------


def programs_table(scores: "Sequence[ProgramScore]") -> "Table":
    """Accuracy over settings, with intervals and the kinds of failure."""
    from rich.table import Table

    from dbtm.evals.intervals import wilson

    sampled = scores[0].settings is not None
    table = Table()
    names = ["correct", "%", "run/s"]
    for name in ["NFE", *names[:2], "NFE used", "sampled/s", *names[2:]] if sampled else names:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("failures")
    for score in scores:
        low, high = wilson(score.correct, score.total)
        correct = f"{score.correct} of {score.total}"
        share = f"{100 * score.correct / score.total:.2f} ({100 * low:.1f}-{100 * high:.1f})"
        ran = number(score.total / score.run_seconds)
        failures = ", ".join(f"{kind} {count}" for kind, count in score.failures.items() if count) or "none"
        if score.settings is None or score.sample_seconds is None:
            table.add_row(correct, share, ran, failures)
        else:
            drawn = number(score.total / score.sample_seconds)
            budget = _budget(score.settings.get("nfe"))
            table.add_row(budget, correct, share, f"{score.mean_nfe:.2f}", drawn, ran, failures)
    return table


# -- text --------------------------------------------------------------------------------------------------------------


def print_text_scores(scores: "Sequence[TextScore]", judge: str | None) -> None:
    """Print the table of an evaluation, and its notes."""

    console = open_console()
    print_whole(text_table(scores, judge))
    console.print("95 % intervals over samples; repetition is counted within a sample, in tokens", style="dim")
    for count, what in (
        (sum(s.windowed for s in scores), "longer than the judge's context: scored in windows that overlap by half"),
        (sum(s.unscored for s in scores), "without a token that counts for the perplexity"),
    ):
        if count:
            console.print(f"{count} texts {what}")


def text_table(scores: "Sequence[TextScore]", judge: str | None) -> "Table":
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"judge: {escape(judge or 'none')}", title_justify="left")
    table.add_column("")
    compared = any(score.mauve is not None for score in scores)
    matched = any(score.longest_match is not None for score in scores)
    more = ["MAUVE"] * compared + ["longest run in\ntraining text"] * matched
    for name in ("n", "perplexity", "entropy", "distinct\n2-grams", "longest\nrepeat", "different\nsamples", *more):
        table.add_column(name, justify="right")
    for score in scores:
        table.add_row(
            _set_of_samples(score),
            str(score.n),
            interval(score.perplexity, 1),
            interval(score.entropy, 3),
            _number(score.distinct["2"], 3),
            _number(score.longest_repeat, 1),
            f"{score.unique:.1%}",
            *(["-" if score.mauve is None else _number(score.mauve, 3)] * compared),
            *(["-" if score.longest_match is None else interval(score.longest_match, 1)] * matched),
            end_section=True,
        )
    return table


def _set_of_samples(score: "TextScore") -> str:
    """The kind of a set; below it its sampler options and the cost of sampling."""
    from dbtm.evals.samples import KINDS

    if score.kind != "sample" or not score.settings:
        return KINDS[score.kind]
    rate = f", {number(score.n / score.seconds)}/s" if score.seconds else ""
    used = "" if score.nfe is None else f"\n{score.nfe:.2f} NFE used{rate}"
    budget = f"{score.settings['nfe']} NFE" if "nfe" in score.settings else KINDS["sample"]
    return f"{budget}[dim]\n{_options(score.settings)}{used}[/]"


def _options(settings: Mapping[str, Any]) -> str:
    """The settings that differ at equal budget, escaped: they may come from another program's file."""
    from rich.markup import escape

    words = {"horizon": "H", "kappa": "kappa", "temperature": "temp", "top_p": "top-p", "sigma": "sigma"}
    words["repetition_penalty"] = "penalty"
    values = [f"{word} {settings[name]:g}" for name, word in words.items() if name in settings]
    usual = {"sampler": "refine", "scorer": "confidence", "order": "random"}
    unusual = [str(settings[name]) for name in usual if settings.get(name, usual[name]) != usual[name]]
    held = [] if settings.get("commit", True) else ["non-commit"]
    return escape(", ".join([*unusual, *held, *values]))


def _number(value: float, digits: int) -> str:
    """A dash for NaN."""
    return "-" if isnan(value) else f"{value:.{digits}f}"


def interval(estimate: "Estimate", digits: int) -> str:
    """A number, with its interval below it."""
    value, low, high = (_number(x, digits) for x in estimate)
    return value if low == "-" else f"{value}\n[dim]{low}-{high}[/]"


# -- likelihood --------------------------------------------------------------------------------------------------------


def print_likelihood(score: "LikelihoodScore") -> None:
    """Print what was measured, and the table."""
    say(f"negative log-likelihood, {score.kind}: {score.n:,} examples, {score.tokens:,} tokens that count")
    print_whole(likelihood_table(score))


def likelihood_table(score: "LikelihoodScore") -> "Table":
    """Nats, bits and perplexity per token."""
    from rich.table import Table

    table = Table()
    for name in ("per token", "", "95 % interval"):
        table.add_column(name, justify="left" if name == "per token" else "right")
    for name, estimate in (
        ("nats", score.nats_per_token),
        ("bits", score.bits_per_token),
        ("perplexity", score.perplexity),
    ):
        value, low, high = (_number(x, 4) for x in estimate)
        table.add_row(name, value, "-" if low == "-" else f"{low} - {high}")
    return table


# -- sweeps ------------------------------------------------------------------------------------------------------------


def print_frontiers(frontiers: "Frontiers") -> None:
    from rich.markup import escape

    from dbtm.evals.sweep.outcome import NEAR

    console = open_console()
    name = escape(frontiers.judge["name"])
    console.print(f"\n[bold]perplexity under {name} on the frontier, at matched entropy[/]")
    print_whole(frontier_table(frontiers.records, frontiers.entropies))
    console.print("best, paper: the lowest perplexity at any entropy, as in tab:decode-frontier-lm1b", style="dim")
    console.print(f"best, near real: the lowest with an entropy within {NEAR:.2f} of real text's", style="dim")


def frontier_table(records: Iterable[Mapping[str, Any]], entropies: Sequence[float]) -> "Table":
    """The paper's tab:decode-frontier-lm1b: its best and ours, range, and perplexity at matched entropy; perplexities
    of the bests with their entropies.
    """
    from rich.markup import escape
    from rich.table import Table

    table = Table()
    bests = ("best, paper", "best, near real")
    for name in ("NFE", "sweep", *bests, "entropies", *(f"{e:.2f}" for e in entropies)):
        table.add_column(name, justify="left" if name == "sweep" else "right")
    for record in records:
        low, high = record["range"]
        shown = (_perplexity_and_entropy(record[name]) for name in ("best_paper", "best_near_real"))
        cells = ("-" if value is None else f"{value:.1f}" for value in record["matched"].values())
        table.add_row(str(record["nfe"]), escape(record["label"]), *shown, f"{low:.2f}-{high:.2f}", *cells)
    return table


def study_table(study: str, cells: "Sequence[Planned]", rows: Mapping[str, Mapping[str, Any]]) -> "Table":
    """A study's table: perplexity (entropy), or a dash where nothing is measured yet."""
    from rich.table import Table

    from dbtm.evals.sweep.folder import identity
    from dbtm.evals.sweep.studies import TITLES

    table = Table(title=TITLES[study], title_justify="left")
    columns = list(dict.fromkeys(cell.column for cell in cells))
    table.add_column("" if study == "horizon" else "NFE", justify="right")
    for column in columns:
        table.add_column(column, justify="right")
    for row in dict.fromkeys(cell.row for cell in cells):
        place = {cell.column: cell.settings for cell in cells if cell.row == row}
        scored = (rows.get(identity("sample", place[c])) if c in place else None for c in columns)
        table.add_row(row, *map(_perplexity_and_entropy, scored))
    return table


def _perplexity_and_entropy(row: Mapping[str, Any] | None) -> str:
    if row is None or row["perplexity"] is None:
        return "-"
    return f"{row['perplexity']:.1f} ({row['entropy']:.2f})"


def print_comparison(result: "RefereeResult") -> None:
    """Print the best method per budget, quality, costs, and the files."""
    from rich.markup import escape
    from rich.table import Table

    from dbtm.evals.referee import tables as words

    document = result.document
    for found in (words.best_table(document), words.quality_table(document), words.cost_table(document)):
        shown = Table(title=escape(found.title), title_justify="left", title_style="bold")
        for word in found.head:
            shown.add_column(escape(word))
        for row in found.rows:
            shown.add_row(*map(escape, row))
        print_whole(shown)
        if found.note:
            say(found.note)
    for line in words.losses(document):
        say(line)
    print_paths(*result.files)
