"""Micro-batches of a step: their rows of the data and random numbers depend only on (seed, step, sample)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from dbtm.config import RunConfig, TrainConfig
from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.methods.base import Examples
from dbtm.tasks.base import Task


@dataclass(frozen=True)
class Split:
    """How a batch is split: each of `size` processes runs `micro_batches` of `micro_size` rows per step."""

    micro_batches: int
    micro_size: int
    rank: int
    size: int

    @classmethod
    def of(cls, train: TrainConfig, rank: int, size: int) -> "Split":
        per_device, rest = divmod(train.batch, size)
        micro = train.micro_batch or per_device
        if rest or per_device % micro:
            raise UsageError(
                f"train.batch={train.batch} does not split into {size} device(s) x micro-batches of {micro}: "
                "make it per-device batch x devices x accumulation"
            )
        return cls(per_device // micro, micro, rank, size)


def micro_batches(
    config: RunConfig, prepare: Callable[[Examples], Examples], split: Split, first_step: int, device: torch.device
) -> Iterator[list[Examples]]:
    """The micro-batches of every step from `first_step` on; `prepare` is the method's work on them ahead of time.

    Global sample g = step * batch + i; micro-batch m of a step has rows [m * micro, (m + 1) * micro) and runs on rank
    m mod world. So one device with two accumulation steps has the same micro-batches as two devices.
    """
    train, task = config.train, config.task
    for step in range(first_step, train.steps):
        out, targets = [], 0
        for accumulation in range(split.micro_batches):
            m = accumulation * split.size + split.rank
            index = step * train.batch + m * split.micro_size + np.arange(split.micro_size)
            batch = task.batch(index)
            prompt = np.zeros(batch.tokens.shape, dtype=bool) if batch.prompt is None else batch.prompt
            arrays = (np.asarray(batch.tokens, dtype=np.int64), prompt)
            key_B = rng.fold(train.seed, step, torch.from_numpy(index))
            place_B = torch.from_numpy(index - step * train.batch)
            step_B = rng.fold(train.seed, step, -1).expand(len(key_B)).contiguous()
            tensors = (*(torch.from_numpy(np.ascontiguousarray(a)) for a in arrays), key_B, place_B, step_B)
            cuda = device.type == "cuda"  # elsewhere the source may be freed too early (pytorch#189690)
            tokens, mask, keys, place, step_key = (t.to(device, non_blocking=cuda) for t in tensors)
            seed = int(key_B[0]) & (2**63 - 1)
            examples = Examples(tokens, mask, keys, step, dropout_seed=seed, place=place, step_key=step_key)
            targets += int((~prompt).sum())
            out.append(prepare(examples))
        share = torch.tensor(targets / split.micro_batches, dtype=torch.float32, device=device)
        yield [replace(examples, targets=share) for examples in out]


def check_batch(task: Task) -> None:
    """Refuse a task whose examples have a wrong shape, before anything is written."""
    batch = task.batch(np.arange(2))
    tokens, prompt = np.asarray(batch.tokens), batch.prompt
    where = f"task '{task.name}': batch(index)"
    if tokens.shape != (2, task.length) or tokens.dtype.kind not in "iu":
        raise UsageError(f"{where} must give integers (B, {task.length}), not {tokens.dtype} {tokens.shape}")
    if tokens.min() < 0 or tokens.max() >= task.vocab:
        raise UsageError(f"{where} gives a token outside 0..{task.vocab - 1}")
    if prompt is not None and (np.asarray(prompt).shape != tokens.shape or np.asarray(prompt).dtype != bool):
        raise UsageError(f"{where} must give its prompt mask as booleans (B, {task.length})")
