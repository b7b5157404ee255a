"""A text model that has learned nothing, of a task of the tests' own, and a judge that is a few random numbers."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from dbtm.config import ModelConfig, PathConfig, RunConfig, dumps
from dbtm.nn import TransportMap
from dbtm.tasks.base import Task, register
from dbtm.train import checkpoint

ALPHABET = "abcdefghijklmnopqrstuvwxyz "


@register
@dataclass(frozen=True)
class Letters(Task):
    """One token a letter, and a last one that ends a text."""

    name = "letters-of-the-tests"
    vocab: int = len(ALPHABET) + 1
    length: int = 12
    blocks: int = 6

    @property
    def held_out(self) -> np.ndarray:
        return np.random.default_rng(0).integers(0, self.vocab, (self.blocks, self.length))

    def decode(self, tokens_BL):
        return ["".join([*ALPHABET, "<|endoftext|>"][t] for t in row) for row in tokens_BL]


def write_model(folder: Path, seed: int = 0, blocks: int = 6) -> Path:
    task = Letters(blocks=blocks)
    sizes = ModelConfig(
        vocab=task.vocab, length=task.length, width=16, depth=1, heads=2, quality_width=8, quality_heads=2
    )
    torch.manual_seed(seed)
    model = TransportMap(sizes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    config = RunConfig(recipe="test", task=task, model=sizes, path=PathConfig(sigma=1.25))
    return checkpoint.write(folder, {"ema": model.state_dict()}, {"config": dumps(config)})
