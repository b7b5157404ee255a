"""`dbtm bench`: speed and memory on this machine: ratios within one run, peak memory, and the hardware's floor."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dbtm.cli import files
from dbtm.cli.common import in_range, number, print_whole, progress_bar
from dbtm.cli.console import say
from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_REPEATS, MOST_ROWS

if TYPE_CHECKING:
    import torch

app = typer.Typer(help="Measure speed and memory on this machine.", no_args_is_help=True)

Json = Annotated[Path | None, typer.Option("--json", help="Write the numbers, the setting and the machine.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Repeats = Annotated[int, typer.Option(help="Timed calls of each kind; the median counts.")]


@app.command()
def step(
    recipe: Annotated[str, typer.Option(help="Recipe of the map and its sizes.")] = "sudoku",
    batch: Annotated[
        int | None, typer.Option(help="Rows (default: 256 on a GPU, fewer for long sequences; else 4).")
    ] = None,
    compiled: Annotated[
        bool | None, typer.Option("--compile/--no-compile", help="Compile the blocks (default: on a GPU).")
    ] = None,
    graph: Annotated[
        bool | None, typer.Option("--graph/--no-graph", help="Replay CUDA graphs (default: GPU, small vocabulary).")
    ] = None,
    repeats: Repeats = 5,
    device: Device = "auto",
    json_file: Json = None,
) -> None:
    """A step with transport, anchor and boundary, and one with refinement in the loop, against plain cross-entropy."""
    target = _start(device, json_file, batch, repeats)
    import torch

    from dbtm.bench.step import kinds, measure
    from dbtm.recipes import recipe as complete

    config, gpu = complete(recipe), target.type == "cuda"
    compiled = gpu if compiled is None else compiled
    graph = gpu and config.shape.small_vocab if graph is None else graph
    if graph and not gpu:
        raise UsageError("--graph needs a GPU")
    with progress_bar() as progress:
        bar = progress.add_task("preparing", total=len(kinds(config)))
        size = batch or (max(1, min(256, 2**16 // config.task.length)) if gpu else 4)
        try:
            result = measure(config, size, target, compiled, graph, repeats, lambda: progress.advance(bar))
        except torch.OutOfMemoryError:
            raise UsageError(f"{size} rows do not fit into this GPU's memory: give a smaller --batch") from None
    _write(json_file, {"recipe": recipe, **result}, target)
    _print(
        f"{recipe}, batch {size}, gradients of one batch",
        ("step", "ms", "vs cross-entropy", "peak GiB", "floor ms", "of matrix peak"),
        (
            (r["step"], r["ms"], r["ratio_vs_ce"], r["peak_gib"], r["floor_ms"], f"{r['share_of_peak']:.1%}")
            for r in result["rows"]
        ),
    )


@app.command()
def attention(repeats: Repeats = 10, device: Device = "auto", json_file: Json = None) -> None:
    """Attention with its tangent by every backend, and a four-block step against torch.func.jvp."""
    target = _start(device, json_file, None, repeats)
    from dbtm.bench.attention import measure_shapes, measure_steps

    shapes = []
    for row in measure_shapes(target, repeats):
        shapes.append(row)
        title = f"{row['shape']} (B, H, L, d = {row['size']}, softcap {row['softcap']:g}; chosen: {row['chosen']})"
        floors = {kind: row["floor_ms"].get(kind, "") for kind in ("value", "dual", "value step", "dual step")}
        names = dict.fromkeys(name.split(" ", 1)[0] for name in row["ms"])
        lines = [[name, *(row["ms"][f"{name} {kind}"] for kind in floors)] for name in names]
        _print(title, ("ms", *floors), [*lines, ["floor", *floors.values()]])
    steps = list(measure_steps(target, repeats))
    _write(json_file, {"shapes": shapes, "steps": steps}, target)
    cells = [(what, name) for what in ("ms", "peak_gib") for name in ("ours", "jvp")]
    _print(
        "transport step of a four-block map, against torch.func.jvp with its graph",
        ("B, L, V", "way", "ours ms", "jvp ms", "ours GiB", "jvp GiB", "floor ms"),
        (
            (str(r["size"]), way, *(r[what][way].get(name, "-") for what, name in cells), r["floor_ms"])
            for r in steps
            for way in r["ms"]
        ),
    )
    for r in steps:
        ours, theirs = r["best"]["ours"], r["best"]["jvp"]
        say(
            f"{r['size']}: ours {ours} against jvp {theirs}: {r['speed']:.2f}x as fast, {r['memory']:.2f}x less memory "
            f"(the paper's kernel on an A100: {r['paper_speed']}x, {r['paper_memory']}x)"
        )
        for name, why in r["refused"].items():
            say(f"  PyTorch does not compile {name}: {why}")


@app.command()
def head(repeats: Repeats = 10, device: Device = "auto", json_file: Json = None) -> None:
    """The head and its losses in chunks, against dense logits and tangents."""
    target = _start(device, json_file, None, repeats)
    from dbtm.bench.head import measure

    rows = list(measure(target, repeats))
    _write(json_file, {"rows": rows}, target)
    _print(
        "loss and gradients of transport and cross-entropy, half of the rows with a loss",
        ("sizes", "rows", "V", "chunked ms", "dense ms", "faster", "less memory", "floor ms: compute, traffic"),
        (
            (r["size"], r["rows"], r["vocab"], r["ms"]["chunked"], r["ms"]["dense"], f"{r['speed']:.2f}x",
             f"{r['memory']:.2f}x", ", ".join(map(number, r["floor_ms"].values())))
            for r in rows
        ),
    )  # fmt: skip


@app.command()
def sampler(
    recipe: Annotated[str, typer.Option(help="Recipe of the map and its sizes, for the rounds.")] = "sudoku",
    batch: Annotated[int | None, typer.Option(help="Samples per batch (default: 64 on a GPU, else 4).")] = None,
    vocab: Annotated[int, typer.Option(help="Vocabulary of the prior's draw.")] = 50257,
    width: Annotated[int, typer.Option(help="Width of the prior's draw.")] = 768,
    compiled: Annotated[
        bool | None, typer.Option("--compile/--no-compile", help="Also time compiled rounds (default: on a GPU).")
    ] = None,
    repeats: Repeats = 5,
    device: Device = "auto",
    json_file: Json = None,
) -> None:
    """Drawing the prior through its Cholesky factor against the dense draw, and the time of a refinement round."""
    target = _start(device, json_file, batch, repeats)
    in_range("--vocab", vocab, 1)
    if vocab <= width or width < 1:
        raise UsageError("--vocab must be larger than --width: below that the dense draw is used")
    from dbtm.bench.sampler import measure_prior, measure_rounds
    from dbtm.recipes import recipe as complete

    gpu = target.type == "cuda"
    prior = measure_prior(vocab, width, 8 if gpu else 1, 1024 if gpu else 32, target, repeats)
    rounds = measure_rounds(
        complete(recipe), batch or (64 if gpu else 4), target, gpu if compiled is None else compiled, repeats
    )
    _write(json_file, {"recipe": recipe, "prior": prior, "rounds": rounds}, target)
    _print(
        f"x0 W at V = {vocab}, D = {width}: {prior['batch']} x {prior['length']} positions",
        ("draw", "ms", "peak GiB", "floor ms"),
        (
            (name, ms, *(prior[what].get(name, "") for what in ("peak_gib", "floor_ms")))
            for name, ms in prior["ms"].items()
        ),
    )
    say(f"the Cholesky draw is {prior['speed']:.1f}x as fast as the dense one; its factor is made once")
    per_round = ", ".join(f"{name} {number(ms)} ms" for name, ms in rounds["ms_per_round"].items())
    say(f"a round of {rounds['batch']} samples of {recipe}: {per_round}; floor {number(rounds['floor_ms'])} ms")


def _start(device: str, json_file: Path | None, batch: int | None, repeats: int) -> "torch.device":
    """Check the options, and set up the device as training does."""
    files.check("--json", json_file)
    in_range("--batch", batch, 1, MOST_ROWS)
    in_range("--repeats", repeats, 1, MOST_REPEATS)

    import torch

    from dbtm.core.device import pick_device

    target = pick_device(device)
    if target.type == "cuda":
        torch.set_float32_matmul_precision("high")
    return target


def _print(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    from rich.table import Table

    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*(number(cell) if isinstance(cell, float) else str(cell) for cell in row))
    print_whole(table)


def _write(path: Path | None, result: dict[str, Any], device: "torch.device") -> None:
    if path is None:
        return
    import json

    from dbtm.evals.provenance import made

    files.write_text(path, json.dumps({**result, **made(device)}, indent=2) + "\n")
    say(path)
