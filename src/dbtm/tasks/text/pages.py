"""Page sizes of a Parquet file, from its headers: a few compressed bytes can unpack to gigabytes, and a reader unpacks
whole pages.

The library aborts the process on damaged headers, so they are parsed here.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from dbtm.core.errors import UsageError

MOST_PAGE = 1 << 26  # uncompressed bytes; writers make pages of one mebibyte, unless a single text is larger
HEADER, MOST_HEADER = 1 << 9, 1 << 16
MOST_FOOTER = 1 << 26
MOST_VALUES = 4_000_000  # of a footer
MOST_ROWS = 1024  # at once


def rows_at_once(path: Path, columns: list[str]) -> int:
    """The number of rows of some columns within MOST_PAGE bytes; a file with a larger page is refused.

    A text lies in one page, or in a dictionary page, so none is larger than the largest page.
    """
    largest = 1
    with open(path, "rb") as file:
        for start, end in _chunks(file, {column.encode() for column in columns}):
            while start < end:
                header, found = _header(file, start)
                unpacked, packed = found.get(2), found.get(3)
                if not isinstance(unpacked, int) or not isinstance(packed, int) or unpacked < 0 or packed < 0:
                    raise ValueError("a page without a size")
                if unpacked > MOST_PAGE:
                    most = f"{unpacked >> 20} MiB, more than {MOST_PAGE >> 20}"
                    raise UsageError(f"{path} has a page of {most}; write it with smaller texts, or as JSON lines")
                largest = max(largest, unpacked)
                start += header.at + packed
    return max(1, min(MOST_ROWS, MOST_PAGE // largest))


def _header(file: BinaryIO, start: int) -> tuple["_Compact", dict[int, Any]]:
    """A page's header: a few bytes, or more with statistics of long texts."""
    for size in (HEADER, MOST_HEADER):
        file.seek(start)
        header = _Compact(file.read(size))
        try:
            return header, header.struct()
        except ValueError:
            if size == MOST_HEADER:
                raise
    raise AssertionError


def _chunks(file: BinaryIO, columns: set[bytes]) -> Iterator[tuple[int, int]]:
    """Start and end of the columns' pages, from the footer: FileMetaData.row_groups, .columns, .meta_data."""
    file.seek(-8, 2)
    end = file.tell()
    (size,) = struct.unpack("<I", file.read(4))
    if size > min(end, MOST_FOOTER):
        raise ValueError(f"a footer of {size} bytes")
    file.seek(end - size)
    for group in _Compact(file.read(size)).struct().get(4, ()):
        for chunk in group.get(1, ()):
            told = chunk.get(3, {})
            path, begin, first = told.get(3, ()), told.get(9), told.get(11)
            if len(path) != 1 or path[0] not in columns:
                continue
            if first is not None and 0 < first < begin:
                begin = first
            yield begin, begin + told[7]


class _Compact:
    """Thrift's compact encoding: structures by field number."""

    def __init__(self, data: bytes):
        self.data, self.at, self.left = data, 0, MOST_VALUES

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > 12:
            raise ValueError("headers within headers")
        found: dict[int, Any] = {}
        last = 0
        while kind := self._byte():
            last = last + (kind >> 4) if kind >> 4 else self._number()
            found[last] = self._value(kind & 15, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        self.left -= 1
        if self.left < 0:
            raise ValueError("more values in its footer than are read")
        match kind:
            case 1 | 2:  # no value bytes
                return kind == 1
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._number()
            case 7:
                return self._bytes(8)
            case 8:
                return self._bytes(self._varint())
            case 9 | 10:
                return self._list(depth)
            case 12:
                return self.struct(depth + 1)
        raise ValueError("a header has a field of an unknown kind")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._varint()
        kind = 3 if head & 15 in (1, 2) else head & 15  # booleans take one byte each here
        return [self._value(kind, depth) for _ in range(count)]

    def _bytes(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.data):
            raise ValueError("it ends in a header")
        return self.data[self.at - count : self.at]

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _varint(self) -> int:
        value, shift = 0, 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number in a header has no end")
        return value | byte << shift

    def _number(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
