"""Folders that appear when they are complete and not before."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dbtm.core.errors import UsageError
from dbtm.tasks.folder import check_out, published
from tests.processes import PATIENCE

SIZES = json.dumps({"vocab": 8, "length": 4})


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def write(out: Path, text: str) -> None:
    with published(out) as folder:
        assert not out.exists() or (out / "data.bin").read_text() != text
        (folder / "data.bin").write_text(text)
        (folder / "manifest.json").write_text(SIZES)


def test_a_folder_is_replaced_whole(tmp_path):
    for text in ("old", "new"):
        write(tmp_path / "set", text)
        assert names(tmp_path) == ["set"]
        assert (tmp_path / "set" / "data.bin").read_text() == text


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, UsageError])
def test_what_fails_leaves_the_old_one(tmp_path, error):
    def fail() -> None:
        with published(tmp_path / "set") as folder:
            (folder / "data.bin").write_text("new")
            raise error

    write(tmp_path / "set", "old")
    with pytest.raises(error):
        fail()
    assert names(tmp_path) == ["set"]
    assert (tmp_path / "set" / "data.bin").read_text() == "old"


def test_the_old_one_comes_back_when_the_new_one_cannot_be_renamed(tmp_path, monkeypatch):
    write(tmp_path / "set", "old")
    rename = Path.rename

    def full(path, target):
        if path.name == f".set.{os.getpid()}.part":
            raise OSError(28, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(UsageError, match="No space left on device"):
        write(tmp_path / "set", "new")
    assert names(tmp_path) == ["set"]
    assert (tmp_path / "set" / "data.bin").read_text() == "old"


def test_what_the_dead_left_is_swept_up(tmp_path):
    (tmp_path / ".set.999999999.part").mkdir()  # no such process
    (tmp_path / f".set.{os.getppid()}.part").mkdir()  # of one that lives
    (tmp_path / ".other.999999999.part").mkdir()
    write(tmp_path / "set", "new")
    assert names(tmp_path) == sorted([f".set.{os.getppid()}.part", ".other.999999999.part", "set"])


def test_everything_is_synced_before_it_gets_its_name(tmp_path, monkeypatch):
    synced: list[int] = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(os.fstat(file).st_ino), fsync(file))[1])
    write(tmp_path / "set", "new")
    assert {path.stat().st_ino for path in [tmp_path / "set", *(tmp_path / "set").iterdir()]} == set(synced)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_a_terminated_process_leaves_nothing(tmp_path):
    text = (
        "import sys, time\nfrom pathlib import Path\nfrom dbtm.tasks.folder import published\n"
        "with published(Path(sys.argv[1])) as folder:\n"
        "    (folder / 'data').write_text('half')\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", text, tmp_path / "set"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert len(names(tmp_path)) == 1
        process.terminate()
        assert process.wait(PATIENCE) == 143
    assert names(tmp_path) == []


def test_signals_are_handed_back_and_threads_need_none(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    write(tmp_path / "set", "a")
    assert signal.getsignal(signal.SIGTERM) == before
    thread = threading.Thread(target=write, args=(tmp_path / "other", "a"))
    thread.start()
    thread.join()
    assert names(tmp_path) == ["other", "set"]


def test_where_a_set_may_be_written(tmp_path):
    write(tmp_path / "set", "a")
    for name in ("empty", "mine", "checkpoint"):
        (tmp_path / name).mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    (tmp_path / "checkpoint" / "manifest.json").write_text('{"files": {}}')
    for name in ("new", "empty"):
        check_out(tmp_path / name, force=False)
    check_out(tmp_path / "set", force=True)
    write(tmp_path / "lived in", "a")
    for name in ("metrics.jsonl", "step-00000001"):
        (tmp_path / "lived in" / name).mkdir()
    for path, force, words in [
        (tmp_path / "set", False, "force overwriting"),
        (tmp_path / "mine", True, "is not prepared text or problems"),
        (tmp_path / "checkpoint", True, "is not prepared text or problems"),
        (tmp_path / "a" / "b", True, "no folder"),
        (Path(".."), True, "the name of a new folder"),
        (tmp_path / "lived in", True, "move metrics.jsonl away"),
    ]:
        with pytest.raises(UsageError, match=words):
            check_out(path, force=force)
