"""Attention against the delta rule by length: time of a forward pass and of a transport step, and peak memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from matplotlib.figure import Figure

from dbtm import losses
from dbtm.bench.timing import crossing, exponent, milliseconds, peak_bytes, replayed
from dbtm.config import ModelConfig, Shape
from dbtm.core.errors import out_of_memory
from dbtm.nn import Backbone
from dbtm.simplex.interpolant import interpolate
from dbtm.viz.theory.style import INK, LINES, VERTEX_COLOURS, new_figure, panel

# only `delta` is linear in the length; `mixed`, the paper's, has attention in every fourth block
PATTERNS = {"attention": "attn", "mixed": "gdn,gdn,gdn,attn", "delta": "gdn"}
MEASURES = {
    "forward_ms": "forward, ms",
    "step_ms": "transport step, ms",
    "forward_bytes": "forward, peak GiB",
    "step_bytes": "transport step, peak GiB",
}
VOCAB = 256  # small: embedding and head cost all backbones the same


@dataclass(frozen=True)
class BackboneTiming:
    """One backbone at one length; None if it did not fit into memory."""

    backbone: str
    length: int
    forward_ms: float | None = None
    step_ms: float | None = None
    forward_bytes: int | None = None
    step_bytes: int | None = None


def calls(
    config: ModelConfig, length: int, batch: int, device: torch.device, compiled: bool
) -> dict[str, Callable[[], object]]:
    """A forward pass as in a sampler, and a transport step: value, tangent, loss, backward."""
    torch.manual_seed(0)
    model = Backbone(Shape(VOCAB, length), config).to(device)
    if device.type == "cuda":
        model.compute_dtype = torch.bfloat16
    if compiled:
        model.compile_layers(dynamic=False)  # as in training
    shape = (batch, length)
    tokens, noise = torch.randint(0, VOCAB, shape, device=device), torch.randn(*shape, VOCAB, device=device)
    clean, t = torch.zeros(shape, dtype=torch.bool, device=device), torch.rand(batch, 1, device=device).expand(shape)
    state = interpolate(tokens, noise, clean, t, 1.0)

    @torch.no_grad()
    def forward() -> None:
        model.logits(model.embed(state)[0])

    def step() -> None:
        logits, dlogits = model.logits(*model.embed(state))
        assert dlogits is not None
        losses.transport(logits, dlogits).mean().backward()

    return {"forward": forward, "step": step}


def measure(
    base: ModelConfig,
    lengths: Sequence[int],
    batch: int,
    device: torch.device,
    repeats: int,
    compiled: bool = False,
    progress: Callable[[], None] = lambda: None,
) -> Iterator[BackboneTiming]:
    """Every backbone at every length; all backbones of a length take turns. One that runs out of memory is dropped.

    On a GPU the calls are timed as CUDA graphs; otherwise short lengths would measure the kernel launches.
    """
    alive = dict(PATTERNS)
    for length in lengths:
        runs: dict[str, dict[str, Callable[[], object]]] = {}
        measured: dict[str, dict[str, Any]] = {name: {} for name in PATTERNS}
        for name, pattern in list(alive.items()):
            config = replace(base, backbone="delta", pattern=pattern)
            try:
                run = calls(config, length, batch, device, compiled)
                for call in run.values():
                    call()  # allocates the gradients, which are not counted
                    call()
                measured[name] = {f"{kind}_bytes": peak_bytes(call, device) for kind, call in run.items()}
                runs[name] = run
            except RuntimeError as error:
                no_memory(error)
                del alive[name]
            progress()
        for kind in ("forward", "step"):
            timed: dict[str, Callable[[], object]] = {}
            for name, run in runs.items():
                try:
                    timed |= replayed({name: run[kind]}, device)
                except RuntimeError as error:  # a graph has its own memory
                    no_memory(error)
            taken = milliseconds(timed, device, repeats)
            for name, ms in taken.items():
                measured[name][f"{kind}_ms"] = ms
            progress()
        del runs
        yield from (BackboneTiming(name, length, **values) for name, values in measured.items())


def no_memory(error: RuntimeError) -> None:
    """If memory has run out, free what was reserved; re-raise any other error."""
    if not out_of_memory(error):
        raise error
    torch.cuda.empty_cache()


def series(rows: Sequence[BackboneTiming], backbone: str, measure: str) -> tuple[list[int], list[float]]:
    """Lengths and values of one backbone, without those that did not fit."""
    known = [(row.length, getattr(row, measure)) for row in rows if row.backbone == backbone]
    known = [(length, value) for length, value in known if value is not None]
    return [length for length, _ in known], [value for _, value in known]


def summary(rows: Sequence[BackboneTiming]) -> dict[str, Any]:
    """Exponents over all lengths and over the last two, ratios to attention, and lengths at which others beat it."""
    out: dict[str, Any] = {"rows": [asdict(row) for row in rows]}
    for name in MEASURES:
        at = {backbone: dict(zip(*series(rows, backbone, name), strict=True)) for backbone in PATTERNS}
        entry: dict[str, Any] = {"exponent": {}, "exponent_at_the_end": {}, "ratio": {}, "crossing": {}}
        for backbone, values in at.items():
            sizes, y = list(values), list(values.values())
            if len(sizes) > 1:
                entry["exponent"][backbone] = exponent(sizes, y)
                entry["exponent_at_the_end"][backbone] = exponent(sizes[-2:], y[-2:])
            shared = [length for length in sizes if length in at["attention"]]
            if backbone != "attention" and shared:
                pair = [at["attention"][length] for length in shared], [values[length] for length in shared]
                entry["ratio"][backbone] = {length: b / a for length, a, b in zip(shared, *pair, strict=True)}
                entry["crossing"][backbone] = crossing(shared, *pair)
        out[name] = entry
    return out


def draw(rows: Sequence[BackboneTiming], measured: dict[str, Any]) -> Figure:
    """Four panels by length: time and memory of both calls, with exponents over all lengths and the lengths from which
    the other backbones are below attention.
    """
    figure = new_figure(8.0, 5.6)
    for ax, letter, (name, title) in zip(figure.subplots(2, 2).flat, "ABCD", MEASURES.items()):
        scale = 2.0**30 if name.endswith("bytes") else 1.0
        for backbone, line, colour in zip(PATTERNS, LINES, VERTEX_COLOURS):
            sizes, y = series(rows, backbone, name)
            p, at = (measured[name][key].get(backbone) for key in ("exponent", "crossing"))
            label = backbone if p is None else rf"{backbone}, $L^{{{p:.2f}}}$"
            if at is not None and at > rows[0].length:
                ax.axvline(at, ymax=0.7, color=colour, lw=0.7, ls=":")
                label += rf", below from $L$ = {at:,.0f}"
            ax.loglog(sizes, [value / scale for value in y], line, marker="o", ms=3.5, color=colour, label=label)
        lengths = sorted({row.length for row in rows})
        ax.set_xticks(lengths, [f"{length:,}" for length in lengths])
        ax.set_xticks([], minor=True)
        ax.set_xlabel("$L$", color=INK)
        panel(ax, letter, title)
        ax.set_ylim(top=20 * ax.get_ylim()[1])  # room for the legend above the lines
        ax.legend(loc="upper left")
    return figure
