"""GGUF files: what a writer of our own puts in comes out, and no damage goes unnoticed or unnamed."""

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.evals.judges.gguf_file import GGUF
from tests.evals.judges import gguf_writer


def test_what_was_written_is_read(tmp_path):
    said = {"a": "wörter", "b": 7, "c": 0.5, "d": True, "e": ["x", "yz", ""], "f": [1, -2, 3]}
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(3, 64)).astype(np.float32), rng.normal(size=(5, 7)).astype(np.float32)
    file = GGUF(gguf_writer.write(tmp_path / "a.gguf", said, {"one": (one, 8), "two": (two, 0)}))
    assert file.metadata == said
    np.testing.assert_array_equal(file.tensor("two"), two)
    assert np.abs(file.tensor("one") - one).max() <= np.abs(one).max() / 127, "eight bits keep a step of the scale"


def test_every_cut_is_noticed(tmp_path):
    whole = gguf_writer.write(tmp_path / "a.gguf", {"a": "b", "c": [1, 2]}, {"w": (np.ones((2, 32), np.float32), 0)})
    data, cut = whole.read_bytes(), tmp_path / "cut.gguf"
    for length in range(len(data)):
        cut.write_bytes(data[:length])
        with pytest.raises(UsageError, match=r"cut\.gguf"):
            GGUF(cut).tensor("w")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: b"PK\3\4" + d[4:], "letters GGUF"),
        (lambda d: d[:4] + b"\1\0\0\0" + d[8:], "version 1"),
        (lambda d: d[:16] + b"\xff" * 8 + d[24:], "damaged"),
    ],
)
def test_other_files_are_refused(tmp_path, change, words):
    path = gguf_writer.write(tmp_path / "a.gguf", {"a": "b"}, {"w": (np.ones(2, np.float32), 0)})
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UsageError, match=words):
        GGUF(path)


def test_what_is_not_read_is_refused_by_name(tmp_path):
    path = gguf_writer.write(tmp_path / "a.gguf", {}, {"w": (np.ones((1, 256), np.float32), 13)})
    with pytest.raises(UsageError, match=r"w is stored as Q5_K.*Q4_1"):
        GGUF(path).tensor("w")
    with pytest.raises(UsageError, match="cannot read"):
        GGUF(tmp_path / "missing.gguf")
