"""A file is complete or absent, and on disk before it has its name."""

import json
import os
import tempfile
from io import BytesIO
from pathlib import Path

import pytest

from dbtm.cli import files
from dbtm.core import atomic
from dbtm.core.errors import UsageError


@pytest.mark.parametrize(("name", "error"), [("pathlib.Path.replace", OSError), ("os.fsync", KeyboardInterrupt)])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, name, error):
    path = tmp_path / "e.json"
    files.write_text(path, "old")

    def full(*_):
        raise error(28, "No space left on device")

    monkeypatch.setattr(name, full)
    with pytest.raises(UsageError if error is OSError else error, match="No space left"):
        files.write_text(path, "new")
    assert [p.name for p in tmp_path.iterdir()] == ["e.json"]
    assert path.read_text() == "old"


@pytest.fixture
def order(monkeypatch):
    """The disk operations, in order."""
    done = []
    sync, rename = os.fsync, os.replace

    def told_sync(descriptor):
        done.append("sync")
        sync(descriptor)

    def told_rename(*words, **options):
        done.append("rename")
        rename(*words, **options)

    monkeypatch.setattr(os, "fsync", told_sync)
    monkeypatch.setattr(os, "replace", told_rename)
    return done


def write_best(folder):
    from dbtm.checkpoint.folder import set_best

    set_best(folder, folder / "step-00000001", 0.5, {})


def write_figure(folder):
    from dbtm.viz.theory.figure import Drawing, Setting, save_drawing

    class Blank:
        def savefig(self, to: BytesIO, **_):
            to.write(b"drawn")

    save_drawing("phase", Drawing(Blank(), {}), Setting((0.5, 0.5)), folder)


@pytest.mark.parametrize(
    ("write", "n"),
    [
        (lambda folder: atomic.write_bytes(folder / "a", b"x"), 1),
        (lambda folder: files.write_text(folder / "a", json.dumps({})), 1),
        (write_best, 1),
        (write_figure, 3),
    ],
)
def test_content_is_on_the_disk_before_it_has_its_name(tmp_path, order, write, n):
    write(tmp_path)
    assert order == ["sync", "rename", "sync"] * n
    assert len(list(tmp_path.iterdir())) == n


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").write_text("old")
    (tmp_path / "link").symlink_to("there")
    (tmp_path / "new").symlink_to("nowhere yet")
    for name in ("link", "new"):
        files.write_text(tmp_path / name, "new")
        assert (tmp_path / name).is_symlink()
    assert [(tmp_path / name).read_text() for name in ("there", "nowhere yet")] == ["new", "new"]


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="only Linux has /dev/shm")
def test_a_file_in_memory_is_a_file():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for text in ("old", "new"):
            files.write_text(Path(folder) / "best.json", text)
        assert (Path(folder) / "best.json").read_text() == "new"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_takes_what_it_is_given(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        files.write_text(tmp_path / "pipe", "news")
        assert os.read(reader, 100) == b"news"
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


def test_a_command_does_not_write_over_what_it_reads(tmp_path):
    path = tmp_path / "problems.jsonl"
    path.write_text("{}")
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(UsageError, match="--data and --jsonl name the same file"):
        files.check_all(
            [("--json", None), ("--jsonl", tmp_path / "link")], reads=[("--oracle", None), ("--data", path)]
        )
    files.check_all([("--jsonl", tmp_path / "other")], reads=[("--data", path)])
