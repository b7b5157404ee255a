"""A checkpoint: a folder of safetensors and JSON with a sha256 manifest, written whole or not at all.

    step-00001000/
      config.json         the RunConfig
      state.json          step, samples seen, sha256 of the data
      ema.safetensors     the averaged weights: what is sampled from
      model.safetensors   the weights in training
      optim.safetensors   the optimizers' state
      <name>.safetensors  further frozen modules (a teacher)
      tokenizer.json ...  small files of the task, which it needs to make sense of samples
      manifest.json       sha256 of every other file

Several processes write it together, each its own pieces of every part: ema-00001.safetensors, ema-00002.safetensors ...
(parts.py, together.py); whoever reads a part gets it whole, or the rows asked for.

A checkpoint is written under a temporary name, synced, and renamed; an old one is renamed away before it is deleted.
So a folder named step-* is complete at every moment, whenever the process is killed. Nothing is ever unpickled.
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
    """Write one checkpoint: {name: tensors} as safetensors, {name: JSON-able or text} as JSON, {file name: text} as it
    is. Atomic: where the disk is full, or the process is interrupted, nothing of it is left.
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
            f"cannot save {folder}: {reason}; earlier checkpoints are as they were, the run can be resumed from them"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def rewrite(folder: Path, documents: Mapping[str, str]) -> None:
    """Replace {name: text} of a checkpoint's JSON: a folder of the same files otherwise takes its place, whole."""
    temporary = folder.with_name(f".writing-{folder.name}-{own_name()}")
    manifest = listed(folder, ())
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.copytree(folder, temporary, symlinks=True, copy_function=_link)
        for name, text in documents.items():
            manifest[f"{name}.json"] = _put(temporary / f"{name}.json", text)
        _put(temporary / MANIFEST, json.dumps(manifest, indent=2) + "\n")
        put_in_place(temporary, folder)
    except OSError as error:  # of which shutil has one without a number
        reason = error.strerror or str(error).split("\n")[0][:200]
        raise UsageError(f"cannot change {folder}: {reason}; it is as it was") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _put(path: Path, text: str) -> str:
    """Write a file in the place of a link, whose other name keeps what it had; its sha256."""
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")
    return sha256(path)


def _link(source: str, target: str) -> None:
    """The same file under a second name; a copy where the file system has no such links."""
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
    """The files of a checkpoint, its manifest last; `known` are the sha256 of files that lie there already."""
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
    """Sync a complete folder and give it its name."""
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
    """Of this process, for folders that it is at work on."""
    host = re.sub(r"[^A-Za-z0-9]", "", socket.gethostname())[:40] or "host"
    return f"{host}-{os.getpid()}"


def _dead(leftover: Path) -> bool:
    """Whether the process that was at work on a folder is gone. Only called by who holds the run's lock, so that a
    process of another machine cannot be at work.
    """
    host, _, pid = leftover.name.rpartition("-")
    if not host.endswith(own_name().rpartition("-")[0]) or not pid.isdigit():
        return True
    return not process.alive(int(pid))


def _remove(folder: Path) -> None:
    """Delete a checkpoint so that a kill on the way never leaves half of it under its name."""
    shutil.rmtree(_step_aside(folder), ignore_errors=True)


def _step_aside(folder: Path) -> Path:
    """Rename a checkpoint to something that is swept up."""
    aside = folder.with_name(f".removing-{folder.name}-{own_name()}")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    return aside


def listed(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """{name: sha256} of a checkpoint's files, refused where one of `names` is not among them.

    Names are those of files in the folder itself: no paths, no hidden files.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise UsageError(f"{folder} is not a checkpoint: it has no {MANIFEST}")
    manifest = read_document(path)
    if not isinstance(manifest, dict) or not set(names) <= manifest.keys():
        if is_prepared(folder):
            raise UsageError(f"{folder} is prepared data, not a checkpoint: a recipe can be trained on it")
        raise UsageError(f"{path} is damaged: it does not list the files of a checkpoint")
    for name, digest in manifest.items():
        if not _FILE.fullmatch(name) or name == MANIFEST or not isinstance(digest, str):
            raise UsageError(f"{path} is damaged: {name[:80]!r} is not a file of a checkpoint")
    return manifest


def verify(folder: Path, names: Iterable[str] | None = None, share: tuple[int, int] = (0, 1)) -> None:
    """Refuse a checkpoint with a missing, truncated or altered file, by name; no link may lead out of the folder.

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
    """A JSON file, refused in a line where it is none."""
    try:
        if path.stat().st_size > MOST_JSON:
            raise UsageError(f"{path} is damaged: no such file of a checkpoint is larger than {MOST_JSON >> 20} MiB")
        return json.loads(path.read_text(encoding="utf-8"))
    except UsageError:
        raise
    except (ValueError, RecursionError):  # also a number of thousands of digits
        raise UsageError(f"{path} is damaged: it is not JSON") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def read_shapes(folder: Path, name: str) -> dict[str, tuple[int, ...]]:
    """{name: shape} of a file of tensors, from its header alone."""
    with Part(folder, name) as part:
        return part.shapes()


def read_tensors(folder: Path, name: str, device: str | torch.device = "cpu") -> dict[str, torch.Tensor]:
    """A part of a checkpoint, whole, however many files it lies in."""
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
    """Remember a checkpoint as the run's best, by a score that was measured in this way."""
    _write_note(run / "best.json", {"checkpoint": folder.name, "score": score, "measured": measured})


def best(run: Path) -> dict[str, Any] | None:
    """{'checkpoint': name, 'score': number, 'measured': how} of the run's best, where one is known."""
    note = _read_note(run / "best.json")
    score = note.get("score") if note else None
    return note if is_number(score) else None


def set_steady(run: Path, folder: Path, lowest: float, terms: list[str]) -> None:
    """Remember a checkpoint as the last one from before the loss rose above its lowest."""
    finite = lowest if math.isfinite(lowest) else None
    _write_note(run / "steady.json", {"checkpoint": folder.name, "lowest": finite, "terms": terms})


def steady(run: Path) -> dict[str, Any] | None:
    """{'checkpoint': name, 'lowest': loss, 'terms': its parts} of the last one from before the loss rose."""
    note = _read_note(run / "steady.json")
    if note is None or not isinstance(note.get("terms"), list):
        return None
    lowest = note.get("lowest")
    return note | {"lowest": lowest if is_number(lowest) else math.inf}


def _write_note(path: Path, note: dict[str, Any]) -> None:
    atomic.write_bytes(path, (json.dumps(note) + "\n").encode())


def _read_note(path: Path) -> dict[str, Any] | None:
    """A note on a checkpoint of the run. A damaged one is forgotten: it will be written anew."""
    if not path.is_file():
        return None
    try:
        note = read_document(path)
    except UsageError:
        return None
    return note if isinstance(note, dict) and isinstance(note.get("checkpoint"), str) else None


def prune(run: Path, keep: int, milestones: Iterable[int] = ()) -> None:
    """Keep the last `keep`, the best, the steady one and the milestones; sweep up what dead processes left. For who
    holds the run's lock.
    """
    noted = {note["checkpoint"] for note in (best(run), steady(run)) if note}
    named = set(milestones)
    for folder in all_in(run)[:-keep]:
        if step_of(folder) not in named and folder.name not in noted:
            _remove(folder)
    for leftover in [*run.glob(".writing-step-*"), *run.glob(".removing-step-*")]:
        if _dead(leftover):
            shutil.rmtree(leftover, ignore_errors=True)
    for leftover in run.glob(".*.json.*.part"):  # notes, which only the holder of the lock writes
        leftover.unlink(missing_ok=True)


def find(path: str | Path) -> Path:
    """A checkpoint folder from what a user names: the folder itself, or a run, of which the newest is taken."""
    folder = Path(path)
    if (folder / MANIFEST).is_file():
        return folder
    if not folder.exists():
        raise UsageError(f"no such checkpoint: {folder}")
    newest = latest(folder) if folder.is_dir() else None
    if newest is None:
        raise UsageError(
            f"{folder} holds no checkpoint: expected a folder with {MANIFEST}, or a run with step-* folders"
        )
    return newest
