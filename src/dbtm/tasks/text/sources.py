"""Documents out of files, streamed: plain text, JSON lines, tar archives and Parquet.

A document comes in pieces of at most MOST characters, so that memory stays bounded whatever a line or a file holds. A
piece ends before a white space where there is one, which is where tokenizers split words anyway.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal, NamedTuple

from dbtm.errors import UsageError, nearest
from dbtm.tasks.text.streams import COMPRESSIONS, STDIN, Tick, members_of, text_of

MOST = 1 << 20
Documents = Literal["line", "paragraph", "file"]  # what a document is in plain text
_BOUNDARY = {"line": re.compile(r"\n"), "paragraph": re.compile(r"\n\s*\n"), "file": None}
_KINDS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".tar": "tar", ".txt": "text"}


class Piece(NamedTuple):
    """Some text of a document, and whether the document ends with it."""

    text: str
    ends: bool


class Found(NamedTuple):
    """Files to read, and those of the folders that are not read, for what their names end in."""

    files: list[str]
    passed_over: list[str]


def find(inputs: Sequence[str], also: str = "") -> Found:
    """The files that inputs name; folders are searched, in order of name, for what we can read (and for `also`)."""
    out, passed_over = list[str](), list[str]()
    for name in inputs:
        path = Path(name)
        if name == STDIN or path.is_file():
            if Path(_uncompressed(name)).suffix == ".json":
                raise UsageError(
                    f"{name}: JSON is read as JSON lines, an object a line: make a .jsonl of it (jq -c .[])"
                )
            out.append(name)
        elif path.is_dir():
            inside = [p for p in sorted(path.rglob("*")) if p.is_file() and not p.name.startswith(".")]
            known = [bool(_kind(str(p))) or fnmatch(p.name, also) for p in inside]
            if not any(known):
                endings = ", ".join(_KINDS)
                raise UsageError(f"the folder {name} holds no text: no file ends in {endings} (or one of these + .xz)")
            out += [str(p) for p, read in zip(inside, known) if read]
            passed_over += [str(p) for p, read in zip(inside, known) if not read]
        else:
            raise UsageError(f"no such file or folder: {name}")
    if out.count(STDIN) > 1:
        raise UsageError("the standard input, -, can be read only once")
    return Found(out, passed_over)


def pieces(path: str, tick: Tick, field: str | None = None, documents: str = "line") -> Iterator[Piece]:
    """All documents of one file, which is refused if it has none. With `field`, the standard input is JSON lines."""
    kind = _kind(path) or ("jsonl" if path == STDIN and field else "text")
    if kind == "tar":
        found: Iterable[Piece] = (piece for text in members_of(path, tick) for piece in _split(text, "file"))
    elif kind == "jsonl":
        found = whole(_json_lines(path, tick, field or "text"))
    elif kind == "parquet":
        found = whole(_parquet(path, tick, field or "text"))
    else:
        found = _split(text_of(path, tick), documents)
    empty, inside = True, False
    for piece in found:
        if inside or not piece.ends or piece.text.strip():  # blank documents are passed over
            yield piece
            empty, inside = False, not piece.ends
    if empty:
        raise UsageError(f"{'the standard input' if path == STDIN else path} holds no text: leave it out")


def whole(texts: Iterable[str]) -> Iterator[Piece]:
    """Documents that are in memory already, in pieces."""
    for text in texts:
        while len(text) > MOST:
            cut = _cut(text)
            yield Piece(text[:cut], False)
            text = text[cut:]
        yield Piece(text, True)


def _kind(path: str) -> str:
    """jsonl, parquet, tar or text by what the name ends in, compression aside; empty where it says nothing."""
    name = _uncompressed(path)
    if name != path and name.endswith("_data"):  # urlsf_subset00-1_data.xz: OpenWebText's own archives
        return "tar"
    return _KINDS.get(Path(name).suffix, "")


def _uncompressed(path: str) -> str:
    """The name without the ending of a compression."""
    for ending in COMPRESSIONS:
        path = path.removesuffix(ending)
    return path


def _cut(text: str) -> int:
    """Where to cut a long text: before the last white space of its first MOST characters, but not in the first half."""
    least = max(1, MOST // 2)
    return max(text.rfind(" ", least, MOST), text.rfind("\n", least, MOST), 0) or MOST


def _split(chunks: Iterable[str], documents: str) -> Iterator[Piece]:
    """Plain text into documents, less the white space around each."""
    if documents not in _BOUNDARY:
        raise UsageError(f"documents '{documents}' is not a choice{nearest(documents, _BOUNDARY)}")
    boundary, rest, first = _BOUNDARY[documents], "", True
    for chunk in chunks:
        rest += chunk
        if boundary:
            *ended, rest = boundary.split(rest)
            for text in ended:
                yield from whole([(text.lstrip() if first else text).rstrip()])
                first = True
        rest = rest.lstrip() if first else rest
        while len(rest) > MOST:
            cut = _cut(rest)
            yield Piece(rest[:cut], False)
            rest, first = rest[cut:], False
    yield Piece((rest.lstrip() if first else rest).rstrip(), True)


def _json_lines(path: str, tick: Tick, field: str) -> Iterator[str]:
    rest, number = "", 0
    for chunk in text_of(path, tick):
        *lines, rest = (rest + chunk).split("\n")
        for line in lines:
            number += 1
            if line.strip():
                yield _json_text(line, f"{path}, line {number}", field)
    if rest.strip():
        yield _json_text(rest, f"{path}, line {number + 1}", field)


def _json_text(line: str, where: str, field: str) -> str:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise UsageError(f"{where} is not JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, thousands of brackets
        raise UsageError(f"{where} is not JSON that can be read: {error}") from None
    if not isinstance(record, dict) or not isinstance(record.get(field), str):
        has = f"it has {', '.join(map(repr, record))}" if isinstance(record, dict) else "it is not an object"
        raise UsageError(f"{where} has no text in '{field}' ({has}): name the right one with --field")
    text: str = record[field]
    if "\\u" in line and any("\ud800" <= c <= "\udfff" for c in text):
        raise UsageError(f"{where} has half of a surrogate pair in '{field}': it is not valid Unicode")
    return text


def _parquet(path: str, tick: Tick, field: str) -> Iterator[str]:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise UsageError(f"{path} needs the package pyarrow: pip install 'dbtm[hf]'") from None
    try:
        file = ParquetFile(path)
        if field not in file.schema_arrow.names:
            raise UsageError(f"{path} has no column '{field}'{nearest(field, file.schema_arrow.names)} (--field)")
        groups, size = file.num_row_groups, Path(path).stat().st_size
        for group in range(groups):
            for batch in file.iter_batches(1024, row_groups=[group], columns=[field]):
                yield from (text for text in batch.column(0).to_pylist() if text is not None)
            tick(size * (group + 1) // groups - size * group // groups)
    except UsageError:
        raise
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
