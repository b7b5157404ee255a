"""How sets of text samples and their numbers are printed."""

from math import isnan
from typing import TYPE_CHECKING, Any

from dbtm.cli.common import print_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from dbtm.evals.judges.base import Judge
    from dbtm.evals.text import Estimate, Row


def title(kind: str, settings: dict[str, Any]) -> str:
    """A set in a few words."""
    from dbtm.evals.samples import KINDS

    if kind != "sample" or "nfe" not in settings:
        return KINDS[kind]
    return f"{settings['nfe']} NFE, {_knobs(settings)}"


def _knobs(settings: dict[str, Any]) -> str:
    """What distinguishes settings of equal budget, to be printed: they may come from another program's file."""
    from rich.markup import escape

    words = {"horizon": "H", "kappa": "kappa", "temperature": "temp", "sigma": "sigma", "repetition_penalty": "penalty"}
    told = [f"{word} {settings[name]:g}" for name, word in words.items() if name in settings]
    plain = {"sampler": "refine", "scorer": "confidence", "commit": True}
    odd = [str(settings[name]) for name in ("sampler", "scorer") if settings.get(name, plain[name]) != plain[name]]
    return escape(", ".join([*odd, *(["non-commit"] if not settings.get("commit", True) else []), *told]))


def print_rows(rows: "Sequence[Row]", judge: "Judge | None") -> None:
    """The table of an evaluation, and what a reader must know about it."""
    from rich.console import Console

    console = Console(highlight=False)
    print_whole(_table(rows, judge))
    console.print("95 % intervals over samples; repetition is counted within a sample, in tokens", style="dim")
    for count, what in (
        (sum(row.windowed for row in rows), "longer than the judge's context: scored in windows that overlap by half"),
        (sum(row.unscored for row in rows), "without a token that counts for the perplexity"),
    ):
        if count:
            console.print(f"{count} texts {what}")


def _table(rows: "Sequence[Row]", judge: "Judge | None") -> "Table":
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"judge: {escape(judge.name) if judge else 'none'}", title_justify="left")
    table.add_column("")
    for name in ("n", "perplexity", "entropy", "distinct\n2-grams", "longest\nrepeat", "different\nsamples"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            _first_column(row),
            str(row.n),
            _interval(row.perplexity, 1),
            _interval(row.entropy, 3),
            _number(row.distinct["2"], 3),
            _number(row.longest_repeat, 1),
            f"{row.unique:.1%}",
            end_section=True,
        )
    return table


def _first_column(row: "Row") -> str:
    """What the set is; below it the knobs, and what drawing it took."""
    if row.kind != "sample" or "nfe" not in row.settings:
        return title(row.kind, {})
    rate = f", {row.n / row.seconds:.3g}/s" if row.seconds else ""
    used = "" if row.nfe is None else f"\n{row.nfe:.2f} NFE used{rate}"
    return f"{row.settings['nfe']} NFE[dim]\n{_knobs(row.settings)}{used}[/]"


def _number(value: float, digits: int) -> str:
    """A dash where there is none."""
    return "-" if isnan(value) else f"{value:.{digits}f}"


def _interval(estimate: "Estimate", digits: int) -> str:
    value, low, high = (_number(x, digits) for x in estimate)
    return value if low == "-" else f"{value}\n[dim]{low}-{high}[/]"
