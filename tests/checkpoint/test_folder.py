"""The folder of a checkpoint: whole or not there, whatever ends its writer, and checked before it is read."""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from dbtm.checkpoint import folder as checkpoint
from dbtm.core import process
from dbtm.core.errors import UsageError


def contents(step: int) -> dict[str, torch.Tensor]:
    return {"w": torch.full((4000,), float(step)), "b": torch.arange(7) + step}


def save(run, step, keep=2):
    folder = checkpoint.write(
        run / f"step-{step:08d}", {"model": contents(step)}, {"config": {}, "state": {"step": step}}
    )
    checkpoint.prune(run, keep)
    return folder


def test_sigkill_at_random_moments_always_leaves_a_loadable_checkpoint(tmp_path):
    save(tmp_path, 0)
    generator = random.Random(0)
    reached, caught_writing = 0, 0
    for turn in range(50):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:  # write checkpoints until killed
            step = reached
            while True:
                step += 1
                save(tmp_path, step)
                os.write(writing, b".")
        if turn % 2:
            os.read(reading, 1)  # one is written, however busy the machine
        time.sleep(generator.uniform(0.001, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)
        caught_writing += bool(list(tmp_path.glob(".writing-*")))
        newest = checkpoint.latest(tmp_path)
        checkpoint.verify(newest)
        step = checkpoint.read_state(newest)["step"]
        tensors = checkpoint.read_tensors(newest, "model")
        assert all(torch.equal(tensors[k], v) for k, v in contents(step).items())
        assert step >= reached
        reached = step
    assert reached > 0, "the children got to write"
    assert caught_writing > 0, "kills did land in the middle of a write"
    save(tmp_path, reached + 1)
    assert not list(tmp_path.glob(".*-step-*")), "leftovers are swept up"


@pytest.mark.parametrize("damage", ["truncate", "alter", "remove"])
@pytest.mark.parametrize("name", ["model.safetensors", "state.json"])
def test_a_damaged_file_is_refused_by_name(tmp_path, damage, name):
    folder = save(tmp_path, 1)
    path = folder / name
    if damage == "truncate":
        path.write_bytes(path.read_bytes()[:-5])
    elif damage == "alter":
        data = bytearray(path.read_bytes())
        data[-3] ^= 1
        path.write_bytes(bytes(data))
    else:
        path.unlink()
    with pytest.raises(UsageError, match=name):
        checkpoint.verify(folder)


def test_finding_a_checkpoint(tmp_path):
    with pytest.raises(UsageError, match="no such checkpoint"):
        checkpoint.find(tmp_path / "nothing")
    with pytest.raises(UsageError, match="is not a checkpoint"):
        checkpoint.find(tmp_path)
    for step in (3, 20, 100):
        save(tmp_path, step, keep=3)
    (tmp_path / "step-00000200").mkdir()  # no manifest: not a checkpoint
    assert checkpoint.find(tmp_path).name == "step-00000100"
    assert checkpoint.find(tmp_path / "step-00000003").name == "step-00000003"


def test_the_same_step_can_be_written_again(tmp_path):
    save(tmp_path, 1)
    folder = save(tmp_path, 1)
    checkpoint.verify(folder)
    assert json.loads((folder / "manifest.json").read_text()).keys() == {
        "model.safetensors",
        "config.json",
        "state.json",
    }


def test_prepared_data_is_named_as_such(tmp_path):
    (tmp_path / "manifest.json").write_text('{"kind": "gsm8k", "vocab": 700, "length": 240, "files": {}}')
    with pytest.raises(UsageError, match="is prepared data, not a checkpoint"):
        checkpoint.verify(checkpoint.find(tmp_path))


@pytest.mark.parametrize("text", ["{}", "[]", "{"])
def test_a_damaged_manifest_is_refused(tmp_path, text):
    folder = save(tmp_path, 1)
    (folder / "manifest.json").write_text(text)
    with pytest.raises(UsageError, match=r"manifest\.json is damaged"):
        checkpoint.verify(folder)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", ".hidden", "a/b", "", "manifest.json", "x" * 200])
def test_a_manifest_names_files_of_its_folder_alone(tmp_path, name):
    folder = save(tmp_path / "run", 1)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, name: "0" * 64}))
    with pytest.raises(UsageError, match="is not a file of a checkpoint") as caught:
        checkpoint.verify(folder)
    assert "\n" not in str(caught.value)


def test_a_link_must_not_lead_out_of_the_folder(tmp_path):
    folder = save(tmp_path / "run", 1)
    outside = tmp_path / "state.json"
    (folder / "state.json").rename(outside)
    (folder / "state.json").symlink_to(outside)
    with pytest.raises(UsageError, match=r"state\.json is a link out of the checkpoint"):
        checkpoint.verify(folder)


def test_a_document_is_replaced_and_all_else_stays(tmp_path):
    """Weights are the same files; what is no file of the checkpoint is kept, and still none of it."""
    folder = save(tmp_path, 1)
    (folder / "notes.txt").write_text("mine")
    weights = (folder / "model.safetensors").stat().st_ino
    checkpoint.rewrite(folder, {"config": '{"new": 1}'})
    checkpoint.verify(folder)
    assert json.loads((folder / "config.json").read_text()) == {"new": 1}
    assert (folder / "model.safetensors").stat().st_ino == weights
    assert (folder / "notes.txt").read_text() == "mine"
    assert "notes.txt" not in checkpoint.listed(folder, ())
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


@pytest.mark.parametrize("linked", [True, False])
def test_a_document_that_cannot_be_replaced_stays(tmp_path, monkeypatch, linked):
    """A full disk at any of the writes; also where the file system has no hard links."""
    folder = save(tmp_path, 1)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    for where, name in ((checkpoint, "_put"), (checkpoint.atomic, "sync"), (checkpoint.shutil, "copytree")):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, full)
            if not linked:
                patch.setattr(checkpoint.os, "link", full)
            with pytest.raises(UsageError, match=r"cannot change .*step-00000001: No space left .* it is unchanged"):
                checkpoint.rewrite(folder, {"config": "{}"})
        assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    with monkeypatch.context() as patch:
        if not linked:
            patch.setattr(checkpoint.os, "link", full)
        checkpoint.rewrite(folder, {"config": '{"new": 1}'})
    checkpoint.verify(folder)


def test_a_checkpoint_whose_place_cannot_be_taken_stays(tmp_path, monkeypatch):
    folder, rename = save(tmp_path, 1), Path.rename

    def refuse(path, target):
        if path.name.startswith(".writing-"):
            raise OSError(30, "Read-only file system")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(UsageError, match="Read-only file system; it is unchanged"):
        checkpoint.rewrite(folder, {"config": "{}"})
    checkpoint.verify(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_a_killed_change_leaves_the_old_document_or_the_new_one(tmp_path):
    folder, generator, seen = save(tmp_path, 1), random.Random(0), set()
    for turn in range(20):
        child = os.fork()
        if child == 0:
            for number in range(10**9):
                checkpoint.rewrite(folder, {"config": json.dumps({"turn": turn, "number": number})})
        time.sleep(generator.uniform(0.001, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if not folder.exists():  # between two renames: complete, under the name it had while it was written
            next(tmp_path.glob(".writing-*")).rename(folder)
        checkpoint.verify(folder)
        assert torch.equal(checkpoint.read_tensors(folder, "model")["w"], contents(1)["w"])
        seen.add((folder / "config.json").read_text())
    assert len(seen) > 1
    save(tmp_path, 2)
    assert not list(tmp_path.glob(".*-step-*")), "leftovers are swept up"


def test_what_a_dead_process_left_goes_though_another_one_has_its_number(tmp_path):
    """This process has the number of both leftovers; one of them was written before it started."""
    save(tmp_path, 1)
    for name, age in (("live", 0), ("dead", 10**6)):
        leftover = tmp_path / f".writing-step-{name}-{checkpoint.own_name()}"
        leftover.mkdir()
        os.utime(leftover, (time.time() - age,) * 2)
    checkpoint.prune(tmp_path, 2)
    left = [path.name for path in tmp_path.glob(".writing-*")]
    assert left == [f".writing-step-live-{checkpoint.own_name()}"] or process.started(os.getpid()) is None


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), SafetensorError("IoError: no space")])
def test_what_cannot_be_saved_leaves_nothing_and_earlier_ones_as_they_were(tmp_path, monkeypatch, error):
    before = save(tmp_path, 1)

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save_file", fail)
        with pytest.raises(UsageError, match=r"cannot save .*step-00000002: .*[nN]o space"):
            save(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]
    checkpoint.verify(before)
    assert save(tmp_path, 2) == checkpoint.latest(tmp_path)


def test_documents_that_are_none(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    for text, message in [
        ("{", "is damaged: it is not JSON"),
        ("[" * 100_000, "is damaged: it is not JSON"),
        ("[3]", "is damaged: it has no step"),
        ('{"step": -1}', "is damaged: it has no step"),
        ('{"step": "3"}', "is damaged: it has no step"),
    ]:
        path.write_text(text)
        with pytest.raises(UsageError, match=message) as caught:
            checkpoint.read_state(tmp_path)
        assert "\n" not in str(caught.value)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="it is not JSON"):
        checkpoint.read_state(tmp_path)
    path.write_text('{"step": 3}')
    assert checkpoint.read_state(tmp_path) == {"step": 3}
    monkeypatch.setattr(checkpoint, "MOST_JSON", 5)
    with pytest.raises(UsageError, match="is larger than"):
        checkpoint.read_state(tmp_path)
    path.unlink()
    with pytest.raises(UsageError, match="cannot read"):
        checkpoint.read_state(tmp_path)


@pytest.mark.parametrize(
    "note",
    ["{", "[]", '{"score": 1}', '{"checkpoint": "step-00000001", "score": NaN}', '{"checkpoint": 3, "score": 1}'],
)
def test_a_damaged_note_of_the_best_is_forgotten(tmp_path, note):
    folder = save(tmp_path, 1)
    checkpoint.set_best(tmp_path, folder, 0.5, {"n": 3})
    assert checkpoint.best(tmp_path) == {"checkpoint": folder.name, "score": 0.5, "measured": {"n": 3}}
    (tmp_path / "best.json").write_text(note)
    assert checkpoint.best(tmp_path) is None
    for step in (2, 3, 4):
        save(tmp_path, step)
    assert [path.name for path in checkpoint.all_in(tmp_path)] == ["step-00000003", "step-00000004"]


def test_shapes_are_read_from_the_header(tmp_path):
    folder = save(tmp_path, 1)
    assert checkpoint.read_shapes(folder, "model") == {"w": (4000,), "b": (7,)}
    with pytest.raises(UsageError, match=r"has no ema\.safetensors"):
        checkpoint.read_shapes(folder, "ema")
    (folder / "model.safetensors").write_bytes(b"nothing")
    for read in (checkpoint.read_shapes, checkpoint.read_tensors):
        with pytest.raises(UsageError, match=r"model\.safetensors is damaged"):
            read(folder, "model")
