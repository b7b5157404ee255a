"""Asynchronous checkpoints by several processes: PyTorch's distributed checkpoint in safetensors files, in our folder
with our manifest.

Each process copies its share of the state to the CPU and hands it to a thread. The threads agree on who writes what
(replicated tensors once), write one file per part each, sync and hash them; the first process adds the small files and
the manifest and renames the folder. A process that dies meanwhile leaves a folder under a temporary name.
"""

import logging
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from dbtm.checkpoint import folder as checkpoint
from dbtm.core import atomic
from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError


class SharedFolder:
    """Writes a run's checkpoints, one at a time. `group` is used only by the writing threads: gloo."""

    def __init__(self, group: dist.ProcessGroup):
        self.group, self.first = group, dist.get_rank() == 0
        name = [checkpoint.own_name()]
        dist.broadcast_object_list(name, group=group)
        self.name: str = name[0]  # of the first process, which cleans up after itself
        self.thread: threading.Thread | None = None
        self.failed: BaseException | None = None

    def write(
        self,
        folder: Path,
        tensors: Mapping[str, Mapping[str, Tensor]],
        documents: Mapping[str, Any],
        files: Mapping[str, str],
    ) -> None:
        """Copy all that is to be written, and return; called on every process."""
        self.wait()
        staged = {part: {key: _copied(value) for key, value in values.items()} for part, values in tensors.items()}
        self.thread = threading.Thread(
            target=self._write, args=(folder, staged, documents, files), name="checkpoint", daemon=True
        )
        self.thread.start()

    def wait(self) -> None:
        """Wait for the last checkpoint; its errors are raised here."""
        if self.thread is not None:
            self.thread.join()
            self.thread = None
        if self.failed is not None:
            failed, self.failed = self.failed, None
            raise failed

    def _write(self, folder: Path, staged: dict, documents: Mapping[str, Any], files: Mapping[str, str]) -> None:
        temporary = folder.with_name(f".writing-{folder.name}-{self.name}")
        try:
            if self.first:
                temporary.parent.mkdir(parents=True, exist_ok=True)
                shutil.rmtree(temporary, ignore_errors=True)
                temporary.mkdir()
            dist.barrier(self.group)
            _save(staged, temporary, self.group)
            self._finish(folder, temporary, list(staged), documents, files)
        except Exception as error:
            reason = getattr(error, "strerror", None) or str(error).strip().split("\n")[-1]
            self.failed = UsageError(
                f"cannot save {folder}: {reason}; earlier checkpoints are unchanged: resume the run from them"
            )
            if self.first:
                shutil.rmtree(temporary, ignore_errors=True)

    def _finish(
        self, folder: Path, temporary: Path, parts: list[str], documents: Mapping[str, Any], files: Mapping[str, str]
    ) -> None:
        """Name, sync and hash this process's files; the first process renames the folder."""
        rank = dist.get_rank(self.group) + 1
        mine: dict[str, str] = {}
        for number, part in enumerate(parts, 1):
            written = temporary / f"shard-{rank:05d}-model-{number:05d}-of-{len(parts):05d}.safetensors"
            if written.is_file():
                path = written.rename(temporary / f"{part}-{rank:05d}.safetensors")
                atomic.sync(path)
                mine[path.name] = sha256(path)
        everyone: list[Any] = [None] * dist.get_world_size(self.group)
        dist.all_gather_object(everyone, mine, group=self.group)
        if self.first:
            digests = {name: digest for each in everyone for name, digest in each.items()}
            checkpoint.fill(temporary, {}, documents, files, digests)
            checkpoint.put_in_place(temporary, folder)
        dist.barrier(self.group)


def _save(staged: dict[str, dict[str, Tensor]], temporary: Path, group: dist.ProcessGroup) -> None:
    """Write one file per process and part with PyTorch."""
    import torch.distributed.checkpoint as dcp

    flat = {f"{part}/{key}": value for part, values in staged.items() for key, value in values.items()}
    number = {part: index for index, part in enumerate(staged, 1)}
    logging.getLogger("torch.distributed.checkpoint").setLevel(logging.ERROR)
    writer = dcp.HuggingFaceStorageWriter(
        path=str(temporary),
        fqn_to_index_mapping={key: number[key.split("/")[0]] for key in flat},
        save_distributed=True,
    )
    dcp.save(flat, storage_writer=writer, process_group=group)


def _copied(value: Tensor) -> Tensor:
    """A copy on the CPU, independent of training."""
    value = value.detach()
    return value.cpu() if value.device.type != "cpu" else value.clone()


def whole(value: Tensor) -> Tensor:
    """A tensor's values from all devices, on all of them."""
    return value.full_tensor() if hasattr(value, "full_tensor") else torch.as_tensor(value)
