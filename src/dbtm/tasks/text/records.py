"""Documents from JSON lines and Parquet: the text is in one field of each record."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import shorten
from typing import Any

from dbtm.core.errors import UsageError, nearest
from dbtm.core.reading import bounded_json
from dbtm.tasks.text.pages import rows_at_once
from dbtm.tasks.text.streams import Tick, first_line

MOST_LINE = 1 << 27  # characters
MOST_PACKED_LINE = 1 << 25  # of a compressed file, in which a few bytes can unpack to a huge line


def json_lines(chunks: Iterable[str], name: str, field: str, most: int = MOST_LINE) -> Iterator[str]:
    """An object per line; blank lines are skipped. The pieces of a line are joined once, at its end."""
    pieces: list[str] = []
    size, number = 0, 0
    for chunk in chunks:
        first, *more = chunk.split("\n")
        for piece, ended in ((first, bool(more)), *((line, i < len(more)) for i, line in enumerate(more, 1))):
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise UsageError(
                    f"{name}, line {number + 1} has more than {most / 1e6:.0f} million characters: split it"
                )
            if ended:
                line, number = "".join(pieces), number + 1
                pieces, size = [], 0
                if line.strip():
                    yield _json_text(line, f"{name}, line {number}", field)
    rest = "".join(pieces)
    if rest.strip():
        yield _json_text(rest, f"{name}, line {number + 1}", field)


def is_object(line: str) -> bool:
    """Whether a line is a JSON object."""
    try:
        return line.lstrip().startswith("{") and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _json_text(line: str, where: str, field: str) -> str:
    try:
        record = bounded_json(line)
    except json.JSONDecodeError as error:
        raise UsageError(f"{where} is not JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, thousands of brackets
        raise UsageError(f"{where} is not readable JSON: {error}") from None
    if not isinstance(record, dict) or field not in record:
        has = (
            f"it has {shorten(', '.join(map(repr, record)), 300)}"
            if isinstance(record, dict)
            else "it is not an object"
        )
        raise UsageError(f"{where} has no text in '{field}' ({has}): give the right field")
    text = record[field]
    if not isinstance(text, str):
        raise UsageError(f"{where} has {_kind(text)} in '{field}', not text: give the right field")
    if "\\u" in line and any("\ud800" <= c <= "\udfff" for c in text):
        raise UsageError(f"{where} has half of a surrogate pair in '{field}': it is not valid Unicode")
    return text


def _kind(value: Any) -> str:
    """The kind of a JSON value other than text, in words."""
    words: dict[type, str] = {dict: "an object", list: "a list", int: "a number", float: "a number"}
    return words.get(type(value)) or json.dumps(value)  # null, true or false


def parquet(path: str, tick: Tick, field: str) -> Iterator[str]:
    """A record per row; rows without text are skipped."""
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise UsageError(f"{path} needs the package pyarrow: pip install 'dbtm[hf]'") from None
    try:
        file = ParquetFile(path)
        if field not in file.schema_arrow.names:
            raise UsageError(f"{path} has no column '{field}'{nearest(field, file.schema_arrow.names)}")
        _check_text(path, file.schema_arrow.field(field))
        groups, size = file.num_row_groups, Path(path).stat().st_size
        rows = rows_at_once(Path(path), [field])
        for group in range(groups):
            for batch in file.iter_batches(rows, row_groups=[group], columns=[field]):
                yield from (text for text in batch.column(0).to_pylist() if text is not None)
            tick(size * (group + 1) // groups - size * group // groups)
    except (UsageError, MemoryError):
        raise
    except Exception as error:  # the library has many: OSError, ValueError, NotImplementedError
        raise UsageError(f"{path} cannot be read: {first_line(error)}") from None


def _check_text(path: str, column: Any) -> None:
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if not (types.is_string(kind) or types.is_large_string(kind)):
        raise UsageError(f"{path}: the column '{column.name}' is {column.type}, not text: name another field")
