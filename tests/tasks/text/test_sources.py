"""Documents out of files: every format gives the same ones, whatever the chunks, and damage is named."""

import gzip
import io
import json
import lzma
import sys
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbtm.errors import UsageError
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

    def write(name: str, text: str):
        path = tmp_path / (name + request.param)
        data = text.encode()
        if request.param == ".zst":
            zstandard = pytest.importorskip("zstandard")
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


def test_tar_archives_hold_a_document_a_file(tmp_path):
    for name, mode in [("a.tar", "w"), ("a.tar.xz", "w:xz"), ("urlsf_subset00-1_data.xz", "w:xz")]:
        with tarfile.open(tmp_path / name, mode) as archive:
            for i, text in enumerate(["one\n\nstill one\n", "two"]):
                member = tarfile.TarInfo(f"{i}.txt")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
        assert read(tmp_path / name) == ["one\n\nstill one", "two"]


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"text": [*DOCUMENTS, None], "n": [1, 2, 3, 4]}), path, row_group_size=2)
    assert read(path) == DOCUMENTS
    with pytest.raises(UsageError, match="no column 'body'"):
        read(path, field="body")
    path.write_bytes(b"PAR1 no")
    with pytest.raises(UsageError, match="cannot be read"):
        read(path)


def test_folders_in_order_and_what_is_passed_over(tmp_path):
    (tmp_path / "b").mkdir()
    names = ["b/1.jsonl.xz", "a.txt", ".hidden.txt", "c.txt.gz", "b/notes.md", "news.en-1", "x.json"]
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
    with pytest.raises(UsageError, match="only once"):
        find(["-", "-"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no text"):
        find([str(tmp_path / "empty")])


def test_standard_input(monkeypatch):
    def feed(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    feed("\n".join(DOCUMENTS))
    assert read("-") == DOCUMENTS
    feed(json_lines("body"))
    assert read("-", field="body") == DOCUMENTS
    feed("\n")
    with pytest.raises(UsageError, match="the standard input holds no text"):
        read("-")


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
        ("a.txt", b"", "holds no text: leave it out"),
        ("a.txt", b" \n\n", "holds no text"),
        ("a.jsonl", b'{"text": ""}\n', "holds no text"),
        ("a.jsonl", b'{"text": "a"}\nnot json\n', "line 2 is not JSON"),
        (
            "a.jsonl",
            b'{"body": "a"}\n',
            "line 1 has no text in 'text' .it has 'body'.: name the right one with --field",
        ),
        ("a.jsonl", b'{"text": 3}\n', "no text in 'text'"),
        ("a.jsonl", b"[1]\n", "it is not an object"),
        ("a.jsonl", rb'{"text": "a\ud800"}', "half of a surrogate pair"),
        ("a.jsonl", b"[" * 100_000, "line 1 is not JSON"),
        ("a.jsonl", b'{"n": ' + b"9" * 5000 + b"}", "line 1 is not JSON"),
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
    zstandard = pytest.importorskip("zstandard")
    path.write_bytes(zstandard.ZstdCompressor().compress(b"hello " * 99)[:-9])
    with pytest.raises(UsageError, match="in the middle of its compressed data"):
        read(path)
    path.write_bytes(b"no frame")
    with pytest.raises(UsageError, match="cannot be read"):
        read(path)
