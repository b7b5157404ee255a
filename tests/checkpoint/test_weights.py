"""Weights in 8 bits: how far they are off, what they sample, and what is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import dbtm
from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint import weights
from dbtm.cli import app
from dbtm.core.errors import UsageError
from dbtm.service.packing import pack
from dbtm.train.loop import fit
from tests.evals.tiny import mini_sudoku, write_checkpoint
from tests.train.test_resume import tiny_run


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    return write_checkpoint(mini_sudoku(), tmp_path_factory.mktemp("runs") / "mini")


def test_every_row_has_the_best_of_its_scales():
    """By brute force in float64: no number is further off than rounding to its row's scale explains, unless that scale
    leaves out the largest, which then must have paid.
    """
    rows = torch.randn(40, 64)
    rows[3, 7] = 30.0  # one large weight
    rows[4] = 0.0
    packed = weights.pack({"w": rows})
    q, scale = packed["w"].double().numpy(), packed["scale/w"].double().numpy()
    truth = rows.double().numpy()
    for row, q_row, s in zip(truth, q, scale, strict=True):
        errors = [
            ((np.clip(np.rint(row / (c * m)), -127, 127) * c * m - row) ** 2).sum()
            for m in [max(abs(row).max(), 1e-30) / 127]
            for c in (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
        ]
        assert ((q_row * s - row) ** 2).sum() <= min(errors) * (1 + 1e-4) + 1e-30
        inside = abs(row) <= 127 * s
        assert (abs(q_row * s - row)[inside] <= s / 2 * (1 + 1e-5)).all()
    assert abs(q).max() == 127


def test_what_is_no_matrix_stays():
    kept = {"norm": torch.randn(5), "ids": torch.arange(6).view(2, 3)}
    packed = weights.pack(kept)
    assert packed.keys() == kept.keys()
    assert all(torch.equal(packed[name], kept[name]) for name in kept)


def test_files_are_of_at_most_a_size():
    """Nine tensors of 100 kB in files of 300 kB; together they are all tensors, once each."""
    tensors = {f"w{i}": torch.zeros(100_000, dtype=torch.int8) for i in range(9)}
    parts = weights.split(tensors, most=300_000 + weights.HEADER)
    assert [len(part) for part in parts.values()] == [3, 3, 3]
    assert [*parts] == ["ema-1", "ema-2", "ema-3"]
    assert [name for part in parts.values() for name in part] == [*tensors]


def test_a_packed_model_samples_as_its_rounded_weights_do(trained, tmp_path):
    done = pack(str(trained), tmp_path / "packed")
    assert done.bytes < 0.45 * done.bytes_before  # float32
    assert 0 < done.error < 0.01
    rounded = weights.read(tmp_path / "packed")
    for name, value in weights.read(trained).items():
        assert (rounded[name].float() - value.float()).abs().max() <= 0.02 * value.float().abs().max() + 1e-12
    config = (trained / "config.json").read_text()
    checkpoint.write(tmp_path / "rounded", {"ema": rounded}, {"config": config})
    first, second = (dbtm.load(tmp_path / name).sample(4, seed=3).tokens for name in ("packed", "rounded"))
    assert np.array_equal(first, second)


def test_a_run_starts_from_packed_weights(tmp_path):
    config = tiny_run()
    source = fit(config, tmp_path / "first")
    pack(str(source), tmp_path / "packed")
    folder = fit(replace(config, train=replace(config.train, init=str(tmp_path / "packed"))), tmp_path / "second")
    assert checkpoint.read_state(folder)["step"] == config.train.steps


def damage(folder: Path, name: str, change) -> None:
    """Change a file of tensors, and the manifest with it."""
    from safetensors.torch import load_file, save_file

    from dbtm.core.digest import sha256

    tensors = load_file(folder / name)
    change(tensors)
    save_file(tensors, folder / name)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {name: sha256(folder / name)}))


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: tensors.update({"scale/embedding": torch.ones(2)}),
        lambda tensors: tensors.update({"scale/embedding": tensors["scale/embedding"].double()}),
        lambda tensors: tensors.update({"scale/nothing": torch.ones(3)}),
        lambda tensors: tensors.update({"embedding": tensors["embedding"].float()}),
        lambda tensors: tensors.pop("scale/embedding"),
        lambda tensors: tensors["scale/embedding"].fill_(torch.nan),
    ],
)
def test_damaged_scales_are_refused(trained, tmp_path, change):
    pack(str(trained), tmp_path / "packed")
    damage(tmp_path / "packed", "ema-1.safetensors", change)
    with pytest.raises(UsageError, match="damaged"):
        dbtm.load(tmp_path / "packed")


def test_a_missing_part_is_refused(trained, tmp_path):
    folder = pack(str(trained), tmp_path / "packed").folder
    shutil.copy(folder / "ema-1.safetensors", folder / "ema-3.safetensors")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["ema-3.safetensors"] = manifest["ema-1.safetensors"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match=r"ema-1.safetensors, ema-3.safetensors are present"):
        dbtm.load(folder)
    (folder / "ema-3.safetensors").rename(folder / "ema-2.safetensors")
    manifest["ema-2.safetensors"] = manifest.pop("ema-3.safetensors")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match="is in two files"):
        dbtm.load(folder)


def test_the_command(trained, tmp_path):
    run = CliRunner().invoke
    done = run(app, ["pack", str(trained), "--out", str(tmp_path / "packed")])
    assert done.exit_code == 0
    assert "MB of weights in 1 file," in done.output
    for arguments, words in [
        ([str(trained), "--out", str(tmp_path / "packed")], "exists: choose another folder"),
        ([str(tmp_path / "packed"), "--out", str(tmp_path / "again")], "is packed already"),
        ([str(trained), "--bits", "3", "--out", str(tmp_path / "again")], "cannot be packed into 3 bits"),
        (["nowhere", "--out", str(tmp_path / "again")], "no such checkpoint"),
    ]:
        with pytest.raises(UsageError, match=words):
            run(app, ["pack", *arguments], catch_exceptions=False)
    assert not (tmp_path / "again").exists()
