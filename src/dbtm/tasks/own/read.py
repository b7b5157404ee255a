"""Rows from files: integer tokens (.npy), or symbols that become tokens. Errors name the line of a bad row.

    .npy                integers (N, L), or one stream (N,) that is cut into rows
    .csv .tsv           a row per line, a symbol per cell; a first line of words above numbers is a heading
    .jsonl .ndjson      a row per line: a string (its characters), a list of symbols, or an object with one of these
                        as "tokens", "sequence" or "text"
    .fasta .fa .faa ... a record per row, a symbol per letter, in upper case
    .txt                a row per line, a symbol per character

Symbols are numbered in their order (numbers by value, words by code point). Rows of FASTA, JSON lines and text may
differ in length: shorter ones are padded with an empty symbol, the last of the vocabulary.
"""

import csv
import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from dbtm.core.arrays import open_array
from dbtm.core.errors import UsageError, nearest
from dbtm.core.reading import at_once, bounded_json

FASTA = (".fasta", ".fa", ".faa", ".fna", ".fas")
FORMATS = (".npy", ".csv", ".tsv", ".jsonl", ".ndjson", ".txt", *FASTA)
FILL = ""  # pads short rows
MOST_SYMBOLS = 1 << 16
LONGEST_SYMBOL = 100  # characters
MOST_EMPTY = 1 << 26  # cells of a table of which less than an eighth is filled
KEYS = ("tokens", "sequence", "text")  # of an object in JSON lines

Line = tuple[int, Sequence[str]]
"""A row's symbols, and the line where it begins. A text is a row of characters."""


@dataclass(frozen=True)
class Rows:
    """Rows of one length, and the symbols of their tokens."""

    tokens_NL: np.ndarray
    symbols: tuple[str, ...] | None
    """None: the tokens are numbers."""

    @property
    def vocab(self) -> int:
        return len(self.symbols) if self.symbols is not None else 1 + int(self.tokens_NL.max())


def read_rows(path: str, length: int | None = None) -> Rows:
    """The rows of a file. `length` cuts a stream, or is the padded length of rows; None: the longest row's."""
    file = Path(path)
    if not path or not file.is_file():
        raise UsageError(f"no such data file: '{path}'; give a file of rows ({', '.join(FORMATS[:6])}, .fasta)")
    kind = file.suffix.lower()
    if kind not in FORMATS:
        raise UsageError(f"{path}: files of rows end in {', '.join(FORMATS[:6])} or .fasta{nearest(kind, FORMATS)}")
    if length is not None and length < 1:
        raise UsageError(f"rows of length {length}: give at least 1")
    stat = file.stat()
    return _read(path, length, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4)
def _read(path: str, length: int | None, changed: int, size: int) -> Rows:
    """`changed` and `size` are cache keys: a rewritten file is read again."""
    if Path(path).suffix.lower() == ".npy":
        return Rows(_array(path, length), None)
    return _numbered(path, _lines(path), length)


def _array(path: str, length: int | None) -> np.ndarray:
    array = open_array(path)
    if array.dtype.kind not in "iu" or array.ndim not in (1, 2):
        raise UsageError(f"{path} must hold integers of shape (N, L) or (N,), not {array.dtype} {array.shape}")
    if array.ndim == 1 and length is None:
        raise UsageError(f"{path} is one stream of tokens: give the length of the rows to cut it into")
    if array.ndim == 1 and length is not None:
        array = array[: len(array) // length * length].reshape(-1, length)
    if length is not None and array.shape[1] != length:
        raise UsageError(f"{path} has sequences of length {array.shape[1]}, but task.length is {length}")
    if not array.size:
        raise UsageError(f"{path} has no full sequence" + (f" of length {length}" if length else ""))
    if int(array.min()) < 0:
        raise UsageError(f"{path} has token {int(array.min())}: tokens are numbered from 0")
    return array


# -- files of symbols --------------------------------------------------------------------------------------------------


def _lines(path: str) -> Iterator[Line]:
    kind = Path(path).suffix.lower()
    if kind in (".csv", ".tsv"):
        return _csv(path, "\t" if kind == ".tsv" else ",")
    if kind in FASTA:
        return _fasta(path)
    return _json(path) if kind in (".jsonl", ".ndjson") else _text(path)


def _open(path: str) -> Iterator[tuple[int, str]]:
    """Numbered lines without line ends; empty lines at the end are allowed."""
    empty = 0
    try:
        with open(path, "rb", opener=at_once) as file:
            for number, raw in enumerate(file, 1):
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError:
                    raise UsageError(f"{path}, line {number}: not UTF-8; save the file as UTF-8") from None
                if not line.strip():
                    empty = empty or number
                    continue
                if empty:
                    raise UsageError(f"{path}, line {empty}: an empty row; leave it out")
                yield number, line
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def _text(path: str) -> Iterator[Line]:
    return _open(path)


def _csv(path: str, delimiter: str) -> Iterator[Line]:
    cells, first = 0, None
    try:
        rows = csv.reader((line for _, line in _open(path)), delimiter=delimiter, strict=True)
        for number, row in enumerate(rows, 1):
            symbols = [cell.strip() for cell in row]
            if number == 1:
                cells, first = len(symbols), symbols
                continue
            if len(symbols) != cells:
                raise UsageError(f"{path}, line {number}: {len(symbols)} cells, but {cells} in the lines before it")
            if first is not None and not (any(map(_is_number, first)) or not all(map(_is_number, symbols))):
                first = None  # a heading
            if first is not None:
                yield 1, _filled(path, 1, first)
                first = None
            yield number, _filled(path, number, symbols)
    except csv.Error as error:
        raise UsageError(f"{path} is not a table: {error}") from None
    if first is not None:
        yield 1, _filled(path, 1, first)


def _filled(path: str, number: int, symbols: list[str]) -> list[str]:
    if "" in symbols:
        raise UsageError(f"{path}, line {number}: cell {symbols.index('') + 1} is empty")
    return symbols


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _json(path: str) -> Iterator[Line]:
    for number, line in _open(path):
        where = f"{path}, line {number}"
        try:
            value = bounded_json(line)
        except (ValueError, RecursionError):
            raise UsageError(f"{where}: not JSON") from None
        if isinstance(value, dict):
            value = next((value[key] for key in KEYS if key in value), None)
        if not isinstance(value, list | str) or not value:
            keys = ", ".join(f'"{key}"' for key in KEYS)
            raise UsageError(f"{where}: a row is a string, a list of symbols, or an object with one of {keys}")
        wrong = [each for each in value if isinstance(each, bool) or not isinstance(each, str | int) or each == ""]
        if wrong:
            raise UsageError(f"{where}: {json.dumps(wrong[0])[:40]} is not a symbol (a word, or a whole number)")
        yield number, value if isinstance(value, str) else [str(each) for each in value]


def _fasta(path: str) -> Iterator[Line]:
    start, letters = 0, list[str]()  # pieces of a sequence
    for number, line in _open_loosely(path):
        if line.startswith(">"):
            if start:
                yield start, _record(path, start, letters)
            start, letters = number, []
        elif not start:
            raise UsageError(f"{path}, line {number}: a sequence without a header; FASTA records begin with '>'")
        else:
            letters.append("".join(line.split()).upper())
    if start:
        yield start, _record(path, start, letters)


def _open_loosely(path: str) -> Iterator[tuple[int, str]]:
    """FASTA may have empty lines between records, and comments."""
    try:
        with open(path, encoding="ascii", opener=at_once) as file:
            for number, line in enumerate(file, 1):
                if line.strip() and not line.startswith(";"):
                    yield number, line.strip()
    except UnicodeDecodeError:
        raise UsageError(f"{path} has letters that are not ASCII: FASTA has none") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def _record(path: str, line: int, letters: list[str]) -> str:
    if not letters:
        raise UsageError(f"{path}, line {line}: a record without a sequence")
    return "".join(letters)


# -- symbols to tokens -------------------------------------------------------------------------------------------------


class _Numbers(dict[str, int]):
    """Symbols in order of appearance; each is checked once."""

    def __init__(self, path: str):
        super().__init__()
        self.path, self.line = path, 0

    def __missing__(self, symbol: str) -> int:
        if len(symbol) > LONGEST_SYMBOL:
            where = f"{self.path}, line {self.line}"
            raise UsageError(f"{where}: a symbol of {len(symbol)} characters; at most {LONGEST_SYMBOL}")
        if len(self) == MOST_SYMBOLS:
            raise UsageError(f"{self.path} has more than {MOST_SYMBOLS} different symbols")
        return self.setdefault(symbol, len(self))


def _numbered(path: str, lines: Iterable[Line], length: int | None) -> Rows:
    """Two bytes per symbol while reading, and two in the table, so that large texts fit into memory."""
    seen, cells, ends = _Numbers(path), array("H"), array("q")
    longest = 0
    for seen.line, row in lines:
        if length is not None and len(row) > length:
            raise UsageError(f"{path}, line {seen.line}: longer than {length} symbols; cut it, or give a larger length")
        cells.extend(map(seen.__getitem__, row))
        ends.append(len(cells))
        longest = max(longest, len(row))
    if not ends:
        raise UsageError(f"{path} has no rows")
    length, count = length or longest, len(ends)
    if count * length > max(MOST_EMPTY, 8 * len(cells)):
        raise UsageError(f"{path}: {count} rows of {length} symbols would be almost empty; cut the long ones")
    symbols = ordered(seen)
    if count * length > len(cells):
        symbols = (*symbols, FILL)
    if len(symbols) > MOST_SYMBOLS:
        raise UsageError(f"{path} has {len(symbols)} different symbols: at most {MOST_SYMBOLS}")
    token = {symbol: i for i, symbol in enumerate(symbols)}
    renumbered = np.array([token[symbol] for symbol in seen], dtype=np.uint16)
    tokens_N = renumbered[np.frombuffer(cells, dtype=np.uint16)]
    if count * length == len(cells):
        return Rows(tokens_N.reshape(count, length), symbols)
    tokens_NL = np.full((count, length), len(symbols) - 1, dtype=np.uint16)
    start = 0
    for i, end in enumerate(ends):
        tokens_NL[i, : end - start] = tokens_N[start:end]
        start = end
    return Rows(tokens_NL, symbols)


def ordered(symbols: Iterable[str]) -> tuple[str, ...]:
    """Numbers by value, anything else by code point."""
    words = sorted(symbols)
    whole = all(word.removeprefix("-").isdecimal() and word.isascii() for word in words)
    return tuple(sorted(words, key=int)) if whole else tuple(words)
