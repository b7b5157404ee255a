"""Checkpoints of every method that are quick to load and have learned nothing, and a text task of the tests' own."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from dbtm.checkpoint import folder as checkpoint
from dbtm.config import ModelConfig, RunConfig, dumps, override
from dbtm.methods.base import method_of
from dbtm.methods.dbtm import Config, PathConfig, QualityConfig
from dbtm.recipes import recipe
from dbtm.sampling import Sampler
from dbtm.tasks.base import Batch, Task, register
from dbtm.tasks.toy import Markov

METHODS = ("dbtm", "mdlm", "ar")
SIZES = ["model.width=16", "model.depth=1", "model.heads=2"]
ALPHABET = "abcdefghijklmnopqrstuvwxyz "


@register
@dataclass(frozen=True)
class TinyLetters(Task):
    """One token a letter, and a last one that ends a text."""

    name = "tiny-letters-of-the-tests"
    vocab: int = len(ALPHABET) + 1
    length: int = 12
    blocks: int = 6

    @property
    def held_out(self) -> np.ndarray:
        return np.random.default_rng(0).integers(0, self.vocab, (self.blocks, self.length))

    def held_out_examples(self, n: int) -> Batch | None:
        return Batch(self.held_out[:n]) if self.blocks else None

    def decode(self, tokens_BL):
        return ["".join([*ALPHABET, "<|endoftext|>"][t] for t in row) for row in tokens_BL]


def random_network(config: RunConfig, seed: int = 0):
    """Every weight random: a fresh head is zero, and every answer would be the same."""
    torch.manual_seed(seed)
    network = method_of(config).start().network
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return network.eval()


def random_sampler(config: RunConfig, seed: int = 0, batch: int = 3) -> Sampler:
    return method_of(config).sampler(random_network(config, seed), batch=batch)


def write_checkpoint(config: RunConfig, folder: Path, seed: int = 0) -> Path:
    weights = {"ema": random_network(config, seed).state_dict()}
    return checkpoint.write(folder / "step-00000001", weights, {"config": dumps(config)})


def letters(method: str = "dbtm", blocks: int = 6) -> RunConfig:
    config = RunConfig(
        recipe="test",
        task=TinyLetters(blocks=blocks),
        model=ModelConfig(width=16, depth=1, heads=2),
        method=Config(path=PathConfig(sigma=1.25), quality=QualityConfig(width=8, heads=2)),
        sample=method_of(recipe("markov")).Options(),
    )
    return config.by(method)


def mini_sudoku(method: str = "dbtm") -> RunConfig:
    """4 x 4, with a pool small enough to make at once."""
    return override(recipe("sudoku-mini").by(method), [*SIZES, "task.pool=50"])


def chain(method: str, length: int = 4, vocab: int = 3) -> RunConfig:
    config = recipe("markov").by(method).on(Markov(vocab=vocab, length=length))
    return override(config, SIZES)
