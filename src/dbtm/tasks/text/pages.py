"""How large the pages of a Parquet file are, told from their headers: a few compressed bytes can stand for gigabytes,
and a reader that is asked for rows unpacks whole pages.
"""

from pathlib import Path
from typing import Any, NamedTuple

from dbtm.core.errors import UsageError

MOST_PAGE = 1 << 26  # bytes, uncompressed; writers make pages of one mebibyte, unless a single text is larger
MOST_HEADER = 1 << 16
MOST_ROWS = 1024  # at once


class _Page(NamedTuple):
    header: int  # bytes
    packed: int
    unpacked: int


def rows_at_once(path: Path, metadata: Any, column: str) -> int:
    """So many rows of a column as stay within MOST_PAGE bytes; a file with a larger page is refused.

    A text lies in one page, or in the page of a dictionary, so that none is larger than the largest page.
    """
    largest = 1
    with open(path, "rb") as file:
        for group in range(metadata.num_row_groups):
            for i in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(i)
                if chunk.path_in_schema == column:
                    largest = max(largest, _largest(path, file, chunk))
    return max(1, min(MOST_ROWS, MOST_PAGE // largest))


def _largest(path: Path, file: Any, chunk: Any) -> int:
    start, largest = chunk.data_page_offset, 0
    if chunk.dictionary_page_offset and 0 < chunk.dictionary_page_offset < start:
        start = chunk.dictionary_page_offset
    place, end = start, start + chunk.total_compressed_size
    while place < end:
        file.seek(place)
        page = _header(file.read(MOST_HEADER))
        if page.unpacked > MOST_PAGE:
            most = f"{page.unpacked >> 20} MiB: at most {MOST_PAGE >> 20} are read"
            raise UsageError(f"{path} has a page of {most}; write it with smaller texts, or as JSON lines")
        largest = max(largest, page.unpacked)
        place += page.header + page.packed
    return largest


def _header(data: bytes) -> _Page:
    """A page's header, in the compact encoding of Thrift: fields 2 and 3 are its sizes."""
    reader = _Compact(data)
    sizes = reader.struct()
    unpacked, packed = sizes.get(2, -1), sizes.get(3, -1)
    if packed < 0 or unpacked < 0:
        raise ValueError("a page without a size")
    return _Page(reader.at, packed, unpacked)


class _Compact:
    """Thrift's compact encoding, as far as whole numbers; everything else is passed over."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def struct(self, depth: int = 0) -> dict[int, int]:
        """Fields that are whole numbers."""
        if depth > 8:
            raise ValueError("a page's header is nested too deeply")
        found: dict[int, int] = {}
        last = 0
        while kind := self._byte():
            last = last + (kind >> 4) if kind >> 4 else self._number()
            value = self._value(kind & 15, depth)
            if value is not None:
                found[last] = value
        return found

    def _value(self, kind: int, depth: int) -> int | None:
        match kind:
            case 1 | 2:  # true, false: no bytes of their own
                return None
            case 3:
                self._byte()
            case 4 | 5 | 6:
                return self._number()
            case 7:
                self.at += 8
            case 8:
                size = self._varint()  # which itself goes on from `at`
                self.at += size
            case 9 | 10:
                self._list(depth)
            case 12:
                self.struct(depth + 1)
            case _:
                raise ValueError("a page's header has a field of an unknown kind")
        return None

    def _list(self, depth: int) -> None:
        head = self._byte()
        count = head >> 4 if head >> 4 < 15 else self._varint()
        for _ in range(min(count, len(self.data))):
            if head & 15 in (1, 2):  # in lists they have a byte each
                self._byte()
            else:
                self._value(head & 15, depth)

    def _byte(self) -> int:
        if self.at >= len(self.data):
            raise ValueError("it ends in a page's header")
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        value, shift = 0, 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number in a page's header has no end")
        return value | byte << shift

    def _number(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
