"""Reading a GGUF file: its metadata, its table of tensors, and each tensor as float32. Nothing in it is executed."""

import math
import mmap
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.evals.judges.quants import FORMATS, UNREAD

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


class Entry(NamedTuple):
    """Where a tensor lies, and how."""

    shape: tuple[int, ...]
    """As PyTorch has it: the last axis is the one whose weights lie side by side."""
    kind: int
    offset: int
    """In bytes, from the beginning of the file."""


class _Cursor:
    """A place in the file that moves on with every read and never leaves the file."""

    def __init__(self, data: mmap.mmap):
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise ValueError("it ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def text(self) -> str:
        return self.take(self.number("Q")).decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            inner, count = self.number("I"), self.number("Q")
            if inner in _SCALARS:
                code = _SCALARS[inner]
                return list(struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize(code))))
            return [self.value(inner) for _ in range(count)]
        if kind not in _SCALARS:
            raise ValueError(f"it has a value of the unknown type {kind}")
        return self.number(_SCALARS[kind])


class GGUF:
    """An open GGUF file. Tensors are read when asked for."""

    def __init__(self, path: Path):
        self.path = path
        try:
            with path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from None
        except ValueError:
            raise UsageError(f"{path} is no GGUF file: it is empty") from None
        try:
            self._read_header(_Cursor(self._data))
        except (ValueError, struct.error, MemoryError, RecursionError) as error:
            raise UsageError(f"{path} is no GGUF file, or a damaged one: {error}") from None

    def _read_header(self, cursor: _Cursor) -> None:
        if cursor.take(4) != b"GGUF":
            raise ValueError("it does not begin with the letters GGUF")
        version, tensors, pairs = cursor.number("I"), cursor.number("Q"), cursor.number("Q")
        if version not in (2, 3):
            raise ValueError(f"it is of version {version}; versions 2 and 3 are read")
        self.metadata: dict[str, Any] = {}
        for _ in range(pairs):
            name = cursor.text()
            self.metadata[name] = cursor.value(cursor.number("I"))
        self.tensors: dict[str, Entry] = {}
        for _ in range(tensors):
            name = cursor.text()
            axes = [cursor.number("Q") for _ in range(cursor.number("I"))]
            self.tensors[name] = Entry(tuple(reversed(axes)), cursor.number("I"), cursor.number("Q"))
        alignment = self.metadata.get("general.alignment", 32)
        start = math.ceil(cursor.at / alignment) * alignment
        self.tensors = {name: entry._replace(offset=start + entry.offset) for name, entry in self.tensors.items()}

    def tensor(self, name: str) -> np.ndarray:
        """One tensor as float32."""
        shape, kind, offset = self.tensors[name]
        if kind not in FORMATS:
            readable = ", ".join(entry.name for entry in FORMATS.values())
            raise UsageError(
                f"{self.path}: {name} is stored as {UNREAD.get(kind, f'type {kind}')}, which is not read here; "
                f"readable are {readable}"
            )
        entry = FORMATS[kind]
        blocks, rest = divmod(math.prod(shape), entry.size)
        if rest or offset + blocks * entry.bytes > len(self._data):
            raise UsageError(f"{self.path} is damaged: {name} does not fit into the file")
        raw = np.frombuffer(self._data, np.uint8, blocks * entry.bytes, offset)
        return entry.decode(raw.reshape(blocks, entry.bytes)).reshape(shape)
