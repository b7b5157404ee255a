"""The averaged weights of a checkpoint: as trained, or packed into 8 bits per weight.

    ema.safetensors                          as trained
    ema-00001.safetensors ...                as trained, in pieces by several processes (parts.py)
    ema-1.safetensors, ema-2.safetensors ...  packed, each file of at most 16 MiB
      NAME           int8 (rows, ...)   round(weight / scale of its row), in [-127, 127]
      scale/NAME     float32 (rows,)

Only matrices are packed: norms, biases and tables of numbers are unchanged. A row's scale minimises the squared error,
so that a single large weight does not spoil its row.
"""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint.parts import files_of
from dbtm.core.errors import UsageError

WHOLE = "ema.safetensors"
MOST_BYTES = 16 << 20  # of a packed file
HEADER = 1 << 17  # most bytes of its table of contents
_PART = re.compile(r"ema-([1-9]\d{0,3})\.safetensors")
_SCALE = "scale/"
_CLIPS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)  # candidates for the value of 127, as shares of a row's largest weight


def names(folder: Path) -> list[str]:
    """The files of the averaged weights in the manifest."""
    listed = checkpoint.listed(folder, {"config.json"})
    if pieces := [name for name in files_of(listed, "ema") if name != WHOLE]:
        return pieces
    parts = sorted((name for name in listed if _PART.fullmatch(name)), key=lambda name: (len(name), name))
    if WHOLE in listed or not parts:
        checkpoint.listed(folder, {WHOLE})  # refuses a folder without weights
        return [WHOLE]
    if parts != [f"ema-{i}.safetensors" for i in range(1, len(parts) + 1)]:
        raise UsageError(f"{folder} is damaged: of its packed weights only {', '.join(parts)[:200]} are present")
    return parts


def shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """{name: shape} of the weights, from the files' headers."""
    found: dict[str, tuple[int, ...]] = {}
    for name in _files(folder):
        found |= checkpoint.read_shapes(folder, name.removesuffix(".safetensors"))
    return {key: shape for key, shape in found.items() if not key.startswith(_SCALE)}


def read(folder: Path) -> dict[str, Tensor]:
    """The weights; packed ones are returned in bfloat16, which is more precise than 8 bits."""
    stored: dict[str, Tensor] = {}
    for name in _files(folder):
        part = checkpoint.read_tensors(folder, name.removesuffix(".safetensors"))
        if twice := stored.keys() & part.keys():
            raise UsageError(f"{folder} is damaged: {min(twice)[:80]!r} is in two files")
        stored |= part
    scales = {key.removeprefix(_SCALE): stored.pop(key) for key in [*stored] if key.startswith(_SCALE)}
    for key, scale in scales.items():
        stored[key] = _unpacked(stored.get(key), scale, folder, key)
    return stored


def in_pieces(folder: Path) -> bool:
    """Whether several processes wrote them."""
    found = names(folder)
    return found != [WHOLE] and set(found) == set(files_of(found, "ema"))


def _files(folder: Path) -> list[str]:
    """The files to read one by one; pieces replace the whole file."""
    return [WHOLE] if in_pieces(folder) else names(folder)


def digest(folder: Path) -> str:
    """sha256 of the weights: of their file, or of the concatenated sha256 of their files."""
    listed = checkpoint.listed(folder, {"config.json"})
    digests = [listed[name] for name in names(folder)]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


# -- packing -----------------------------------------------------------------------------------------------------------


def pack(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Every matrix as int8 with a scale per row; the rest unchanged."""
    packed: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if weight.is_floating_point() and weight.dim() >= 2:
            packed[name], packed[_SCALE + name] = _packed(weight.float())
        else:
            packed[name] = weight
    return packed


def split(packed: dict[str, Tensor], most: int = MOST_BYTES) -> dict[str, dict[str, Tensor]]:
    """{name: tensors} of files of at most `most` bytes, unless a single tensor is larger."""
    parts = _within(packed, most - HEADER)
    return {f"ema-{i}": part for i, part in enumerate(parts, start=1)}


def _within(tensors: dict[str, Tensor], most: int) -> Iterator[dict[str, Tensor]]:
    part: dict[str, Tensor] = {}
    size = 0
    for name, tensor in tensors.items():
        if part and size + tensor.nbytes > most:
            yield part
            part, size = {}, 0
        part[name] = tensor
        size += tensor.nbytes
    yield part


def _packed(weight: Tensor) -> tuple[Tensor, Tensor]:
    """int8 and the scales of the rows, each with the lowest squared error among candidates."""
    rows = weight.flatten(1)
    largest = rows.abs().amax(1).clamp(min=torch.finfo(torch.float32).tiny * 127)
    best, scale = torch.full_like(largest, torch.inf), largest / 127
    for clip in _CLIPS:
        tried = largest * (clip / 127)
        error = (_rounded(rows, tried) * tried[:, None] - rows).square().sum(1)
        better = error < best
        best, scale = torch.where(better, error, best), torch.where(better, tried, scale)
    return _rounded(rows, scale).to(torch.int8).view_as(weight), scale


def _rounded(rows: Tensor, scale: Tensor) -> Tensor:
    return (rows / scale[:, None]).round().clamp(-127, 127)


def _unpacked(packed: Tensor | None, scale: Tensor, folder: Path, name: str) -> Tensor:
    fits = packed is not None and packed.dtype == torch.int8 and packed.dim() >= 2
    if not fits or packed is None or scale.dtype != torch.float32 or scale.shape != packed.shape[:1]:
        raise UsageError(f"{folder} is damaged: the scales of {name[:80]!r} do not fit its weights")
    return (packed.float() * scale.view(-1, *[1] * (packed.dim() - 1))).to(torch.bfloat16)
