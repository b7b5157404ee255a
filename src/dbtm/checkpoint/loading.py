"""Loading a trained model: `dbtm.load(checkpoint)` gives a Sampler."""

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import torch
from torch import Tensor

from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint import weights as averaged
from dbtm.checkpoint.migrate import read_config
from dbtm.checkpoint.parts import Part
from dbtm.core.device import fast_bf16, pick_device
from dbtm.core.errors import UsageError
from dbtm.methods.base import Method, method_of
from dbtm.nn.backbone import Backbone
from dbtm.nn.unfilled import Unfilled
from dbtm.sampling import Sampler

Shapes = dict[str, tuple[int, ...]]

MOST_AXES = 16
SPARE = 1 << 20  # elements that a network may create besides those it saves
_IMPOSSIBLE = (RuntimeError, ValueError, OverflowError, TypeError)  # sizes with an overflowing product
_FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
PACKAGED = Path(str(files("dbtm"))) / "models"


def find(path: str | Path) -> Path:
    """A checkpoint folder, the newest one of a run, or a packaged model by name ('sudoku')."""
    packaged = {p.name: p for p in sorted(PACKAGED.glob("*")) if p.is_dir()}
    try:
        return checkpoint.find(path)
    except UsageError as error:
        if str(path) in packaged:
            return packaged[str(path)]
        close = difflib.get_close_matches(str(path), packaged, n=1, cutoff=0.7)
        guess = f"; did you mean '{close[0]}'?" if close else ""
        raise UsageError(f"{error}{guess} (packaged models: {', '.join(packaged)})") from None


def load(path: str | Path, device: str = "auto") -> Sampler:
    """A sampler with the averaged weights of a checkpoint, verified by their sha256."""
    folder = find(path)
    needed = {"config.json", *averaged.names(folder)}
    small = {name for name in checkpoint.listed(folder, needed) if not name.endswith(".safetensors")}
    checkpoint.verify(folder, needed | small)
    config = read_config(folder)
    config = replace(config, task=config.task.with_files({name: folder / name for name in small}))
    target = pick_device(device)
    method = method_of(config)
    network = build_to_fit(method, folder)
    weights = averaged.read(folder)
    if weights["embedding"].dtype == torch.bfloat16 and fast_bf16(target):
        network.to(torch.bfloat16)  # as stored: no conversion in every layer
    put(network, weights, folder)
    if target.type == "cuda":
        network.compute_dtype = torch.bfloat16
    network.to(target).eval().requires_grad_(False).fold()
    return method.sampler(network)


def build_to_fit(method: Method, folder: Path) -> Backbone:
    """The network of the averaged weights, still without weights."""
    shapes = averaged.shapes(folder)
    _refuse_other_depth(method, shapes, folder)
    try:
        with Unfilled(2 * sum(math.prod(shape) for shape in shapes.values()) + SPARE):
            network = method.build()
    except _IMPOSSIBLE:
        refuse_misfit(method, shapes, folder)  # names the sizes that are too large
        raise
    _refuse_other_shapes(network, shapes, folder)
    return network


def refuse_misfit(method: Method, shapes: Shapes, where: Path) -> None:
    """Refuse weights that do not fit the configured network, before allocating memory of their size."""
    _refuse_other_depth(method, shapes, where)
    try:
        network = method.outline()
    except _IMPOSSIBLE:
        raise UsageError(f"{where} does not fit its configuration, whose sizes are impossible") from None
    _refuse_other_shapes(network, shapes, where)


def _refuse_other_depth(method: Method, shapes: Shapes, where: Path) -> None:
    model = method.config.model
    blocks = len({key.split(".")[2] for key in shapes if key.startswith("trunk.blocks.")})
    if blocks != model.depth:
        raise UsageError(f"{where} has {blocks} blocks, but its configuration model.depth={model.depth}")
    if len(model.position_axes) > MOST_AXES:
        raise UsageError(f"model.position_axes has more than {MOST_AXES} entries")


def _refuse_other_shapes(network: Backbone, shapes: Shapes, where: Path) -> None:
    wanted = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    for key in wanted | shapes:
        if wanted.get(key) != shapes.get(key):
            has, needs = (str(list(x[key])) if key in x else "nothing" for x in (shapes, wanted))
            raise UsageError(f"{where} does not fit its configuration: {key[:80]!r} is {has}, not {needs}")


def put_rows(network: torch.nn.Module, part: Part, rows_of: Callable[[Tensor], slice | None]) -> None:
    """The same for a network sharded over devices: each reads its own rows, given by `rows_of`."""
    own = network.state_dict()
    if part.shapes() != {name: tuple(value.shape) for name, value in own.items()}:
        raise UsageError(f"{part.where} does not fit its configuration")
    for name, mine in own.items():
        value = part.read(name, rows_of(mine))
        if mine.is_floating_point() and not (value.dtype in _FLOATS and bool(value.isfinite().all())):
            raise UsageError(f"{part.where} is damaged: {name[:80]!r} has weights that are not finite numbers")
        here = mine.to_local() if hasattr(mine, "to_local") else mine
        here.copy_(value)


def put(network: torch.nn.Module, weights: Mapping[str, Tensor], where: Path) -> None:
    """Load weights into a network; refuse values that are not finite, of another dtype, or outside a table."""
    own = network.state_dict()
    for name, value in weights.items():
        if name not in own or value.shape != own[name].shape:
            raise UsageError(f"{where} does not fit its configuration: see {name[:80]!r}")
        if own[name].is_floating_point() and not (value.dtype in _FLOATS and bool(value.isfinite().all())):
            raise UsageError(f"{where} is damaged: {name[:80]!r} has weights that are not finite numbers")
        if not own[name].is_floating_point() and value.dtype != own[name].dtype:
            raise UsageError(f"{where} is damaged: {name[:80]!r} has weights of type {value.dtype}")
    if missing := own.keys() - weights.keys():
        raise UsageError(f"{where} is damaged: it lacks {min(missing)!r}")
    ids, tables = weights.get("position_ids"), getattr(network, "positions", ())
    for table, column in zip(tables, () if ids is None else ids.unbind(1)):
        if len(column) and not 0 <= int(column.min()) <= int(column.max()) < len(table):
            raise UsageError(f"{where} is damaged: position_ids has entries that its tables do not have")
    network.load_state_dict(dict(weights))
