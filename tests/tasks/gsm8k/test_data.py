"""Reading problems, and the complaints about files."""

import json

import pytest

from dbtm.core.errors import UsageError
from dbtm.tasks.gsm8k.data import Example, hub, read
from dbtm.tasks.gsm8k.plain import plain

CODE = "def simple_math_problem():\n    return 2"


def lines(path, *records):
    path.write_text("\n".join(json.dumps(record) for record in records) + "\n\n", encoding="utf-8")
    return path


def test_both_formats(tmp_path):
    path = lines(
        tmp_path / "a.jsonl",
        {"question": "How many?", "code": CODE, "answer": 2, "source": "somewhere"},
        {"question": "How much?", "answer": "1 + 1 = <<1+1=2>>2\n#### 2,000"},
    )
    assert list(read(path, "question")) == [Example("How many?", CODE, 2.0), Example("How much?", "", 2000.0)]


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"question": "How many?", "answer": 2}\n', encoding="utf-8-sig")
    assert list(read(tmp_path / "a.jsonl", "question", "answer")) == [Example("How many?", "", 2.0)]


@pytest.mark.parametrize(
    ("text", "wanted", "words"),
    [
        ('{"question": "a", "answer": 1}\n{"question": "a"}', ("question", "answer"), "line 2 has no 'answer'"),
        ('{"question": "a"}', ("question", "code"), "line 1 has no 'code' \\(it has 'question'\\)"),
        ('{"question": "a", "answer": "many"}', ("question", "answer"), "line 1: the answer 'many' is neither"),
        ('{"question": 3, "code": "x"}', ("question", "code"), "'question' must be a text"),
        ('{"question": " ", "code": "x"}', ("question", "code"), "'question' is empty"),
        ('{"question": "a", "code": "\\n"}', ("question", "code"), "line 1: 'code' is empty"),
        ('{"question": "\\ud800", "code": "x"}', ("question", "code"), "valid Unicode"),
        ("[1]", ("question",), "line 1 is not an object"),
        ('\n{"question": "a"', ("question",), "line 2 is not JSON"),
        ("", ("question",), "has no problems"),
    ],
)
def test_bad_files_are_named_by_their_line(tmp_path, text, wanted, words):
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=words):
        list(read(path, *wanted))


def test_a_program_that_is_only_judged_may_be_empty(tmp_path):
    path = lines(tmp_path / "a.jsonl", {"code": "", "answer": 2})
    assert list(read(path, "code", "answer")) == [Example("", "", 2.0)]


def test_files_that_are_not_there_or_no_text(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        list(read(tmp_path / "none.jsonl", "question"))
    (tmp_path / "a.jsonl.gz").write_bytes(b"\x1f\x8b")
    with pytest.raises(UsageError, match="is compressed: decompress it first"):
        list(read(tmp_path / "a.jsonl.gz", "question"))
    (tmp_path / "a.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot read"):
        list(read(tmp_path / "a.jsonl", "question"))


def test_extras_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match=r"pip install 'dbtm\[hf\]'"):
        list(read(tmp_path / "a.parquet", "question"))
    with pytest.raises(UsageError, match=r"pip install 'dbtm\[hf\]'"):
        list(hub("TinyGSM/TinyGSM", "question"))


def test_plain_programs_keep_their_meaning():
    code = 'def simple_math_problem():\n    """Text."""\n    # why\n    x=48/2  # half\n\n    return  x'
    found = plain(Example("q", code, 24.0))
    assert found == Example("q", "def simple_math_problem():\n    x = 48 / 2\n    return x", 24.0)
    assert plain(Example("q", 'def f():\n    "only words"', None)).code == "def f():\n    pass"
    assert plain(Example("q", "def f(:", None)) is None
