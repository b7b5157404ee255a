"""Small files that once ate memory, and files that once kept a reader waiting: each stays refused, or within bounds."""

import gzip
import json
import lzma
import os
import subprocess
import sys

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.core.numbers import is_number, is_whole
from dbtm.core.reading import at_once, bounded_json
from dbtm.evals.sweep.journal import read_records
from dbtm.tasks.own.read import MOST_SYMBOLS, read_rows
from dbtm.tasks.text import pages, records, streams
from dbtm.tasks.text.sources import pieces

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc")


def read(path):
    return [piece.text for piece in pieces(str(path), lambda _: None)]


# -- JSON --------------------------------------------------------------------------------------------------------------


def test_brackets_are_counted_before_they_are_lists():
    assert bounded_json("[[],[]]", 6) == [[], []]
    with pytest.raises(ValueError, match="more than 6 values"):
        bounded_json("[[],[],[],[]]", 6)
    with pytest.raises(ValueError, match="more than 6 values"):
        bounded_json(b'{"a":1,"b":2,"c":3,"d":4}', 6)
    assert bounded_json('"' + "a" * 50 + '"', 6) == "a" * 50, "a long text is one value"


def test_a_line_of_a_compressed_file_is_shorter(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "MOST_PACKED_LINE", 1000)
    line = json.dumps({"text": "a" * 2000}) + "\n"
    (tmp_path / "a.jsonl").write_text(line)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(line.encode()))
    assert read(tmp_path / "a.jsonl") == ["a" * 2000]
    with pytest.raises(UsageError, match="line 1 has more than 0 million characters"):
        read(tmp_path / "a.jsonl.gz")


def test_a_line_of_samples_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr("dbtm.evals.sweep.journal.MOST_PACKED_LINE", 1000)
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": "' + b"x" * 2000 + b'"}\n'))
    with pytest.raises(UsageError, match="line 1 has more than"):
        list(read_records(path))
    path.write_bytes(gzip.compress(b'{"a": 1}\n{"a": 2}\n'))
    assert [record["a"] for _, record in read_records(path)] == [1, 2]


# -- compression -------------------------------------------------------------------------------------------------------


def test_an_xz_stream_cannot_ask_for_any_dictionary(tmp_path):
    large = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1536 << 20}]
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(b"one two", filters=large))
    with pytest.raises(UsageError, match="Memory usage limit exceeded"):
        read(tmp_path / "a.txt.xz")


def test_xz_streams_follow_each_other(tmp_path, monkeypatch):
    """With zeros between them, and read in pieces of any size."""
    data = lzma.compress(b"one\n" * 3000) + bytes(8) + lzma.compress(b"two", preset=9)
    (tmp_path / "a.txt.xz").write_bytes(data)
    for size in (1 << 20, 7, 100):
        monkeypatch.setattr(streams, "CHUNK", size)
        assert read(tmp_path / "a.txt.xz") == ["one"] * 3000 + ["two"]
    (tmp_path / "a.txt.xz").write_bytes(data[:-5])
    with pytest.raises(UsageError, match="ends in the middle"):
        read(tmp_path / "a.txt.xz")


# -- Parquet -----------------------------------------------------------------------------------------------------------


def table(path, texts, **options):
    pa = pytest.importorskip("pyarrow")
    from pyarrow.parquet import ParquetFile, write_table

    write_table(pa.table({"id": list(range(len(texts))), "text": texts}), path, compression="zstd", **options)
    return ParquetFile(path).metadata


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_are_measured_by_their_headers(tmp_path, monkeypatch, dictionary, version):
    """Against the sizes that the writer notes for all pages of a column together: here one page, or two."""
    path = tmp_path / "a.parquet"
    metadata = table(path, ["x" * 5000] * 9, use_dictionary=dictionary, data_page_version=version)
    told = metadata.row_group(0).column(1).total_uncompressed_size
    monkeypatch.setattr(pages, "MOST_PAGE", told)
    assert pages.rows_at_once(path, ["text"]) == 1
    monkeypatch.setattr(pages, "MOST_PAGE", 20 * told)
    assert 20 <= pages.rows_at_once(path, ["text"]) <= 25
    monkeypatch.setattr(pages, "MOST_PAGE", told // 2)
    with pytest.raises(UsageError, match="has a page of"):
        read(path)


def test_rows_that_share_a_long_text_are_read_a_few_at_a_time(tmp_path, monkeypatch):
    texts = ["x" * 3000] * 200
    table(tmp_path / "a.parquet", texts)
    monkeypatch.setattr(pages, "MOST_PAGE", 10_000)
    assert pages.rows_at_once(tmp_path / "a.parquet", ["text"]) == 3
    assert read(tmp_path / "a.parquet") == texts


def test_a_damaged_footer_does_not_end_the_process(tmp_path):
    """The type of a column changed to one that its statistics do not go with: the library's own view of it aborts."""
    pytest.importorskip("pyarrow")
    from tests.fuzz import corpus
    from tests.fuzz.harness import run
    from tests.fuzz.targets import TARGETS

    corpus.parquet("question", "code")
    report = run(TARGETS["problem_table"], range(2168, 2169), tmp_path)
    assert not report.failures


# -- rows of one's own -------------------------------------------------------------------------------------------------


def test_a_symbol_of_thousands_of_digits_is_refused_in_a_line(tmp_path):
    (tmp_path / "a.csv").write_text("1,2\n3," + "9" * 5000 + "\n")
    with pytest.raises(UsageError, match="line 2: a symbol of 5000 characters"):
        read_rows(str(tmp_path / "a.csv"))


def test_a_table_that_is_almost_empty_is_not_made(tmp_path):
    """A row of a megabyte above a million short ones would take terabytes."""
    (tmp_path / "a.txt").write_text("ab" * 300_000 + "\n" + "a\n" * 300_000)
    with pytest.raises(UsageError, match="300001 rows of 600000 symbols would be almost empty"):
        read_rows(str(tmp_path / "a.txt"))
    (tmp_path / "b.txt").write_text("ab\nc\n")
    with pytest.raises(UsageError, match="almost empty"):
        read_rows(str(tmp_path / "b.txt"), 2**62)
    with pytest.raises(UsageError, match="rows of length 0"):
        read_rows(str(tmp_path / "b.txt"), 0)


def test_tokens_are_the_symbols_in_their_order(tmp_path):
    """Against a table that is filled by hand."""
    rows = ["cab", "b", "ac"]
    (tmp_path / "a.txt").write_text("\n".join(rows))
    found = read_rows(str(tmp_path / "a.txt"), 4)
    assert found.symbols == ("a", "b", "c", "")
    want = [["abc".index(row[i]) if i < len(row) else 3 for i in range(4)] for row in rows]
    assert found.tokens_NL.tolist() == want
    assert np.iinfo(found.tokens_NL.dtype).max + 1 == MOST_SYMBOLS


# -- what only looks like a file ---------------------------------------------------------------------------------------


@LINUX
def test_what_has_to_be_waited_for_is_no_file(tmp_path):
    names = ["/proc/self/status", *(["/proc/kmsg"] if os.geteuid() == 0 else [])]  # others may not open it
    for name in names:
        with pytest.raises(OSError, match="not a regular file"), open(name, opener=at_once):
            pass
    (tmp_path / "empty").touch()
    with open(tmp_path / "empty", "rb", opener=at_once) as file:
        assert file.read() == b""
    (tmp_path / "a").write_bytes(b"one")
    with open(tmp_path / "a", "rb", opener=at_once) as file:
        assert file.read() == b"one"


@LINUX
def test_a_pipe_is_waited_for(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    program = f"import time; time.sleep(.3); open({str(path)!r}, 'w').write('one')"
    writer = subprocess.Popen([sys.executable, "-c", program])
    with open(path, opener=at_once) as file:
        assert file.read() == "one"
    assert writer.wait(30) == 0


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_integers_of_any_size_are_compared_not_converted():
    assert is_number(10**300)
    assert not is_number(10**400)
    assert not any(map(is_number, (float("nan"), float("inf"), True, None, "1")))
    assert is_whole(3, 0, 3)
    assert not any(is_whole(value, 0, 3) for value in (4, -1, 1.0, True, None))


def test_metrics_with_such_numbers_are_read(tmp_path):
    from dbtm.service.runs import list_checkpoints, read_records, summarise
    from dbtm.viz.curves import read_run

    huge = "9" * 400
    lines = [f'{{"step": 1, "loss": {huge}}}', '{"step": true, "eval/score": 1}', f'{{"step": {huge}, "loss": 1}}']
    lines.append('{"step": 2, "loss": 1.5, "steps_per_second": 5e-324}')
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    found = read_records(tmp_path).records
    assert found == [{"step": 1}, {"step": 2, "loss": 1.5, "steps_per_second": 5e-324}]
    assert list_checkpoints(tmp_path, found) == []
    json.dumps(vars(summarise(tmp_path)), allow_nan=False)
    assert read_run(tmp_path).series["loss"].values == [1.5]
