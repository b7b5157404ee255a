"""A part of a checkpoint (model, ema, optim, a teacher): its tensors in one file, or split by rows over several.

    ema.safetensors                              whole
    ema-00001.safetensors, ema-00002.safetensors ...   pieces, one file per process that wrote them

Files of pieces are those of PyTorch's distributed checkpoints in the safetensors format: tensors are named `part/name`,
and the header has the offset of each piece in the whole tensor as JSON. Nothing is unpickled.
"""

import json
import re
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from dbtm.core.errors import UsageError

OFFSETS = "DCP_SHARDING_INFO"  # PyTorch's name for them, in the header
MOST_FILES = 1 << 16


@dataclass
class Entry:
    """A tensor: its whole shape, and (file, offset, shape) of each piece."""

    shape: tuple[int, ...]
    pieces: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)


def files_of(names: Iterable[str], part: str) -> list[str]:
    """The files of a part of a checkpoint."""
    pattern = re.compile(rf"{re.escape(part)}(-\d{{5}})?\.safetensors")
    return sorted(name for name in names if pattern.fullmatch(name))


def parts_of(names: Iterable[str]) -> list[str]:
    """The parts of a checkpoint, by its files."""
    return sorted({re.sub(r"(-\d{5})?\.safetensors$", "", name) for name in names if name.endswith(".safetensors")})


class Part:
    """The tensors of a part, from one or several files; a context that keeps them open."""

    def __init__(self, folder: Path, part: str):
        self.folder, self.part = folder, part
        present = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        self.names = files_of(present, part)
        if not self.names:
            raise UsageError(f"{folder} has no {part}.safetensors")
        if len(self.names) > MOST_FILES or (len(self.names) > 1 and f"{part}.safetensors" in self.names):
            raise UsageError(f"{folder} is damaged: it has {part} twice")
        self.entries: dict[str, Entry] = {}
        self.open = ExitStack()

    @property
    def where(self) -> Path:
        """The file to name in an error: the part's, or the first of its pieces."""
        return self.folder / self.names[0]

    def __enter__(self) -> "Part":
        try:
            self.files = {name: self.open.enter_context(safe_open(self.folder / name, "pt")) for name in self.names}
            for name, file in self.files.items():
                self._index(name, file)
            for key, entry in self.entries.items():
                self._check(key, entry)
        except (MemoryError, UsageError):
            self.open.close()
            raise
        except Exception as error:  # SafetensorError, OSError, and errors of a malformed header
            self.open.close()
            raise UsageError(f"{self.where} is damaged: {line(error)}") from None
        return self

    def __exit__(self, *error: Any) -> None:
        self.open.close()

    def _index(self, name: str, file: Any) -> None:
        begins = (file.metadata() or {}).get(OFFSETS)
        offsets = json.loads(begins) if begins else {}
        for key in file.keys():  # noqa: SIM118 - no dictionary
            shape = tuple(file.get_slice(key).get_shape())
            begin = tuple(offsets[key]["saved_offsets"]) if begins else (0,) * len(shape)
            if len(begin) != len(shape) or not all(isinstance(x, int) and 0 <= x < 1 << 48 for x in begin):
                raise UsageError(f"{self.folder / name} is damaged: {key[:80]!r} has no valid offset")
            own = key.removeprefix(f"{self.part}/") if begins else key
            entry = self.entries.setdefault(own, Entry(shape))
            if len(entry.shape) != len(shape):
                raise UsageError(f"{self.folder / name} is damaged: {key[:80]!r} has pieces of several shapes")
            entry.shape = tuple(max(w, b + s) for w, b, s in zip(entry.shape, begin, shape, strict=True))
            entry.pieces.append((name, begin, shape))

    def _check(self, key: str, entry: Entry) -> None:
        """Check that pieces are consecutive whole rows."""
        at = 0
        for name, begin, shape in sorted(entry.pieces, key=lambda piece: piece[1]):
            if len(entry.pieces) == 1 and begin == (0,) * len(begin):
                return
            if not shape or begin[0] != at or any(begin[1:]) or shape[1:] != entry.shape[1:]:
                raise UsageError(f"{self.folder / name} is damaged: a piece of {key[:80]!r} is missing or repeated")
            at += shape[0]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {key: entry.shape for key, entry in self.entries.items()}

    def read(self, key: str, rows: slice | None = None, device: str | torch.device = "cpu") -> Tensor:
        """A tensor, or only some of its rows."""
        entry, found = self.entries[key], []
        prefix = "" if self.names[0] == f"{self.part}.safetensors" else f"{self.part}/"
        try:
            for name, begin, shape in sorted(entry.pieces, key=lambda piece: piece[1]):
                if rows is None or not shape:
                    found.append(self.files[name].get_tensor(prefix + key))
                    continue
                first, last = max(rows.start - begin[0], 0), min(rows.stop - begin[0], shape[0])
                if first < last:
                    found.append(self.files[name].get_slice(prefix + key)[first:last])
        except MemoryError:
            raise
        except Exception as error:
            raise UsageError(f"{self.where} is damaged: {line(error)}") from None
        if not found:
            return torch.empty((0, *entry.shape[1:]), device=device)
        return (found[0] if len(found) == 1 else torch.cat(found)).to(device)


def line(error: Exception) -> str:
    """A library's message about a file, as one short line; it may quote the file."""
    return repr((str(error).strip() or type(error).__name__).split("\n")[0][:200])[1:-1]
