"""The folder of a prepared set: it appears when it is complete and not before, whatever ends the work on it."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dbtm.core import atomic
from dbtm.core.errors import UsageError
from dbtm.core.signals import leave_on

MANIFEST = "manifest.json"


def check_out(out: Path, force: bool) -> None:
    """Refuse a folder that cannot be written before any work is done for it; only a prepared set is overwritten."""
    if not out.name or out.name == "..":
        raise UsageError(f"{out}: give the folder a name of its own")
    if not out.parent.is_dir():
        raise UsageError(f"{out}: there is no folder {out.parent}: make it first")
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not is_prepared(out):
        raise UsageError(f"{out} exists and is not prepared text or problems: choose another name")
    if not force:
        raise UsageError(f"{out} exists: choose another name, or force it to be overwritten")
    others = (path.name for path in out.iterdir() if path.suffix != ".bin")
    if foreign := sorted({*others} - {MANIFEST, "tokenizer.json"}):
        raise UsageError(f"{out} holds more than prepared data: move {foreign[0]} away, or choose another name")


def is_prepared(folder: Path) -> bool:
    """A checkpoint, for one, has a manifest too, but not with these sizes."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and {"vocab", "length"} <= manifest.keys()


@contextmanager
def published(out: Path) -> Iterator[Path]:
    """A folder to write to, which becomes `out` at the end; on an error, an interrupt or a signal nothing is left."""
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
    """A folder beside `out`; what killed processes left of theirs is swept up."""
    for leftover in out.parent.glob(f".{out.name}.*.part"):
        pid = leftover.name.removesuffix(".part").rpartition(".")[2]
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(leftover, ignore_errors=True)
    return out.with_name(f".{out.name}.{os.getpid()}.part")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # someone else's process
        return True
    return pid != os.getpid()


def _publish(temporary: Path, out: Path) -> None:
    """Sync everything and rename; an old set steps aside first."""
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
