"""The folder of a prepared set, written atomically: it appears only when it is complete."""

import contextlib
import glob
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dbtm.core import atomic, process
from dbtm.core.errors import UsageError
from dbtm.core.signals import leave_on

MANIFEST = "manifest.json"
MOST_MANIFEST = 64 << 20  # bytes
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


def check_out(out: Path, force: bool) -> None:
    """Refuse a folder that cannot be written, before any work starts; only a prepared set is overwritten."""
    if not out.name or out.name == "..":
        raise UsageError(f"{out}: give the name of a new folder")
    if not out.parent.is_dir():
        raise UsageError(f"{out}: there is no folder {out.parent}: make it first")
    recover(out)
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not is_prepared(out):
        raise UsageError(f"{out} exists and is not prepared text or problems: choose another name")
    if not force:
        raise UsageError(f"{out} exists: choose another name, or force overwriting")
    others = (path.name for path in out.iterdir() if path.suffix != ".bin")
    if foreign := sorted({*others} - {MANIFEST, "tokenizer.json"}):
        raise UsageError(f"{out} has other files than prepared data: move {foreign[0]} away, or choose another name")


def is_prepared(folder: Path) -> bool:
    """A checkpoint also has a manifest, but without these sizes."""
    try:
        manifest = read_manifest(folder)
    except (OSError, ValueError):
        return False
    return {"vocab", "length"} <= manifest.keys()


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a prepared set; an OSError if there is none, a ValueError if it is damaged."""
    path = folder / MANIFEST
    if path.stat().st_size > MOST_MANIFEST:
        raise ValueError(f"it has more than {MOST_MANIFEST >> 20} MiB")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None
    if not isinstance(manifest, dict):
        raise ValueError("it is not a JSON object")
    return manifest


def whole_number(values: Any, name: str, low: int, high: int) -> int:
    """values[name], an integer in a range; else a ValueError names it."""
    value = values.get(name) if isinstance(values, dict) else None
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{name} must be a whole number from {low} to {high}")
    return value


def file_name(value: Any) -> str:
    """The name of a file in the folder itself; a ValueError if it is a path, or hidden."""
    if not isinstance(value, str) or not _FILE.fullmatch(value):
        raise ValueError(f"{str(value)[:80]!r} is not a file of a prepared set")
    return value


@contextmanager
def published(out: Path) -> Iterator[Path]:
    """A temporary folder that becomes `out` at the end; it is removed on an error, an interrupt or a signal."""
    temporary = _temporary(out)
    try:
        with leave_on("SIGTERM", "SIGHUP"):
            temporary.mkdir()
            yield temporary
            _publish(temporary, out)
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _temporary(out: Path) -> Path:
    """A temporary folder beside `out`; those of killed processes are removed."""
    recover(out)
    for leftover in out.parent.glob(f".{glob.escape(out.name)}.*.part"):
        pid = leftover.name.removesuffix(".part").rpartition(".")[2]
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(leftover, ignore_errors=True)
    return out.with_name(f".{out.name}.{os.getpid()}.part")


def _alive(pid: int) -> bool:
    return pid != os.getpid() and process.alive(pid)


def recover(out: Path) -> None:
    """Restore a set that was moved aside for a new one, if the process was killed between the two renames.

    Called whenever a set is opened or written, so that it is never missing.
    """
    if os.path.lexists(out):
        return
    for aside in sorted(out.parent.glob(f".{glob.escape(out.name)}.old.*.part")):
        pid = aside.name.removesuffix(".part").rpartition(".")[2]
        if pid.isdigit() and not _alive(int(pid)) and is_prepared(aside):
            with contextlib.suppress(OSError):  # another process was faster, or the folder is not writable
                aside.rename(out)
            return


def _publish(temporary: Path, out: Path) -> None:
    """Sync everything and rename; an old set is moved aside first (`recover` restores it after a kill)."""
    for path in [*temporary.iterdir(), temporary]:
        atomic.sync(path)
    aside = out.with_name(f".{out.name}.old.{os.getpid()}.part")
    if out.exists():
        out.rename(aside)
    try:
        temporary.rename(out)
    except BaseException:
        if aside.exists():
            aside.rename(out)
        raise
    shutil.rmtree(aside, ignore_errors=True)
