"""Files of rows: every format, and bad rows by their line."""

import json

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.tasks.own.read import read_rows


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def spelled(rows):
    return ["|".join(rows.symbols[t] for t in row) for row in rows.tokens_NL]


@pytest.mark.parametrize(
    ("name", "text", "symbols", "rows"),
    [
        ("a.csv", "1,2,10\n10,1,1\n", ("1", "2", "10"), ["1|2|10", "10|1|1"]),
        ("a.csv", "first,second\n3,1\n2,3\n", ("1", "2", "3"), ["3|1", "2|3"]),  # a heading above numbers
        ("a.csv", "on,off\noff,off\n", ("off", "on"), ["on|off", "off|off"]),  # words: no heading
        ("a.tsv", 'b\t"a\tc"\nb\tb\n', ("a\tc", "b"), ["b|a\tc", "b|b"]),
        ("a.jsonl", '"abc"\n["c", "a"]\n{"text": "b"}\n', ("a", "b", "c", ""), ["a|b|c", "c|a|", "b||"]),
        ("a.jsonl", '{"tokens": [3, 1]}\n[12, 3]\n', ("1", "3", "12"), ["3|1", "12|3"]),
        ("a.fasta", ">x one\nACG\nt\n\n>y\nGG\n", ("A", "C", "G", "T", ""), ["A|C|G|T", "G|G||"]),
        ("a.txt", "ab c\ncab \n\n", (" ", "a", "b", "c"), ["a|b| |c", "c|a|b| "]),
        ("a.txt", "über\n", ("b", "e", "r", "ü"), ["ü|b|e|r"]),
    ],
)
def test_rows_of_symbols(tmp_path, name, text, symbols, rows):
    found = read_rows(written(tmp_path, name, text))
    assert found.symbols == symbols
    assert found.vocab == len(symbols)
    assert spelled(found) == rows


def test_short_rows_are_filled_up_to_a_length_that_is_asked_for(tmp_path):
    found = read_rows(written(tmp_path, "a.txt", "ab\nba\n"), length=3)
    assert found.symbols == ("a", "b", "")
    assert found.tokens_NL.tolist() == [[0, 1, 2], [1, 0, 2]]


def test_a_file_that_was_written_anew_is_read_anew(tmp_path):
    path = written(tmp_path, "a.txt", "ab\n")
    assert read_rows(path).symbols == ("a", "b")
    assert read_rows(written(tmp_path, "a.txt", "xyz\n")).symbols == ("x", "y", "z")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "1,2\n1,2,3\n", "line 2: 3 cells, but 2"),
        ("a.csv", "1,2\n1,\n", "line 2: cell 2 is empty"),
        ("a.csv", '1,"2\n', "is not a table"),
        ("a.jsonl", '"ab"\n{"a\n', "line 2: not JSON"),
        ("a.jsonl", '{"words": "a"}\n', "line 1: a row is a string"),
        ("a.jsonl", "[1, 2.5]\n", "line 1: 2.5 is not a symbol"),
        ("a.jsonl", "[true]\n", "line 1: true is not a symbol"),
        ("a.jsonl", "[]\n", "line 1: a row is a string"),
        ("a.fasta", "ACG\n", "line 1: a sequence without a header"),
        ("a.fasta", ">x\n>y\nA\n", "line 1: a record without a sequence"),
        ("a.txt", "ab\n\ncd\n", "line 2: an empty row"),
        ("a.txt", "", "has no rows"),
        ("a.jsonl", json.dumps(["x" * 200]) + "\n", "line 1: a symbol of 200 characters"),
        ("a.xlsx", "ab\n", "files of rows end in"),
    ],
)
def test_bad_rows_are_named_by_their_line(tmp_path, name, text, message):
    with pytest.raises(UsageError, match=message) as error:
        read_rows(written(tmp_path, name, text))
    assert "\n" not in str(error.value)


def test_rows_that_are_too_long_are_named(tmp_path):
    with pytest.raises(UsageError, match="line 2: longer than 2 symbols"):
        read_rows(written(tmp_path, "a.txt", "ab\nabc\n"), length=2)


def test_bytes_that_are_no_text_are_named(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"ab\n\xff\xfe\n")
    with pytest.raises(UsageError, match="line 2: not UTF-8"):
        read_rows(str(tmp_path / "a.txt"))


def test_a_stream_is_cut_into_rows(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(11) % 4)
    assert read_rows(str(tmp_path / "a.npy"), 3).tokens_NL.tolist() == [[0, 1, 2], [3, 0, 1], [2, 3, 0]]
    with pytest.raises(UsageError, match="give the length"):
        read_rows(str(tmp_path / "a.npy"))
