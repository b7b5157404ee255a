"""Lines are there whole or not at all, whenever the process is killed."""

import json

import pytest

from dbtm.core.errors import UsageError
from dbtm.evals.sweep import journal


def records(path):
    return [record for _, record in journal.read_records(path, cut_short=True)]


def test_whatever_a_kill_leaves_of_the_last_line_is_replaced(tmp_path):
    path = tmp_path / "a.jsonl"
    journal.append_record(path, {"a": 1})
    journal.append_record(path, {"b": "ü" * 5})
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole)):
        path.write_bytes(whole[:cut])
        assert records(path) == [{"a": 1}]
        journal.append_record(path, {"c": 3})
        assert records(path) == [{"a": 1}, {"c": 3}]
        assert path.read_bytes() == whole[:first] + b'{"c": 3}\n'


def test_a_long_line_cut_short_is_replaced_too(tmp_path):
    path = tmp_path / "a.jsonl"
    journal.append_record(path, {"a": 1})
    path.write_bytes(path.read_bytes() + b"x" * 200_000)
    journal.append_record(path, {"b": 2})
    assert records(path) == [{"a": 1}, {"b": 2}]
    path.write_bytes(b"y" * 70_000)
    journal.append_record(path, {"b": 2})
    assert records(path) == [{"b": 2}]


def test_a_last_line_without_its_end_counts_unless_a_kill_may_have_cut_it(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n{"b": 2}')
    assert [record for _, record in journal.read_records(path)] == [{"a": 1}, {"b": 2}]
    assert records(path) == [{"a": 1}]
    path.write_bytes(b'{"a": 1}\n{"b": ')
    with pytest.raises(UsageError, match="line 2 is not readable JSON"):
        list(journal.read_records(path))


def test_compressed_files_are_the_same(tmp_path):
    for name in ("a.jsonl", "a.jsonl.gz"):
        journal.write_records(tmp_path / name, [{"a": [1, 2]}, {"b": None}])
        assert records(tmp_path / name) == [{"a": [1, 2]}, {"b": None}]
    assert (tmp_path / "a.jsonl.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert {p.name for p in tmp_path.iterdir()} == {"a.jsonl", "a.jsonl.gz"}, "no temporary file stays"


def test_damage_is_named_by_its_line(tmp_path):
    path = tmp_path / "a.jsonl"
    for second, words in (
        ("{", "line 2 is not readable JSON"),
        ("[1]", "line 2 is not a JSON object"),
        ("[" * 100_000, "line 2 is not readable JSON"),
        ('{"a": ' + "9" * 5000 + "}", "line 2 is not readable JSON"),
    ):
        path.write_text(json.dumps({}) + "\n" + second + "\n")
        with pytest.raises(UsageError, match=words):
            records(path)
    (tmp_path / "b.gz").write_bytes(b"no gzip")
    for name in ("b.gz", "missing.jsonl"):
        with pytest.raises(UsageError, match=f"cannot read .*{name}"):
            records(tmp_path / name)
    with pytest.raises(UsageError, match="cannot write"):
        journal.append_record(tmp_path / "none" / "a.jsonl", {})
    with pytest.raises(ValueError):
        journal.append_record(path, {"x": float("nan")})
