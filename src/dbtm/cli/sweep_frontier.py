"""`dbtm sweep frontier`: several sweeps in one table and one figure; and how a frontier is printed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dbtm.cli import files
from dbtm.cli.common import numbers, print_whole
from dbtm.core.errors import UsageError

Entropies = Annotated[
    str | None, typer.Option(help="Entropies to compare at, as 4.2,4.3 (default: around real text's).")
]


def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders of sweeps under the same judge; a name is its label.")],
    out: Annotated[Path, typer.Option(help="Stem of the figure: OUT.png and OUT.svg.")] = Path("frontier"),
    judge: Annotated[str | None, typer.Option(help="Whose numbers (default: the only judge there).")] = None,
    entropy: Entropies = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the table with all frontiers.")] = None,
) -> None:
    """Several sweeps in one table and one figure."""
    from dbtm.evals.sweep.folder import Plan, SweepFolder
    from dbtm.evals.sweep.tables import curves, matched, matched_entropies
    from dbtm.viz.frontier import draw, save

    files.check("--out", out.with_name(f"{out.name}.png"))
    files.check("--json", json_file)
    labels = [folder.resolve().name for folder in folders]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"two of these folders are called '{label}', which is their label: rename one")
    sweeps = [SweepFolder(folder) for folder in folders]
    described = _only_judge([each for sweep in sweeps for each in sweep.judges()], judge)
    name = described["name"]
    found = []
    for sweep, label in zip(sweeps, labels):
        found.append(curves(label, sweep.plan or Plan({}, 0), sweep.judged(described)))
        if not found[-1].points:
            raise UsageError(
                f"{sweep.path} has no frontier by the judge {_in_words(described)}: see `dbtm sweep text --out "
                f"{sweep.path}`"
            )
    entropies = entropies_of(entropy) or matched_entropies(found)
    records = matched(found, entropies)
    print_frontier(records, entropies, name)
    for path in save(draw(found, name), out):
        print(path)
    if json_file is not None:
        write_json(json_file, {"judge": described, "frontier": records})


def _only_judge(judges: Sequence[dict[str, Any]], asked: str | None) -> dict[str, Any]:
    """The judge that was asked for, by name or as it stands in the complaint; or the only one there is."""
    if not judges:
        raise UsageError("there is nothing judged in these folders: see `dbtm sweep text`")
    every = {_in_words(judge): judge for judge in judges}
    found = {words: judge for words, judge in every.items() if asked in (None, judge["name"], words)}
    if not found:
        raise UsageError(f"these sweeps were judged by {', '.join(sorted(every))}, not by {asked}")
    if len(found) > 1:
        raise UsageError(f"these sweeps were judged by {', '.join(sorted(found))}: choose with --judge, never mix two")
    return next(iter(found.values()))


def _in_words(judge: dict[str, Any]) -> str:
    """What tells judges of one name apart."""
    weights = judge.get("sha256") or judge.get("revision")
    details = [judge.get("dtype"), None if weights is None else weights[:8]]
    return f"{judge['name']} ({' '.join(filter(None, details)) or 'not described'})"


def entropies_of(text: str | None) -> list[float]:
    if text is None:
        return []
    return numbers("--entropy", text, float, lambda x: 0 <= x < float("inf"), "numbers from 0 on, as 4.2,4.3")


def print_frontier(records: list[dict[str, Any]], entropies: list[float], judge: str) -> None:
    from rich.console import Console
    from rich.markup import escape

    from dbtm.evals.sweep.tables import NEAR, frontier_table

    console = Console(highlight=False)
    console.print(f"\n[bold]perplexity under {escape(judge)} on the frontier, at matched entropy[/]")
    print_whole(frontier_table(records, entropies))
    console.print(f"best: the least perplexity with an entropy within {NEAR:.2f} of real text's", style="dim")


def write_json(path: Path, whole: dict[str, Any]) -> None:
    import json

    files.write(path, json.dumps(whole, indent=2, allow_nan=False) + "\n")
    print(path)
