"""A checkpoint: a folder of safetensors and JSON with a sha256 manifest, written atomically.

    step-00001000/
      config.json         the RunConfig
      state.json          step, samples seen, sha256 of the data
      ema.safetensors     the averaged weights, for sampling
      model.safetensors   the weights in training
      optim.safetensors   the optimizers' state
      <name>.safetensors  further frozen modules (a teacher)
      tokenizer.json ...  small files of the task, needed to read samples
      manifest.json       sha256 of every other file

Several processes write it together, each its pieces of every part: ema-00001.safetensors, ema-00002.safetensors ...
(parts.py, together.py); a reader gets a whole part, or the requested rows.

A checkpoint is written under a temporary name, synced, and renamed; an old one is renamed before it is deleted. So a
folder named step-* is always complete, even after a kill. Nothing is unpickled.
"""

import json
import math
import os
import re
import shutil
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from dbtm.checkpoint.parts import Part
from dbtm.core import atomic, process
from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.core.numbers import is_number
from dbtm.tasks.folder import is_prepared

MANIFEST = "manifest.json"
_NAME = re.compile(r"step-(\d{8,18})")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
MOST_JSON = 64 << 20  # bytes


def write(
    folder: Path,
    tensors: dict[str, dict[str, torch.Tensor]],
    documents: dict[str, Any],
    files: Mapping[str, str] | None = None,
) -> Path:
    """Write one checkpoint: {name: tensors} as safetensors, {name: JSON-able or text} as JSON, {file name: text}
    unchanged. Atomic: nothing is left if the disk is full or the process is interrupted.
    """
    temporary = folder.with_name(f".writing-{folder.name}-{own_name()}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        fill(temporary, tensors, documents, files or {})
        put_in_place(temporary, folder)
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).split("\n")[0]
        raise UsageError(
            f"cannot save {folder}: {reason}; earlier checkpoints are unchanged: resume the run from them"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def rewrite(folder: Path, documents: Mapping[str, str]) -> None:
    """Replace {name: text} of a checkpoint's JSON atomically: the other files stay the same."""
    temporary = folder.with_name(f".writing-{folder.name}-{own_name()}")
    manifest = listed(folder, ())
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.copytree(folder, temporary, symlinks=True, copy_function=_link)
        for name, text in documents.items():
            manifest[f"{name}.json"] = _put(temporary / f"{name}.json", text)
        _put(temporary / MANIFEST, json.dumps(manifest, indent=2) + "\n")
        put_in_place(temporary, folder)
    except OSError as error:  # shutil has one without errno
        reason = error.strerror or str(error).split("\n")[0][:200]
        raise UsageError(f"cannot change {folder}: {reason}; it is unchanged") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put(path: Path, text: str) -> str:
    """Replace a hard link by a new file, without changing the other link; return the sha256."""
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")
    return sha256(path)


def _link(source: str, target: str) -> None:
    """A hard link to a file; a copy if the file system has no hard links."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def fill(
    temporary: Path,
    tensors: dict[str, dict[str, torch.Tensor]],
    documents: Mapping[str, Any],
    files: Mapping[str, str],
    known: Mapping[str, str] | None = None,
) -> None:
    """The files of a checkpoint, its manifest last; `known` are the sha256 of files already there."""
    for name, values in tensors.items():
        save_file({k: v.detach().cpu().contiguous() for k, v in values.items()}, temporary / f"{name}.safetensors")
    for name, document in documents.items():
        text = document if isinstance(document, str) else json.dumps(document, indent=2) + "\n"
        (temporary / f"{name}.json").write_text(text, encoding="utf-8")
    for name, text in files.items():
        (temporary / name).write_text(text, encoding="utf-8")
    known = known or {}
    manifest = {path.name: known.get(path.name) or sha256(path) for path in sorted(temporary.iterdir())}
    (temporary / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")


def put_in_place(temporary: Path, folder: Path) -> None:
    """Sync a complete folder and rename it to its name."""
    for path in [*temporary.iterdir(), temporary]:
        atomic.sync(path)
    aside = _step_aside(folder) if folder.exists() else None  # the same step again: a resumed run, or a rewritten one
    try:
        temporary.rename(folder)
    except OSError:
        if aside is not None:
            aside.rename(folder)
        raise
    atomic.sync(folder.parent)
    if aside is not None:
        shutil.rmtree(aside, ignore_errors=True)


def own_name() -> str:
    """This process's name in temporary folders."""
    host = re.sub(r"[^A-Za-z0-9]", "", socket.gethostname())[:40] or "host"
    return f"{host}-{os.getpid()}"


def _dead(leftover: Path) -> bool:
    """Whether the process that wrote a folder is gone. Called only with the run's lock held, so that no process of
    another machine is writing. A process that started after the folder was last written has only got its number.
    """
    host, _, pid = leftover.name.rpartition("-")
    if not host.endswith(own_name().rpartition("-")[0]) or not pid.isdigit():
        return True
    if not process.alive(int(pid)):
        return True
    started = process.started(int(pid))
    try:
        return started is not None and started > leftover.stat().st_mtime + 1
    except OSError:  # it has gone
        return True


def _remove(folder: Path) -> None:
    """Delete a checkpoint; a kill never leaves half of it under its name."""
    shutil.rmtree(_step_aside(folder), ignore_errors=True)


def _step_aside(folder: Path) -> Path:
    """Rename a checkpoint to a temporary name, which is cleaned up later."""
    aside = folder.with_name(f".removing-{folder.name}-{own_name()}")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    return aside


def listed(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """{name: sha256} of a checkpoint's files; an error if one of `names` is missing.

    Names must be of files in the folder itself: no paths, no hidden files.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise UsageError(f"{folder} is not a checkpoint: it has no {MANIFEST}")
    manifest = read_document(path)
    if not isinstance(manifest, dict) or not set(names) <= manifest.keys():
        if is_prepared(folder):
            raise UsageError(f"{folder} is prepared data, not a checkpoint: train a recipe on it")
        raise UsageError(f"{path} is damaged: it does not list the files of a checkpoint")
    for name, digest in manifest.items():
        if not _FILE.fullmatch(name) or name == MANIFEST or not isinstance(digest, str):
            raise UsageError(f"{path} is damaged: {name[:80]!r} is not a file of a checkpoint")
    return manifest


def verify(folder: Path, names: Iterable[str] | None = None, share: tuple[int, int] = (0, 1)) -> None:
    """Refuse a checkpoint with a missing, truncated or altered file, by name, or with a link out of the folder.

    One of n processes that verify it together reads every n-th file: `share` is (its number, n).
    """
    for number, (name, digest) in enumerate(listed(folder, names or ["config.json"]).items()):
        if (names is not None and name not in names) or number % share[1] != share[0]:
            continue
        path = folder / name
        if not path.is_file():
            raise UsageError(f"{folder} is damaged: {name} is missing")
        if path.is_symlink() and path.resolve().parent != folder.resolve():
            raise UsageError(f"{path} is a link out of the checkpoint: copy the file itself")
        if sha256(path) != digest:
            raise UsageError(f"{path} is damaged: its sha256 is not the one in {MANIFEST}")


def read_document(path: Path) -> Any:
    """Read a JSON file; an error if it is not JSON."""
    try:
        if path.stat().st_size > MOST_JSON:
            raise UsageError(f"{path} is damaged: it is larger than {MOST_JSON >> 20} MiB")
        return json.loads(path.read_text(encoding="utf-8"))
    except UsageError:
        raise
    except (ValueError, RecursionError):  # also a number of thousands of digits
        raise UsageError(f"{path} is damaged: it is not JSON") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def read_shapes(folder: Path, name: str) -> dict[str, tuple[int, ...]]:
    """{name: shape} of a file of tensors, from its header."""
    with Part(folder, name) as part:
        return part.shapes()


def read_tensors(folder: Path, name: str, device: str | torch.device = "cpu") -> dict[str, torch.Tensor]:
    """A whole part of a checkpoint, from one or several files."""
    with Part(folder, name) as part:
        return {key: part.read(key, device=device) for key in part.entries}


def read_state(folder: Path) -> dict[str, Any]:
    """state.json: step, samples seen, sha256 of the data."""
    state = read_document(folder / "state.json")
    if not isinstance(state, dict) or not isinstance(state.get("step"), int) or state["step"] < 0:
        raise UsageError(f"{folder / 'state.json'} is damaged: it has no step")
    return state


def all_in(run: Path) -> list[Path]:
    """Complete checkpoints of a run, oldest first."""
    folders = [p for p in run.glob("step-*") if p.is_dir() and _NAME.fullmatch(p.name) and (p / MANIFEST).is_file()]
    return sorted(folders, key=step_of)


def step_of(folder: Path) -> int:
    match = _NAME.fullmatch(folder.name)
    return int(match.group(1)) if match else -1


def latest(run: Path) -> Path | None:
    """The newest checkpoint of a run."""
    folders = all_in(run)
    return folders[-1] if folders else None


def set_best(run: Path, folder: Path, score: float, measured: dict[str, Any]) -> None:
    """Record a checkpoint as the run's best, with its score and the way it was measured."""
    _write_note(run / "best.json", {"checkpoint": folder.name, "score": score, "measured": measured})


def best(run: Path) -> dict[str, Any] | None:
    """{'checkpoint': name, 'score': number, 'measured': how} of the run's best, if known."""
    note = _read_note(run / "best.json")
    score = note.get("score") if note else None
    return note if is_number(score) else None


def set_steady(run: Path, folder: Path, lowest: float, terms: list[str]) -> None:
    """Record a checkpoint as the last one before the loss rose above its lowest."""
    finite = lowest if math.isfinite(lowest) else None
    _write_note(run / "steady.json", {"checkpoint": folder.name, "lowest": finite, "terms": terms})


def steady(run: Path) -> dict[str, Any] | None:
    """{'checkpoint': name, 'lowest': loss, 'terms': its parts} of the last one before the loss rose."""
    note = _read_note(run / "steady.json")
    if note is None or not isinstance(note.get("terms"), list):
        return None
    lowest = note.get("lowest")
    return note | {"lowest": lowest if is_number(lowest) else math.inf}


def _write_note(path: Path, note: dict[str, Any]) -> None:
    atomic.write_bytes(path, (json.dumps(note) + "\n").encode())


def _read_note(path: Path) -> dict[str, Any] | None:
    """A note on a checkpoint of the run. A damaged one is ignored: it will be rewritten."""
    if not path.is_file():
        return None
    try:
        note = read_document(path)
    except UsageError:
        return None
    return note if isinstance(note, dict) and isinstance(note.get("checkpoint"), str) else None


def prune(run: Path, keep: int, milestones: Iterable[int] = ()) -> None:
    """Keep the last `keep`, the best, the steady one and the milestones; remove leftovers of dead processes. Call it
    only with the run's lock held.
    """
    noted = {note["checkpoint"] for note in (best(run), steady(run)) if note}
    named = set(milestones)
    for folder in all_in(run)[:-keep]:
        if step_of(folder) not in named and folder.name not in noted:
            _remove(folder)
    for leftover in [*run.glob(".writing-step-*"), *run.glob(".removing-step-*")]:
        if _dead(leftover):
            shutil.rmtree(leftover, ignore_errors=True)
    for leftover in run.glob(".*.json.*.part"):  # notes are written only with the lock held
        leftover.unlink(missing_ok=True)


def find(path: str | Path) -> Path:
    """A checkpoint folder from a user's path: the folder itself, or the newest one of a run."""
    folder = Path(path)
    if (folder / MANIFEST).is_file():
        return folder
    if not folder.exists():
        raise UsageError(f"no such checkpoint: {folder}")
    newest = latest(folder) if folder.is_dir() else None
    if newest is None:
        raise UsageError(
            f"{folder} is not a checkpoint: expected a folder with {MANIFEST}, or a run with step-* folders"
        )
    return newest
