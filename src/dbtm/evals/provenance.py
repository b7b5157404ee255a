"""Machine and code of a measurement: part of every JSON with numbers."""

import datetime
import os
import platform
import subprocess
from pathlib import Path

import torch

from dbtm.train.team import current


def made(device: torch.device) -> dict[str, str | None]:
    """The machine, the code, and now."""
    return {**machine(device), "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}


def machine(device: torch.device) -> dict[str, str | None]:
    """The machine and the code, without the time."""
    team = current()
    devices = "" if team is None else f"{team.size} x "
    return {"hardware": devices + hardware(device), "torch": torch.__version__, "commit": commit()}


def hardware(device: torch.device) -> str:
    """The name of the processor."""
    if device.type == "cuda":
        return f"cuda: {torch.cuda.get_device_name(device)}"
    return f"cpu: {_processor()}, {torch.get_num_threads()} of {os.cpu_count()} cores"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def commit() -> str | None:
    """The commit of the running code, with `-dirty` if it has changes; None outside its own repository."""
    package = Path(__file__).parents[1] / "__init__.py"

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(package.parent), *words], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        # An installed copy may lie in another project's repository, whose commit means nothing here.
        git("ls-files", "--error-unmatch", package.name)
        return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*")
    except (OSError, subprocess.SubprocessError):
        return None
