"""Sizes of the recipe `own`, and which of them suits a machine and its data."""

from dataclasses import dataclass

import torch

from dbtm.core.errors import UsageError, nearest


@dataclass(frozen=True)
class Size:
    """A network, and the rows per step that it learns fastest with on its kind of machine."""

    width: int
    depth: int
    heads: int
    batch: int
    threads: int = 0
    """On a CPU: several threads would wait for each other longer than they compute on matrices of the smallest size."""


SIZES = {
    "tiny": Size(64, 4, 4, 128, threads=1),
    "small": Size(128, 6, 4, 128),
    "medium": Size(256, 6, 8, 256),
    "large": Size(512, 8, 8, 256),
}
MANY = 20_000_000  # tokens of data that a large network does not learn by heart at once


def auto(tokens: int, device: torch.device) -> str:
    """On a CPU what trains in minutes; on a GPU by how much data there is."""
    if device.type == "cpu":
        return "tiny"
    if device.type != "cuda":
        return "small"
    return "large" if tokens >= MANY else "medium"


def changes(size: str, tokens: int, device: torch.device) -> list[str]:
    """The settings of a size, as section.key=value."""
    if size != "auto" and size not in SIZES:
        raise UsageError(f"size {size} is not a choice{nearest(size, ['auto', *SIZES])}")
    chosen = SIZES[auto(tokens, device) if size == "auto" else size]
    model = {"model.width": chosen.width, "model.depth": chosen.depth, "model.heads": chosen.heads}
    train = {"train.batch": chosen.batch, "train.threads": chosen.threads}
    return [f"{name}={value}" for name, value in {**model, **train}.items()]
