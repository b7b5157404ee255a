"""Reading a GGUF file with the package gguf, which trusts a file's content: here every size is checked first.

Importing this module needs the package, so only loading a judge does. Nothing in a file is executed.
"""

import math
import reprlib
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGUFValueType

from dbtm.core.errors import UsageError
from dbtm.core.reading import at_once

_VERSIONS = (2, 3)
_MOST_ENTRIES = 4096  # tensors, or pairs of metadata; each costs a kilobyte, and a Llama has some hundreds
_MOST_STRINGS = 250_000  # in all arrays; each costs half a kilobyte, and the tokenizers read here have 100,000


class _Reader(gguf.GGUFReader):
    """The package's reader, with two of its methods made strict.

    Past the end of a file the original reads empty arrays without an error, so a false length of an array would keep it
    busy forever. It also makes an object of every number in an array, which costs far more memory than the file has.
    """

    strings = 0

    def _get(self, offset: int, dtype: Any, count: Any = 1, override_order: Any = None) -> np.ndarray:
        """Numbers at a place of the file, which must hold all of them; the file is little-endian, as checked before."""
        end = int(offset) + np.dtype(dtype).itemsize * int(count)
        if end > len(self.data):
            raise ValueError("it ends too early")
        return np.asarray(self.data)[int(offset) : end].view(dtype)

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
        """As the original, but an array of numbers is one part."""
        if raw_type != GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, int(raw_type))
        kind, count = self._get(orig_offs, np.uint32), self._get(orig_offs + 4, np.uint64)
        inner = GGUFValueType(int(kind[0]))
        if inner == GGUFValueType.ARRAY:
            raise ValueError("it has an array of arrays")
        if inner == GGUFValueType.STRING:
            self.strings += int(count[0])
            if self.strings > _MOST_STRINGS:
                raise ValueError(f"its arrays have more than {_MOST_STRINGS:,} strings")
            return super()._get_field_parts(orig_offs, raw_type)
        values = self._get(orig_offs + 12, self.gguf_scalar_to_np[inner], count[0])
        return 12 + values.nbytes, [kind, count, values], [2], [GGUFValueType.ARRAY, inner]


class GGUF:
    """An open GGUF file, mapped into memory. Tensors are decoded when requested."""

    def __init__(self, path: Path):
        self.path = path
        try:
            _check_header(path)
            with np.errstate(over="raise"):  # an offset of 2^64 - 1 would wrap around to one inside the file
                reader = _Reader(path)
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from None
        except Exception as error:  # the package has many: ValueError, IndexError, KeyError, OverflowError
            raise UsageError(f"{path} is not a GGUF file, or is damaged: {_line(error)}") from None
        self._fields = reader.fields
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.shapes = {name: tuple(reversed(tensor.shape.tolist())) for name, tensor in self._tensors.items()}
        """As PyTorch has them: the last axis is the one whose weights lie side by side."""
        if sum(tensor.n_bytes for tensor in reader.tensors) > len(reader.data) - reader.data_offset:
            raise UsageError(f"{path} is damaged: its tensors overlap")

    def states(self, name: str) -> bool:
        """True if the metadata has a value of this name."""
        return name in self._fields

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        fits = lambda value: type(value) is int and low <= value <= high  # noqa: E731
        return self._value(name, fits, f"a whole number from {low} to {high}", default)

    def positive(self, name: str, default: float | None = None) -> float:
        fits = lambda value: type(value) in (int, float) and 0 < value < math.inf  # noqa: E731
        return self._value(name, fits, "a positive number", default)

    def text(self, name: str, default: str | None = None) -> str:
        return self._value(name, lambda value: type(value) is str, "a string", default)

    def texts(self, name: str) -> list[str]:
        fits = lambda value: type(value) is list and all(type(item) is str for item in value)  # noqa: E731
        return self._value(name, fits, "a list of strings", None)

    def numbers(self, name: str, default: list[float] | None = None) -> list[float]:
        fits = lambda value: type(value) is list and not any(type(item) is str for item in value)  # noqa: E731
        return self._value(name, fits, "a list of numbers", default)

    def _value(self, name: str, fits: Callable[[Any], bool], wanted: str, default: Any) -> Any:
        """A value of the metadata, which must fit."""
        try:
            value = self._fields[name].contents() if self.states(name) else default
        except UnicodeDecodeError:
            raise UsageError(f"{self.path} is damaged: {name} is not UTF-8") from None
        if value is None:
            raise UsageError(f"{self.path} is damaged: it does not state {name}")
        if not fits(value):
            raise UsageError(f"{self.path} is damaged: {name} is {reprlib.repr(value)}, not {wanted}")
        return value

    def tensor(self, name: str) -> np.ndarray:
        """One tensor as float32, in its own memory."""
        stored = self._tensors[name]
        try:
            with np.errstate(all="ignore"):  # numbers that are not finite are reported below
                weights = gguf.quants.dequantize(stored.data, stored.tensor_type)
        except NotImplementedError:
            kind = stored.tensor_type.name
            raise UsageError(f"{self.path}: {name} is stored as {kind}, which the package gguf cannot decode") from None
        except Exception as error:
            raise UsageError(f"{self.path} is damaged: {name} cannot be decoded: {_line(error)}") from None
        if not np.isfinite(weights).all():
            raise UsageError(f"{self.path} is damaged: {name} has weights that are not finite")
        return np.require(weights, np.float32, ["C", "A", "W"])


def _check_header(path: Path) -> None:
    """Check the letters, the version and the two counts, before the package uses them."""
    with open(path, "rb", opener=at_once) as file:
        head = file.read(24)
    if not b"GGUF".startswith(head[:4]) or not head:
        raise ValueError("it does not begin with the letters GGUF")
    if len(head) < 24:
        raise ValueError("it ends too early")
    version, *counts = struct.unpack("<IQQ", head[4:])
    if version not in _VERSIONS:
        raise ValueError(f"it has version {version}; versions 2 and 3 are supported")
    for count, what in zip(counts, ("tensors", "pairs of metadata")):
        if count > _MOST_ENTRIES:
            raise ValueError(f"it has {count} {what}, more than {_MOST_ENTRIES}")


def _line(error: Exception) -> str:
    """An error's message in one short line, whatever the file put into it."""
    return repr(str(error)[:200])[1:-1] or type(error).__name__
