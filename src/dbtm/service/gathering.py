"""Gathers a checkpoint that several processes wrote into one with one file per part."""

from pathlib import Path

from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint.loading import find
from dbtm.checkpoint.parts import parts_of
from dbtm.core.errors import UsageError


def gather(source: str | Path, out: Path) -> Path:
    """Write a checkpoint, or the newest of a run, with one file per part; all files are verified."""
    folder = find(source)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists and is not empty: choose another folder")
    checkpoint.verify(folder)
    names = checkpoint.listed(folder, ["config.json"])
    tensors = {part: checkpoint.read_tensors(folder, part) for part in parts_of(names)}
    small = [name for name in names if not name.endswith(".safetensors")]
    files = {name: (folder / name).read_text(encoding="utf-8") for name in small}
    return checkpoint.write(out, tensors, {}, files)
