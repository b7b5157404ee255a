"""Parts in pieces: read whole or by rows as the one file that they stand for; damage is refused in a line."""

import json
from itertools import pairwise

import pytest
import torch
from safetensors.torch import save_file

from dbtm.checkpoint.parts import OFFSETS, Part, files_of, parts_of
from dbtm.core.errors import UsageError


def write_pieces(folder, whole, cuts, part="ema"):
    """Rows of every tensor, cut at `cuts`, in one file each; what has no rows lies in the first."""
    folder.mkdir(exist_ok=True)
    for number, (first, last) in enumerate(pairwise(cuts), 1):
        pieces, offsets = {}, {}
        for key, value in whole.items():
            if not value.ndim and number > 1:
                continue
            piece = value[first:last] if value.ndim else value
            if piece.numel() or not value.ndim:
                pieces[f"{part}/{key}"] = piece.contiguous()
                offsets[f"{part}/{key}"] = {"saved_offsets": [first] + [0] * (value.ndim - 1) if value.ndim else []}
        save_file(pieces, folder / f"{part}-{number:05d}.safetensors", {OFFSETS: json.dumps(offsets)})


@pytest.fixture
def whole():
    torch.manual_seed(0)
    return {"a": torch.randn(7, 3), "b": torch.arange(4), "step": torch.tensor(5.0)}


def test_pieces_read_as_the_whole(tmp_path, whole):
    write_pieces(tmp_path / "pieces", whole, [0, 2, 3, 7])
    save_file(whole, tmp_path / "ema.safetensors")
    for folder in (tmp_path / "pieces", tmp_path):
        with Part(folder, "ema") as part:
            assert part.shapes() == {key: tuple(value.shape) for key, value in whole.items()}
            for key, value in whole.items():
                assert torch.equal(part.read(key), value)
            for first in range(8):
                for last in range(first, 8):
                    assert torch.equal(part.read("a", slice(first, last)), whole["a"][first:last])


def test_names_of_parts():
    names = ["ema.safetensors", "ema-00001.safetensors", "emap.safetensors", "optim-00002.safetensors", "state.json"]
    assert files_of(names, "ema") == ["ema-00001.safetensors", "ema.safetensors"]
    assert parts_of(names) == ["ema", "emap", "optim"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "ema-00002.safetensors").unlink(), "is missing or repeated"),
        (lambda f: (f / "ema-00002.safetensors").write_bytes(b"x"), "is damaged"),
        (lambda f: (f / "ema-00004.safetensors").write_bytes((f / "ema-00002.safetensors").read_bytes()), "repeated"),
        (lambda f: (f / "ema.safetensors").write_bytes(b""), "has ema twice"),
        (lambda f: [path.unlink() for path in f.iterdir()], r"has no ema.safetensors"),
    ],
)
def test_damaged_pieces_are_refused(tmp_path, whole, spoil, message):
    write_pieces(tmp_path, whole, [0, 2, 3, 7])
    spoil(tmp_path)
    with pytest.raises(UsageError, match=message), Part(tmp_path, "ema") as part:
        part.read("a")


@pytest.mark.parametrize("begin", [[-1, 0], [0], ["0", 0], [1, 1], [0.5, 0], {}])
def test_pieces_that_begin_nowhere_are_refused(tmp_path, begin):
    offsets = {OFFSETS: json.dumps({"ema/a": {"saved_offsets": begin}})}
    save_file({"ema/a": torch.zeros(2, 3)}, tmp_path / "ema-00001.safetensors", offsets)
    with pytest.raises(UsageError, match="is damaged"), Part(tmp_path, "ema"):
        pass
