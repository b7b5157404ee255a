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

A checkpoint is written under a temporary name, synced, and renamed; an old one is renamed away before it is deleted.
So a folder named step-* is complete at every moment, whenever the process is killed. Nothing is ever unpickled.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from dbtm.core import atomic
from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.tasks.folder import is_prepared

MANIFEST = "manifest.json"
_NAME = re.compile(r"step-(\d{8,})")


def write(
    folder: Path,
    tensors: dict[str, dict[str, torch.Tensor]],
    documents: dict[str, Any],
    files: Mapping[str, str] | None = None,
) -> Path:
    """Write one checkpoint: {name: tensors} as safetensors, {name: JSON-able or text} as JSON, {file name: text} as it
    is. Atomic.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f".writing-{folder.name}-{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    for name, values in tensors.items():
        save_file({k: v.detach().cpu().contiguous() for k, v in values.items()}, temporary / f"{name}.safetensors")
    for name, document in documents.items():
        text = document if isinstance(document, str) else json.dumps(document, indent=2) + "\n"
        (temporary / f"{name}.json").write_text(text)
    for name, text in (files or {}).items():
        (temporary / name).write_text(text, encoding="utf-8")
    manifest = {path.name: sha256(path) for path in sorted(temporary.iterdir())}
    (temporary / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    for path in [*temporary.iterdir(), temporary]:
        atomic.sync(path)
    if folder.exists():  # the same step again (a resumed run): the old one steps aside first
        _remove(folder)
    temporary.rename(folder)
    atomic.sync(folder.parent)
    return folder


def _remove(folder: Path) -> None:
    """Delete a checkpoint so that a kill on the way never leaves half of it under its name."""
    aside = folder.with_name(f".removing-{folder.name}-{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def listed(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """{name: sha256} of a checkpoint's files, refused where one of `names` is not among them."""
    path = folder / MANIFEST
    if not path.is_file():
        raise UsageError(f"{folder} is not a checkpoint: it has no {MANIFEST}")
    try:
        manifest = json.loads(path.read_text())
    except json.JSONDecodeError:
        raise UsageError(f"{path} is damaged: it is not JSON") from None
    if not isinstance(manifest, dict) or not set(names) <= manifest.keys():
        if is_prepared(folder):
            raise UsageError(
                f"{folder} is prepared data, not a checkpoint: a recipe can be trained on it"
            )
        raise UsageError(f"{path} is damaged: it does not list the files of a checkpoint")
    return manifest


def verify(folder: Path, names: Iterable[str] | None = None) -> None:
    """Refuse a checkpoint with a missing, truncated or altered file, by name."""
    for name, digest in listed(folder, names or ["config.json"]).items():
        if names is not None and name not in names:
            continue
        if not (folder / name).is_file():
            raise UsageError(f"{folder} is damaged: {name} is missing")
        if sha256(folder / name) != digest:
            raise UsageError(f"{folder / name} is damaged: its sha256 is not the one in {MANIFEST}")


def read_tensors(folder: Path, name: str, device: str | torch.device = "cpu") -> dict[str, torch.Tensor]:
    path = folder / f"{name}.safetensors"
    if not path.is_file():
        raise UsageError(f"{folder} has no {path.name}")
    try:
        return load_file(path, device=str(device))
    except SafetensorError as error:
        raise UsageError(f"{path} is damaged: {error}") from None


def read_json(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text())


def all_in(run: Path) -> list[Path]:
    """Complete checkpoints of a run, oldest first."""
    found = [p for p in run.glob("step-*") if p.is_dir() and _NAME.fullmatch(p.name) and (p / MANIFEST).is_file()]
    return sorted(found, key=step_of)


def step_of(folder: Path) -> int:
    match = _NAME.fullmatch(folder.name)
    return int(match.group(1)) if match else -1


def latest(run: Path) -> Path | None:
    """The newest checkpoint of a run."""
    found = all_in(run)
    return found[-1] if found else None


def set_best(run: Path, folder: Path, score: float, measured: dict[str, Any]) -> None:
    """Remember a checkpoint as the run's best, by a score that was measured in this way."""
    text = json.dumps({"checkpoint": folder.name, "score": score, "measured": measured}) + "\n"
    atomic.write_bytes(run / "best.json", text.encode())


def best(run: Path) -> dict[str, Any] | None:
    """{'checkpoint': name, 'score': number, 'measured': how} of the run's best, where one is known."""
    path = run / "best.json"
    try:
        return json.loads(path.read_text()) if path.is_file() else None
    except json.JSONDecodeError:
        return None  # a damaged note is forgotten; the next evaluation writes it anew


def prune(run: Path, keep: int) -> None:
    """Keep the last `keep` and the best; sweep up what killed processes left."""
    known = best(run)
    for folder in all_in(run)[:-keep]:
        if known is None or folder.name != known["checkpoint"]:
            _remove(folder)
    for leftover in [*run.glob(".writing-step-*"), *run.glob(".removing-step-*")]:
        shutil.rmtree(leftover, ignore_errors=True)


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
