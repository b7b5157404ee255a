"""Packing: a checkpoint's averaged weights in 8 bits per weight, for shipping or as the start of another run."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint import weights
from dbtm.checkpoint.loading import find
from dbtm.core.errors import UsageError

BITS = (8,)


@dataclass(frozen=True)
class Packed:
    """The result of packing."""

    folder: Path
    files: int
    """Files of weights."""
    bytes: int
    """Their size."""
    bytes_before: int
    error: float
    """Relative error of the packed matrices: root mean square error over the root mean square of the weights."""


def pack(source: str, out: Path, bits: int = 8) -> Packed:
    """Write `source`, packed, as a new checkpoint in `out`, atomically."""
    if bits not in BITS:
        raise UsageError(f"weights cannot be packed into {bits} bits: use {', '.join(map(str, BITS))}")
    folder = find(source)
    names = weights.names(folder)
    if names != [weights.WHOLE]:
        raise UsageError(f"{folder} is packed already")
    if out.exists():
        raise UsageError(f"{out} exists: choose another folder")
    small = {name for name in checkpoint.listed(folder, names) if name.endswith(".json")} - {"state.json"}
    checkpoint.verify(folder, {*names, *small})
    as_trained = weights.read(folder)
    packed = weights.pack(as_trained)
    files = {name: (folder / name).read_text(encoding="utf-8") for name in small}
    checkpoint.write(out, weights.split(packed), {}, files)
    written = [out / name for name in weights.names(out)]
    sizes = sum(path.stat().st_size for path in written)
    before = (folder / weights.WHOLE).stat().st_size
    return Packed(out, len(written), sizes, before, _error(as_trained, weights.read(out)))


def _error(before: dict[str, Tensor], after: dict[str, Tensor]) -> float:
    matrices = [name for name, weight in before.items() if weight.is_floating_point() and weight.dim() >= 2]
    off = sum(float((after[name].float() - before[name].float()).square().sum()) for name in matrices)
    return (off / max(1e-300, sum(float(before[name].float().square().sum()) for name in matrices))) ** 0.5
