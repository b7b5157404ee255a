"""Problems from files: JSON lines, Parquet, or a data set of the Hugging Face hub (TinyGSM), streamed.

A record has `question`, and `code` (a program) or `answer` (a number, or a worked solution that ends in `#### 18`), as
in GSM8K and TinyGSM; other fields are ignored. If a program is wanted and missing, it is made from a worked
solution.
"""

import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

from dbtm.core.errors import UsageError
from dbtm.core.reading import at_once
from dbtm.tasks.gsm8k.annotations import program
from dbtm.tasks.gsm8k.answers import MARK, gold
from dbtm.tasks.hub import load_dataset
from dbtm.tasks.text.pages import rows_at_once
from dbtm.tasks.text.streams import first_line

MOST_LINE = 1 << 20  # characters of a problem
PACKED = (".gz", ".xz", ".bz2", ".zst", ".zip")


class Example(NamedTuple):
    """A problem in words, the program that solves it ("" if the worked solution gives none), and the answer."""

    question: str
    code: str
    answer: float | None


def read(path: str | Path, *wanted: str) -> Iterator[Example]:
    """The examples of a file, each with the wanted fields; an error names the line of a bad record."""
    path = Path(path)
    check(path)
    records = _parquet(path) if path.suffix == ".parquet" else _json_lines(path)
    empty = True
    for where, record in records:
        yield _example(record, where, wanted)
        empty = False
    if empty:
        raise UsageError(f"{path} has no problems: give JSON lines with {' and '.join(wanted)}")


def check(path: Path) -> None:
    """Refuse a path that is not a file, or a compressed file."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder: give its files")
    if not path.exists():
        raise UsageError(f"no such file: {path}")
    if path.suffix in PACKED:
        raise UsageError(f"{path} is compressed: decompress it first")


def hub(name: str, *wanted: str) -> Iterator[Example]:
    """The training split of a data set of the Hugging Face hub, streamed."""
    try:
        records: Iterable[Any] = load_dataset(name, split="train", streaming=True)
        for n, record in enumerate(records, 1):
            yield _example(record, f"{name}, record {n}", wanted)
    except UsageError:
        raise
    except ImportError:
        raise UsageError(f"the data set {name} needs the package datasets: pip install 'dbtm[hf]'") from None
    except Exception as error:  # any error of the network or the hub
        reason = str(error).strip().split("\n")[0]
        raise UsageError(f"the data set {name} cannot be read ({reason}): give a local file instead") from None


def _example(record: Any, where: str, wanted: tuple[str, ...]) -> Example:
    if not isinstance(record, dict):
        raise UsageError(f"{where} is not an object with {' and '.join(wanted)}")
    solution, worked = record.get("answer"), False
    if "code" in wanted and "code" not in record and isinstance(solution, str) and MARK in solution:
        record, worked = {**record, "code": program(solution) or ""}, True
    for field in wanted:
        if field not in record:
            raise UsageError(
                f"{where} has no '{field}' (it has {shorten(', '.join(map(repr, record)), 300) or 'nothing'})"
            )
    for field in ("question", "code"):
        text = record.get(field, "")
        if not isinstance(text, str) or any("\ud800" <= c <= "\udfff" for c in text):
            raise UsageError(f"{where}: '{field}' must be a text in valid Unicode")
        # A program without a question is to be judged: an empty one fails, but is not an error of the file.
        if field in wanted and "question" in wanted and not text.strip() and not (worked and field == "code"):
            raise UsageError(f"{where}: '{field}' is empty")
    answer = gold(record.get("answer"))
    if answer is None and "answer" in wanted:
        raise UsageError(
            f"{where}: the answer {str(record['answer'])[-40:]!r} is neither a number nor ends in '#### 18'"
        )
    return Example(record.get("question", ""), record.get("code", ""), answer)


def _json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        with open(path, encoding="utf-8-sig", opener=at_once) as file:  # some editors write a byte order mark
            for n, line in enumerate(iter(partial(file.readline, MOST_LINE + 1), ""), 1):
                if len(line) > MOST_LINE:
                    raise UsageError(f"{path}, line {n} has more than {MOST_LINE} characters: shorten or remove it")
                if line.strip():
                    yield f"{path}, line {n}", json.loads(line)
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}, line {n} is not JSON: {error.msg} at column {error.colno}") from None
    except (OSError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None


def _parquet(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise UsageError(f"{path} needs the package pyarrow: pip install 'dbtm[hf]'") from None
    try:
        file, n = ParquetFile(path), 0
        columns = [name for name in ("question", "code", "answer") if name in file.schema_arrow.names]
        for batch in file.iter_batches(rows_at_once(path, columns), columns=columns):
            for record in batch.to_pylist():
                n += 1
                yield f"{path}, row {n}", record
    except (UsageError, MemoryError):
        raise
    except Exception as error:  # the library has many: OSError, ValueError, NotImplementedError
        raise UsageError(f"cannot read {path}: {first_line(error)}") from None
