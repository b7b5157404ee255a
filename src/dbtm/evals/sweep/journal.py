"""Files of JSON lines that survive a kill: each line is written atomically."""

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from dbtm.core import atomic
from dbtm.core.errors import UsageError
from dbtm.core.reading import MOST_VALUES, at_once, bounded_json

MOST_LINE = 1 << 30  # bytes: tokens and texts of one set of samples
MOST_PACKED_LINE = 1 << 27


def read_records(path: Path, cut_short: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, record) of a file, .gz or plain.

    `cut_short` is for our own journals: a last line without its end is left from a kill, and skipped.
    """
    try:
        packed = path.suffix == ".gz"
        with open(path, "rb", opener=at_once) as raw, gzip.open(raw) if packed else raw as file:
            most = MOST_PACKED_LINE if packed else MOST_LINE
            for number, line in enumerate(iter(partial(file.readline, most + 1), b""), 1):
                if len(line) > most:
                    raise UsageError(f"{path}, line {number} has more than {most >> 20} MiB: split the set of samples")
                if cut_short and not line.endswith(b"\n"):
                    return
                yield number, _record(line, f"{path}, line {number}", MOST_VALUES if packed else MOST_LINE)
    except (OSError, EOFError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def _record(line: bytes, where: str, most: int) -> dict[str, Any]:
    try:
        record = bounded_json(line, most)
    except (ValueError, RecursionError):
        raise UsageError(f"{where} is not readable JSON") from None
    if not isinstance(record, dict):
        raise UsageError(f"{where} is not a JSON object")
    return record


def append_record(path: Path, record: dict[str, Any]) -> None:
    """Append a line and sync it to disk; half a line left from a kill is overwritten."""
    line = json.dumps(record, allow_nan=False).encode() + b"\n"
    try:
        with path.open("ab+") as file:
            file.truncate(_end_of_lines(file, file.seek(0, os.SEEK_END)))
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _end_of_lines(file: Any, size: int) -> int:
    """Bytes of the file's complete lines."""
    step = 1 << 16
    for end in range(size, 0, -step):
        start = max(0, end - step)
        file.seek(start)
        newline = file.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
    return 0


def write_records(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """A whole file at once, .gz or plain."""
    data = b"".join(json.dumps(record, allow_nan=False).encode() + b"\n" for record in records)
    atomic.write_bytes(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
