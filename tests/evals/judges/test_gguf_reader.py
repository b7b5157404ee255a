"""GGUF files: what a writer puts in comes out, and no damage goes unnoticed, unnamed or unbounded."""

import struct
import tracemalloc

import gguf
import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.evals.judges.gguf_reader import GGUF
from tests.evals.judges import gguf_writer
from tests.evals.judges.gguf_writer import Blocks

ONES = np.ones((2, 32), np.float32)
BIG = 1 << 60


def refused(path) -> str:
    """The one line that says what is wrong with a file."""
    with pytest.raises(UsageError) as error:
        GGUF(path).tensor("w")
    told = str(error.value)
    assert str(path) in told
    assert told.isprintable(), "one line, and nothing in it steers the terminal"
    assert len(told) < len(str(path)) + 300
    return told


def test_what_was_written_is_read(tmp_path):
    said = {"a": "wörter", "b": 7, "c": 0.5, "e": ["x", "yz", ""], "f": [1, -2, 3], "g": [], "h": True}
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(3, 64)).astype(np.float32), rng.normal(size=(5, 7)).astype(np.float32)
    file = GGUF(gguf_writer.write(tmp_path / "a.gguf", said, {"one": (one, 8), "two": (two, 0)}))
    assert (file.text("a"), file.integer("b", 7, 7), file.positive("c")) == ("wörter", 7, 0.5)
    assert (file.texts("e"), file.numbers("f"), file.texts("g")) == (["x", "yz", ""], [1, -2, 3], [])
    assert (file.text("z", "other"), file.integer("z", 0, 9, 3), file.numbers("z", [])) == ("other", 3, [])
    assert file.states("h")
    assert not file.states("z")
    assert file.shapes == {"one": (3, 64), "two": (5, 7)}
    np.testing.assert_array_equal(file.tensor("two"), two)
    assert np.abs(file.tensor("one") - one).max() <= np.abs(one).max() / 127, "eight bits keep a step of the scale"


def test_a_file_of_the_packages_own_writer_is_read(tmp_path):
    """Other alignment, and metadata of other widths, than our writer has."""
    weights = np.random.default_rng(0).normal(size=(4, 64)).astype(np.float32)
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_custom_alignment(64)
    writer.add_uint64("long", 5)
    writer.add_array("floats", [0.5, 1.5])
    writer.add_array("flags", [True, False])
    kind = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor("w", gguf.quants.quantize(weights, kind), raw_dtype=kind)
    writer.add_tensor("h", weights.astype(np.float16))
    for step in ("write_header_to_file", "write_kv_data_to_file", "write_tensors_to_file", "close"):
        getattr(writer, step)()
    file = GGUF(tmp_path / "a.gguf")
    assert (file.text("general.architecture"), file.integer("long", 0, 9)) == ("llama", 5)
    assert (file.numbers("floats"), file.numbers("flags")) == ([0.5, 1.5], [True, False])
    np.testing.assert_array_equal(file.tensor("h"), weights.astype(np.float16))
    assert np.abs(file.tensor("w") - weights).max() <= np.abs(weights).max() / 127


def test_every_cut_is_noticed(tmp_path):
    whole = gguf_writer.write(tmp_path / "a.gguf", {"a": "b", "c": [1, 2], "d": ["e"]}, {"w": (ONES, 0)})
    data, cut = whole.read_bytes(), tmp_path / "cut.gguf"
    for length in range(len(data)):
        cut.write_bytes(data[:length])
        refused(cut)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: b"", "letters GGUF"),
        (lambda d: b"PK\3\4" + d[4:], "letters GGUF"),
        (lambda d: d[:4] + b"\1\0\0\0" + d[8:], "version 1;"),
        (lambda d: d[:4] + b"\0\0\0\3" + d[8:], "version 50331648;"),  # big-endian
        (lambda d: d[:8] + b"\xff" * 8 + d[16:], "has 18446744073709551615 tensors"),
        (lambda d: d[:16] + b"\xff" * 8 + d[24:], "has 18446744073709551615 pairs"),
        (lambda d: d[:16] + b"\2" + d[17:], "damaged"),
    ],
)
def test_other_files_are_refused(tmp_path, change, words):
    path = gguf_writer.write(tmp_path / "a.gguf", {"a": "b"}, {"w": (ONES, 0)})
    path.write_bytes(change(path.read_bytes()))
    assert words in refused(path)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (struct.pack("<IIQ", 9, 0, BIG), "ends too early"),  # the package alone would count to 2^60
        (struct.pack("<IIQ", 9, 12, BIG), "ends too early"),
        (struct.pack("<IIQ", 9, 8, BIG), "more than 250,000 strings"),
        (struct.pack("<IIQ", 9, 8, 200_000), "ends too early"),
        (struct.pack("<IIQ", 9, 9, 1) * 2000, "array of arrays"),
        (struct.pack("<IIQ", 9, 99, 1), "99 is not a valid GGUFValueType"),
        (struct.pack("<IQ", 8, BIG), "ends too early"),
        (struct.pack("<I", 77), "77 is not a valid GGUFValueType"),
    ],
)
def test_false_sizes_in_the_metadata_are_refused_at_once(tmp_path, value, words):
    assert words in refused(gguf_writer.write(tmp_path / "a.gguf", {"a": value}, {"w": (ONES, 0)}))


@pytest.mark.parametrize("align", [0, 3, "x", struct.pack("<Iq", 11, 1 << 62)])
def test_a_false_alignment_is_refused(tmp_path, align):
    assert "lignment" in refused(gguf_writer.write(tmp_path / "a.gguf", {"general.alignment": align}, {"w": (ONES, 0)}))


@pytest.mark.parametrize(
    ("tensor", "kind", "words"),
    [
        (Blocks((2, 32), b"", BIG), 0, "ends too early"),
        (Blocks((2, 32), b"\0" * 256, (1 << 64) - 32), 0, "overflow"),  # would wrap around to a place in the file
        (Blocks((BIG, 32), b"\0" * 256), 0, "damaged"),
        (Blocks((1 << 32, 1 << 32), b""), 0, "damaged"),  # 2^64 weights would wrap around to none
        (Blocks((1 << 62, 32), b""), 2, "damaged"),
        (Blocks((1,) * 70, b"\0" * 4), 0, "damaged"),
        (Blocks((3, 16), b"\0" * 99), 2, "not a multiple of Q4_0 block size"),
        (Blocks((2, 32), b"\0" * 99), 200, "is not a valid GGMLQuantizationType"),
        (Blocks((2, 32), b"\0" * 64), 24, "w is stored as I8, which the package gguf cannot decode"),
        (np.array([1, np.nan], np.float32), 0, "w has weights that are not finite"),
    ],
)
def test_false_tensors_are_refused(tmp_path, tensor, kind, words):
    assert words in refused(gguf_writer.write(tmp_path / "a.gguf", {}, {"w": (tensor, kind)}))


def test_a_false_number_of_axes_is_refused(tmp_path):
    path = gguf_writer.write(tmp_path / "a.gguf", {}, {"w": (ONES, 0)})
    path.write_bytes(path.read_bytes().replace(b"w\2\0\0\0", b"w\xff\xff\xff\xff"))
    assert "ends too early" in refused(path)


def test_names_must_be_unlike_and_are_told_in_one_line(tmp_path):
    path = gguf_writer.write(tmp_path / "a.gguf", {}, {"w\n\x1b[2J": (ONES, 0), "v\n\x1b[2J": (ONES, 0)})
    path.write_bytes(path.read_bytes().replace(b"v\n", b"w\n"))
    assert r"duplicated tensor with name w\n\x1b[2J" in refused(path)
    path = gguf_writer.write(tmp_path / "b.gguf", {"ab": 1, "ac": 2}, {})
    path.write_bytes(path.read_bytes().replace(b"ac", b"ab"))
    assert "Duplicate ab" in refused(path)


def test_tensors_may_not_overlap(tmp_path):
    """A file of many tensors in the same place would fill a memory that is no match for its size."""
    tensors = {name: (Blocks((64, 32), b"\0" * (8192 if name == "w" else 0), 0), 0) for name in "wxyz"}
    assert "overlap" in refused(gguf_writer.write(tmp_path / "a.gguf", {}, tensors))


def test_an_array_costs_no_more_than_its_bytes(tmp_path):
    value = struct.pack("<IIQ", 9, 0, 1 << 22) + bytes(1 << 22)
    path = gguf_writer.write(tmp_path / "a.gguf", {"a": value}, {"w": (ONES, 0)})
    tracemalloc.start()
    try:
        GGUF(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize(
    ("value", "ask", "words"),
    [
        ("7", lambda file: file.integer("a", 0, 9), "a is '7', not a whole number from 0 to 9"),
        (10, lambda file: file.integer("a", 0, 9), "a is 10, not a whole number"),
        (True, lambda file: file.integer("a", 0, 9), "a is True, not"),
        (7.0, lambda file: file.integer("a", 0, 9), "a is 7.0, not"),
        ([7], lambda file: file.integer("a", 0, 9), "a is [7], not"),
        (float("nan"), lambda file: file.positive("a"), "a is nan, not a positive number"),
        (float("inf"), lambda file: file.positive("a"), "a is inf, not"),
        (-0.5, lambda file: file.positive("a"), "a is -0.5, not"),
        ("1", lambda file: file.positive("a"), "a is '1', not"),
        (1, lambda file: file.text("a"), "a is 1, not a string"),
        (["x"], lambda file: file.text("a"), "a is ['x'], not a string"),
        ([1, 2], lambda file: file.texts("a"), "a is [1, 2], not a list of strings"),
        ("xy", lambda file: file.texts("a"), "a is 'xy', not a list of strings"),
        (["x"], lambda file: file.numbers("a"), "a is ['x'], not a list of numbers"),
        (struct.pack("<IQ", 8, 1) + b"\xff", lambda file: file.text("a"), "a is not UTF-8"),
        (1, lambda file: file.text("b"), "it does not state b"),
    ],
)
def test_values_of_another_kind_are_refused(tmp_path, value, ask, words):
    file = GGUF(gguf_writer.write(tmp_path / "a.gguf", {"a": value}, {}))
    with pytest.raises(UsageError) as error:
        ask(file)
    assert f"{tmp_path / 'a.gguf'} is damaged: {words}" in str(error.value)


def test_a_file_that_cannot_be_opened(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .*missing\.gguf: No such file"):
        GGUF(tmp_path / "missing.gguf")
