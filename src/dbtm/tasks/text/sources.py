"""Documents from files, streamed: plain text, JSON lines, tar archives and Parquet.

A document comes in pieces of at most MOST characters, so that memory stays bounded. A piece ends before a
white space if possible, where tokenizers split words anyway.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path, PurePath
from typing import Literal, NamedTuple

from dbtm.core.errors import UsageError, nearest
from dbtm.tasks.text import records
from dbtm.tasks.text.streams import COMPRESSIONS, STDIN, Tick, called, members_of, read_once, text_of

MOST = 1 << 20
Documents = Literal["line", "paragraph", "file"]  # unit of a document in plain text
_BOUNDARY = {"line": re.compile(r"\n"), "paragraph": re.compile(r"\n\s*\n"), "file": None}
_KINDS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet", ".tar": "tar", ".txt": "text"}
_ARCHIVES = "urlsf_subset*_data.xz"  # OpenWebText's own, tar archives without the extension


class Piece(NamedTuple):
    """A piece of a document, and whether it is the last."""

    text: str
    ends: bool


class Found(NamedTuple):
    """Files to read, and files in the folders that are skipped for their extension."""

    files: list[str]
    passed_over: list[str]


def find(inputs: Sequence[str], also: str = "") -> Found:
    """The files of the inputs; folders are searched, in order of name, for readable files (and for `also`)."""
    out, passed_over = list[str](), list[str]()
    for name in inputs:
        path = Path(name)
        if name == STDIN or path.is_file() or path.is_fifo():
            if _ending(name) == ".json":
                raise UsageError(
                    f"{name}: JSON is read as JSON lines, one object per line: convert it to .jsonl (jq -c .[])"
                )
            out.append(name)
        elif path.is_dir():
            inside = [p for p in sorted(path.rglob("*")) if p.is_file() and not _hidden(p.relative_to(path))]
            known = [bool(_kind(str(p))) or fnmatch(p.name, also) for p in inside]
            if not any(known):
                endings, more = ", ".join(_KINDS), ", ".join(COMPRESSIONS)
                raise UsageError(f"the folder {name} has no text: no file ends in {endings} (or these with {more})")
            out += [str(p) for p, read in zip(inside, known) if read]
            passed_over += [str(p) for p, read in zip(inside, known) if not read]
        elif path.exists():
            raise UsageError(f"{name} is not a file, a folder or a pipe")
        else:
            raise UsageError(f"no such file or folder: {name}")
    for name in filter(read_once, out):
        if out.count(name) > 1:
            raise UsageError(f"{called(name)} can be read only once: name it once")
    return Found(out, passed_over)


def pieces(path: str, tick: Tick, field: str | None = None, documents: str = "line") -> Iterator[Piece]:
    """All documents of one file, which is refused if it has none. With `field`, stdin and pipes without a known
    extension are JSON lines.
    """
    kind = _kind(path) or ("jsonl" if field and read_once(path) else "text")
    if kind == "tar":
        documents_of = _archived(path, tick, field or "text")
    elif kind == "jsonl":
        documents_of = whole(records.json_lines(text_of(path, tick), called(path), field or "text", _longest(path)))
    elif kind == "parquet":
        documents_of = whole(records.parquet(path, tick, field or "text"))
    else:
        text = text_of(path, tick)
        documents_of = _split(text if _kind(path) else _no_json(text, path), documents)
    empty, inside = True, False
    for piece in documents_of:
        if inside or not piece.ends or piece.text.strip():  # blank documents are skipped
            yield piece
            empty, inside = False, not piece.ends
    if empty:
        raise UsageError(f"{called(path)} has no text: leave it out")


def _no_json(chunks: Iterable[str], path: str) -> Iterator[str]:
    """Text of a file without a known extension, refused if it begins like JSON lines."""
    first = True
    for chunk in chunks:
        line, ends, _ = chunk.partition("\n")
        if first and ends and records.is_object(line):
            way = "give the field of its text" if read_once(path) else "rename it to .jsonl"
            raise UsageError(f"{called(path)} looks like JSON lines: {way}, or give plain text as a .txt file")
        first = False
        yield chunk


def whole(texts: Iterable[str]) -> Iterator[Piece]:
    """Documents in memory, in pieces."""
    for text in texts:
        while len(text) > MOST:
            cut = _cut(text)
            yield Piece(text[:cut], False)
            text = text[cut:]
        yield Piece(text, True)


def _archived(path: str, tick: Tick, field: str) -> Iterator[Piece]:
    """The files of a tar archive: JSON lines, or else a document of plain text each; hidden files are skipped."""
    for name, text in members_of(path, tick):
        if _hidden(PurePath(name)):
            continue
        kind = _kind(name)
        if kind in ("parquet", "tar") or PurePath(name).suffix.lower() in (".json", *COMPRESSIONS):
            raise UsageError(
                f"{path}: {name} is neither plain text nor JSON lines: unpack the archive and give its folder"
            )
        if kind == "jsonl":
            yield from whole(records.json_lines(text, f"{path}: {name}", field, _longest(path)))
        else:
            yield from _split(text, "file")


# -- names -------------------------------------------------------------------------------------------------------------


def _kind(path: str) -> str:
    """jsonl, parquet, tar or text by the extension, without compression; empty if unknown."""
    if fnmatch(PurePath(path).name, _ARCHIVES):
        return "tar"
    return _KINDS.get(_ending(path), "")


def _ending(path: str) -> str:
    """The extension in lower case, without compression."""
    name = PurePath(path.lower())
    return (name.with_suffix("") if name.suffix in COMPRESSIONS else name).suffix


def _longest(path: str) -> int:
    """Characters that a line of JSON may have."""
    return records.MOST_PACKED_LINE if PurePath(path.lower()).suffix in COMPRESSIONS else records.MOST_LINE


def _hidden(path: PurePath) -> bool:
    return any(part.startswith(".") and part != ".." for part in path.parts)


# -- pieces ------------------------------------------------------------------------------------------------------------


def _cut(text: str) -> int:
    """The place to cut a long text: before the last white space of its first MOST characters, not in the first half."""
    least = max(1, MOST // 2)
    return max(text.rfind(" ", least, MOST), text.rfind("\n", least, MOST), 0) or MOST


def _split(chunks: Iterable[str], documents: str) -> Iterator[Piece]:
    """Split plain text into documents, stripped of white space."""
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
