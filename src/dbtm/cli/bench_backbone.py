"""`dbtm bench backbone`: attention against the delta rule over sequence lengths, measured in one run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dbtm.cli import files
from dbtm.cli.common import in_range, number, print_whole, progress_bar
from dbtm.cli.console import say
from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_REPEATS, MOST_ROWS

if TYPE_CHECKING:
    from rich.table import Table

    from dbtm.bench.backbones import BackboneTiming


def backbone(
    lengths: Annotated[
        str | None, typer.Option(help="Lengths (default: 256, 1024, 4096, 16384, 65536; without a GPU 256 to 2048).")
    ] = None,
    width: Annotated[int | None, typer.Option(help="Width of the map (default: 768; without a GPU 256).")] = None,
    depth: Annotated[int, typer.Option(help="Blocks; in the mix every fourth is attention.")] = 4,
    head_width: Annotated[int, typer.Option(help="Width of a head.")] = 64,
    softcap: Annotated[
        float, typer.Option(help="Cap on attention logits; 0 (off) allows the fastest attention.")
    ] = 0.0,
    batch: Annotated[int, typer.Option(help="Sequences per batch.")] = 1,
    repeats: Annotated[int | None, typer.Option(help="Timed calls (default: 20; without a GPU 5).")] = None,
    compiled: Annotated[bool, typer.Option("--compile", help="Compile the blocks, as training does.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write rows, exponents, ratios and machine.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Write a figure: a .png, .svg or .pdf file.")] = None,
) -> None:
    """Time and memory of attention, the delta rule, and the paper's mix of both, as the length grows."""
    files.check_all([("--json", json_file), ("--figure", figure)])
    if figure is not None and figure.suffix not in (".png", ".svg", ".pdf"):
        raise UsageError(f"--figure {figure} must end in .png, .svg or .pdf")
    in_range("--batch", batch, 1, MOST_ROWS)
    in_range("--repeats", repeats, 1, MOST_REPEATS)
    in_range("--softcap", softcap, 0)
    if depth < 4:
        raise UsageError(f"--depth {depth} must be at least 4: with fewer blocks the mix has no attention")
    in_range("--width", width, 1, MOST_ROWS)
    wanted = _lengths(lengths)

    import json

    import torch

    from dbtm.bench import backbones
    from dbtm.config import ModelConfig
    from dbtm.core.device import pick_device

    target = pick_device(device)
    gpu = target.type == "cuda"
    wanted = wanted or ([256, 1024, 4096, 16384, 65536] if gpu else [256, 512, 1024, 2048])
    width = (768 if gpu else 256) if width is None else width
    if width < 1 or head_width < 2 or head_width % 2 or width % head_width:
        raise UsageError(f"--width {width} must be a multiple of --head-width {head_width}, which must be even")
    base = ModelConfig(width=width, depth=depth, heads=width // head_width, softcap=softcap, dropout=0.0)
    if gpu:
        torch.set_float32_matmul_precision("high")  # as training does
    rows: list[BackboneTiming] = []
    with progress_bar() as progress:
        bar = progress.add_task("measuring", total=len(wanted) * (len(backbones.PATTERNS) + 2))
        repeats = repeats or (20 if gpu else 5)
        arguments = (base, wanted, batch, target, repeats, compiled)
        for row in backbones.measure(*arguments, progress=lambda: progress.advance(bar)):
            rows.append(row)
    summary = backbones.summary(rows)
    if json_file is not None:
        from dbtm.evals.provenance import made
        from dbtm.kernels.dispatch import choose, choose_delta

        kind = (gpu, torch.bfloat16 if gpu else torch.float32, head_width)
        chosen = {"forward": choose(softcap, False, *kind), "step": choose(softcap, True, *kind)}
        kernels = {f"attention, {call}": " - ".join(choice) for call, choice in chosen.items()}
        kernels["delta"] = " - ".join(choose_delta(*kind))
        sizes = {"width": width, "depth": depth, "head_width": head_width, "softcap": softcap, "batch": batch}
        setting = {**sizes, "vocab": backbones.VOCAB, "repeats": repeats, "compile": compiled, "kernels": kernels}
        files.write_text(json_file, json.dumps({**summary, **setting, **made(target)}, indent=2) + "\n")
    if figure is not None:
        _draw(rows, summary, figure)
    for name, title in backbones.MEASURES.items():
        print_whole(_table(rows, summary, name, title))
    for path in (json_file, figure):
        if path is not None:
            say(path)


def _lengths(text: str | None) -> list[int]:
    """Comma-separated lengths, sorted; none if not given."""
    if text is None:
        return []
    parts = text.split(",")
    if not all(part.strip().isdecimal() and len(part) < 9 and 1 <= int(part) <= MOST_ROWS for part in parts):
        raise UsageError(f"--lengths {text} is not a list of whole numbers from 1 to {MOST_ROWS}, such as 256,1024")
    return sorted({int(part) for part in parts})


def _table(rows: "list[BackboneTiming]", summary: dict, name: str, title: str) -> "Table":
    """One metric: rows are lengths, columns are backbones with their ratio to attention."""
    from rich.table import Table

    from dbtm.bench.backbones import PATTERNS, series

    scale, unit = (2.0**30, " GiB") if name.endswith("bytes") else (1.0, " ms")
    table = Table(title=title, title_justify="left")
    table.add_column("L", justify="right")
    at = {backbone: dict(zip(*series(rows, backbone, name), strict=True)) for backbone in PATTERNS}
    for backbone in PATTERNS:
        table.add_column(backbone, justify="right")
    for length in dict.fromkeys(row.length for row in rows):
        cells = []
        for backbone, values in at.items():
            ratio = summary[name]["ratio"].get(backbone, {}).get(length)
            beside = "" if ratio is None else f" (x {ratio:.2f})"
            cells.append(f"{number(values[length] / scale)}{unit}{beside}" if length in values else "out of memory")
        table.add_row(f"{length:,}", *cells)
    exponents = [summary[name]["exponent"].get(backbone) for backbone in PATTERNS]
    table.add_section()
    table.add_row("exponent", *("" if p is None else f"{p:.2f}" for p in exponents))
    crossings = [summary[name]["crossing"].get(backbone) for backbone in PATTERNS]
    table.add_row("below from", *("" if at is None else f"L = {at:,.0f}" for at in crossings))
    return table


def _draw(rows: "list[BackboneTiming]", summary: dict, path: Path) -> None:
    """Write the figure atomically."""
    from io import BytesIO

    import matplotlib as mpl

    from dbtm.bench.backbones import draw
    from dbtm.core.atomic import write_bytes
    from dbtm.viz.theory.style import RC

    data = BytesIO()
    with mpl.rc_context(RC):
        draw(rows, summary).savefig(data, format=path.suffix[1:], dpi=200)
    write_bytes(path, data.getvalue())
