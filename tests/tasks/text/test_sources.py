"""Documents out of files: every format gives the same ones, whatever the chunks, and damage is named."""

import gzip
import io
import json
import lzma
import os
import random
import sys
import tarfile
import threading

import pyarrow
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from dbtm.core.errors import UsageError
from dbtm.tasks.text import sources, streams
from dbtm.tasks.text.sources import find, pieces, whole

DOCUMENTS = ["The first, naïve.", "北京 and a second", 'a "third" one']


def read(path, **options) -> list[str]:
    """Whole documents of a file."""
    out, text = [], ""
    for piece in pieces(str(path), lambda n: None, **options):
        text += piece.text
        if piece.ends:
            out.append(text)
            text = ""
    assert not text, "the last document has no end"
    return out


def json_lines(field: str) -> str:
    return "".join(json.dumps({"id": i, field: text}) + "\n" for i, text in enumerate(DOCUMENTS))


@pytest.fixture(params=["", ".xz", ".gz", ".zst"])
def compressed(request, tmp_path):
    """(name, text) -> a file of it, in every compression."""

    def write(name: str, text: str | bytes):
        path = tmp_path / (name + request.param)
        data = text.encode() if isinstance(text, str) else text
        if request.param == ".zst":
            half = len(data) // 2  # two frames, as `cat a.zst b.zst` gives
            pack = zstandard.ZstdCompressor().compress
            path.write_bytes(pack(data[:half]) + pack(data[half:]))
        else:
            path.write_bytes({"": bytes, ".xz": lzma.compress, ".gz": gzip.compress}[request.param](data))
        return path

    return write


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_every_format_gives_the_same_documents(compressed, monkeypatch, chunk):
    monkeypatch.setattr(streams, "CHUNK", chunk)  # characters of several bytes fall on chunk borders
    assert read(compressed("a.txt", "\ufeff" + "\r\n".join(DOCUMENTS) + "\n\n")) == DOCUMENTS
    assert read(compressed("a.jsonl", json_lines("text"))) == DOCUMENTS
    assert read(compressed("b.jsonl", json_lines("body") + "\n"), field="body") == DOCUMENTS


def test_endings_in_capitals_count_too(tmp_path):
    (tmp_path / "A.JSONL").write_text(json_lines("text"))
    (tmp_path / "B.TXT.GZ").write_bytes(gzip.compress("\n".join(DOCUMENTS).encode()))
    (tmp_path / "C.Tar.Xz").write_bytes(lzma.compress(tar({"a": "one\ntwo"})))
    found = find([str(tmp_path)])
    assert [read(path) for path in found.files] == [DOCUMENTS, DOCUMENTS, ["one\ntwo"]]
    (tmp_path / "D.JSON").write_text("[]")
    with pytest.raises(UsageError, match="JSON is read as JSON lines"):
        find([str(tmp_path / "D.JSON")])


def test_progress_adds_up_to_the_size_of_the_file(compressed):
    path = compressed("a.txt", "some words\n" * 1000)
    told: list[int] = []
    assert len(list(pieces(str(path), told.append))) == 1000
    assert sum(told) == path.stat().st_size


def test_documents_of_plain_text(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n\n  \nthree\n\n\n\nfour\n")
    assert read(path) == ["one", "two", "three", "four"]
    assert read(path, documents="paragraph") == ["one\ntwo", "three", "four"]
    assert read(path, documents="file") == ["one\ntwo\n\n  \nthree\n\n\n\nfour"]
    with pytest.raises(UsageError, match="did you mean 'line'"):
        read(path, documents="lines")


@given(st.text(alphabet="ab \n", max_size=60), st.integers(1, 9), st.integers(1, 9))
def test_long_documents_come_in_short_pieces_and_nothing_is_lost(text, chunk, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "MOST", most)
        chunks = [text[i : i + chunk] for i in range(0, len(text), chunk)]
        got, document = [], ""
        for piece in sources._split(chunks, "line"):
            assert len(piece.text) <= most + chunk
            document += piece.text
            if piece.ends:
                got.append(document)
                document = ""
        # blanks around a document do not count, whether they fell into one piece or several
        assert [d.strip() for d in got] == [line.strip() for line in text.split("\n")]
        cut = list(whole([text]))
        assert "".join(p.text for p in cut) == text
        assert [p.ends for p in cut] == [False] * (len(cut) - 1) + [True]
        assert all(len(p.text) <= most for p in cut)


def test_a_document_has_the_same_pieces_whatever_file_it_comes_in(tmp_path, monkeypatch):
    """A line that a chunk holds whole is cut as any other document is, and blanks before it do not shorten a piece."""
    monkeypatch.setattr(sources, "MOST", 16)
    text = "one two three four five six seven"
    for chunk in (1 << 20, 5):
        monkeypatch.setattr(streams, "CHUNK", chunk)
        (tmp_path / "a.txt").write_text(" " * 30 + f"{text}  \nnext\n")
        (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in (text, "next")))
        plain, lines = (list(pieces(str(tmp_path / name), lambda n: None)) for name in ("a.txt", "a.jsonl"))
        assert plain == lines
        assert max(len(piece.text) for piece in plain) <= 16


def test_a_piece_ends_before_a_space(monkeypatch):
    monkeypatch.setattr(sources, "MOST", 8)
    assert [p.text for p in whole(["one two three four"])] == ["one two", " three", " four"]
    assert [p.text for p in whole(["unbreakable"])] == ["unbreaka", "ble"]
    assert [p.text for p in whole(["a unbreakable"])] == ["a unbrea", "kable"], "never less than half of a piece"


def tar(members: dict[str, str]) -> bytes:
    """An archive of files with these texts."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


@pytest.mark.parametrize("chunk", [100, 1 << 20])
def test_tar_archives_hold_a_document_a_file(compressed, monkeypatch, chunk):
    monkeypatch.setattr(streams, "CHUNK", chunk)
    path = compressed("a.tar", tar({"0.txt": "one\n\nstill one\n", "1": "two"}))
    assert read(path) == ["one\n\nstill one", "two"]
    told: list[int] = []
    assert list(pieces(str(path), told.append))
    assert sum(told) == path.stat().st_size


def test_openwebtext_has_archives_that_do_not_say_so(tmp_path):
    (tmp_path / "urlsf_subset00-1_data.xz").write_bytes(lzma.compress(tar({"0.txt": "one\ntwo"})))
    assert read(tmp_path / "urlsf_subset00-1_data.xz") == ["one\ntwo"]
    for name, pack in [("my_data.gz", gzip.compress), ("my_data.xz", lzma.compress)]:
        (tmp_path / name).write_bytes(pack(b"one\ntwo"))
        assert read(tmp_path / name) == ["one", "two"], "compressed text like any other"


def test_what_is_in_a_tar_is_read_by_its_ending(tmp_path):
    path = tmp_path / "a.tar"
    hidden = {"./.git/x.txt": "no", "._a.txt": "no"}
    path.write_bytes(tar({"./a.txt": "one\ntwo", "b.JSONL": json_lines("body"), **hidden, "notes.md": "three"}))
    assert read(path, field="body") == ["one\ntwo", *DOCUMENTS, "three"]
    path.write_bytes(tar({"a.txt": "one", "b.jsonl": "not json"}))
    with pytest.raises(UsageError, match=r"a\.tar: b\.jsonl, line 1 is not JSON"):
        read(path)
    for name in ("c.parquet", "c.tar", "c.txt.gz", "c.JSON", "urlsf_subset00-1_data.xz"):
        path.write_bytes(tar({"a.txt": "one", name: "two"}))
        with pytest.raises(UsageError, match=rf"a\.tar: {name} is neither plain text nor JSON lines: unpack"):
            read(path)


@pytest.mark.parametrize("kind", ["", ".xz", ".gz"])
@pytest.mark.parametrize("chunk", [1 << 12, 1 << 20])
def test_a_damaged_archive_is_one_clear_line_wherever_it_breaks(tmp_path, monkeypatch, kind, chunk):
    monkeypatch.setattr(streams, "CHUNK", chunk)
    noise = random.Random(0).randbytes(40_000).hex()
    data = {"": bytes, ".xz": lzma.compress, ".gz": gzip.compress}[kind](tar({"a.txt": noise, "b.txt": noise[::-1]}))
    path = tmp_path / f"a.tar{kind}"
    cuts = [data[: len(data) * part // 16] for part in range(1, 16)]
    spoilt = [data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :] for i in (len(data) // 3, 2 * len(data) // 3)]
    if not kind:  # nothing in a tar itself tells that a text was changed; headers have a sum
        second = 512 + 80_384
        assert data[second : second + 5] == b"b.txt"
        spoilt = [data[: second + 1] + b"?" + data[second + 2 :], data[: second + 200]]
    for bad in cuts + spoilt:
        path.write_bytes(bad)
        with pytest.raises(UsageError, match=r"a\.tar.* cannot be read: .") as caught:
            read(path)
        assert "\n" not in str(caught.value)


def test_parquet(tmp_path):

    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": [*DOCUMENTS, None], "n": [1, 2, 3, 4]}), path, row_group_size=2)
    assert read(path) == DOCUMENTS
    with pytest.raises(UsageError, match="no column 'body'"):
        read(path, field="body")
    for column in (
        pyarrow.array(["one", "two"], pyarrow.large_string()),
        pyarrow.array(["one", "two"]).dictionary_encode(),
    ):
        parquet.write_table(pyarrow.table({"text": column}), path)
        assert read(path) == ["one", "two"]
    for values, kind in [([1, 2], "int64"), ([b"a"], "binary"), ([["a"]], "list<"), ([{"a": "b"}], "struct<")]:
        parquet.write_table(pyarrow.table({"text": values}), path)
        with pytest.raises(UsageError, match=rf"a\.parquet: the column 'text' is {kind}.*, not text: name another"):
            read(path)
    path.write_bytes(b"PAR1 no")
    with pytest.raises(UsageError, match="cannot be read"):
        read(path)


def test_folders_in_order_and_what_is_passed_over(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / ".git").mkdir()
    names = ["b/1.jsonl.xz", "a.txt", ".hidden.txt", "c.txt.gz", "b/notes.md", "news.en-1", "x.json"]
    names += ["b/.git/packed.txt", "b/.git/objects"]
    for name in names:
        (tmp_path / name).write_text("x")
    found = find([str(tmp_path)])
    assert found.files == [str(tmp_path / n) for n in ("a.txt", "b/1.jsonl.xz", "c.txt.gz")]
    assert found.passed_over == [str(tmp_path / n) for n in ("b/notes.md", "news.en-1", "x.json")]
    assert str(tmp_path / "news.en-1") in find([str(tmp_path)], "news.en*").files
    named = str(tmp_path / "b" / "notes.md")
    assert find([named]) == ([named], []), "the user knows"
    (tmp_path / "x.json.gz").write_text("x")
    for name in ("x.json", "x.json.gz"):
        with pytest.raises(UsageError, match=rf"{name}: JSON is read as JSON lines"):
            find([str(tmp_path / name)])
    with pytest.raises(UsageError, match="no such file or folder"):
        find(["nowhere"])
    with pytest.raises(UsageError, match="is not a file, a folder or a pipe"):
        find([os.devnull])
    with pytest.raises(UsageError, match="the standard input can be read only once"):
        find(["-", "-"])
    assert find([str(tmp_path / "b" / ".git")]).files == [str(tmp_path / "b" / ".git" / "packed.txt")], "the user knows"
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="has no text"):
        find([str(tmp_path / "empty")])


def test_standard_input(monkeypatch):
    def feed(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    feed("\n".join(DOCUMENTS))
    assert read("-") == DOCUMENTS
    feed(json_lines("body"))
    assert read("-", field="body") == DOCUMENTS
    feed("\n")
    with pytest.raises(UsageError, match="the standard input has no text"):
        read("-")
    feed(json_lines("body"))
    with pytest.raises(UsageError, match="the standard input looks like JSON lines: give the field of its text, or"):
        read("-")
    feed("{not JSON}\nbut text")
    assert read("-") == ["{not JSON}", "but text"]


def test_what_looks_like_json_lines_is_not_taken_for_text(tmp_path):
    (tmp_path / "a.log").write_text(json_lines("text"))
    with pytest.raises(UsageError, match=r"a\.log looks like JSON lines: rename it to \.jsonl, or"):
        read(tmp_path / "a.log")
    (tmp_path / "a.txt").write_text(json_lines("text"))
    assert read(tmp_path / "a.txt") == json_lines("text").split("\n")[: len(DOCUMENTS)], "the name says so"


def test_pipes(tmp_path):
    """As in --input <(zcat a.gz): what has no ending is read like the standard input."""

    def feed(name: str, data: bytes) -> str:
        path = tmp_path / name
        os.mkfifo(path)
        threading.Thread(target=path.write_bytes, args=(data,), daemon=True).start()
        assert find([str(path)]) == ([str(path)], [])
        return str(path)

    assert read(feed("63", "\n".join(DOCUMENTS).encode())) == DOCUMENTS
    assert read(feed("64", json_lines("body").encode()), field="body") == DOCUMENTS
    assert read(feed("a.tar.gz", gzip.compress(tar({"a.txt": "one\ntwo"})))) == ["one\ntwo"]
    with pytest.raises(UsageError, match="63 can be read only once"):
        find([str(tmp_path / "63")] * 2)


@pytest.mark.parametrize("chunk", [3, 1 << 20])
def test_bad_utf8_is_named_by_file_and_position(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(streams, "CHUNK", chunk)
    path = tmp_path / "a.txt"
    path.write_bytes("aé\nnaï".encode() + b"\xffve\n")
    with pytest.raises(UsageError, match=r"a\.txt: byte 0xff at position 8 \(line 2\) is not UTF-8"):
        read(path)
    path.write_bytes("one\ntwo é".encode()[:-1])  # cut in the middle of a character
    with pytest.raises(UsageError, match=r"byte 0xc3 at position 8 \(line 2\)"):
        read(path)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"", "has no text: leave it out"),
        ("a.txt", b" \n\n", "has no text"),
        ("a.jsonl", b'{"text": ""}\n', "has no text"),
        ("a.jsonl", b'{"text": "a"}\nnot json\n', "line 2 is not JSON"),
        (
            "a.jsonl",
            b'{"body": "a"}\n',
            "line 1 has no text in 'text' .it has 'body'.: give the right field",
        ),
        ("a.jsonl", b'{"text": 3}\n', "line 1 has a number in 'text', not text"),
        ("a.jsonl", b'{"text": null}\n', "line 1 has null in 'text', not text"),
        ("a.jsonl", b'{"text": ["a"]}\n', "line 1 has a list in 'text', not text: give the right field"),
        ("a.jsonl", b"[1]\n", "it is not an object"),
        ("a.jsonl", rb'{"text": "a\ud800"}', "half of a surrogate pair"),
        ("a.jsonl", b"[" * 100_000, "line 1 is not readable JSON"),
        ("a.jsonl", b'{"n": ' + b"9" * 5000 + b"}", "line 1 is not readable JSON"),
        ("a.txt.xz", b"not xz", "cannot be read"),
        ("a.txt.xz", lzma.compress(b"hello " * 99)[:-9], "cannot be read"),
        ("a.txt.gz", gzip.compress(b"hello " * 99, mtime=0)[:-9], "cannot be read"),
        ("a.tar", b"no archive at all", "cannot be read"),
    ],
)
def test_damage_is_one_clear_line(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UsageError, match=message) as caught:
        read(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_zstd(tmp_path, monkeypatch):
    path = tmp_path / "a.txt.zst"
    path.write_bytes(b"?")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "zstandard", None)
        with pytest.raises(UsageError, match=r"pip install 'dbtm\[zstd\]'"):
            read(path)
    path.write_bytes(zstandard.ZstdCompressor().compress(b"hello " * 99)[:-9])
    with pytest.raises(UsageError, match="in the middle of its compressed data"):
        read(path)
    path.write_bytes(b"no frame")
    with pytest.raises(UsageError, match="cannot be read"):
        read(path)
