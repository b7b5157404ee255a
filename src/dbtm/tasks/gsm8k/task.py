"""Grade-school maths as a task: given the question, generate the program."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dbtm.core import rng
from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_COUNT
from dbtm.tasks.base import Batch, Task, register
from dbtm.tasks.folder import MANIFEST
from dbtm.tasks.gsm8k.data import Example, read
from dbtm.tasks.gsm8k.layout import Layout, Row
from dbtm.tasks.gsm8k.prepared import TOKENIZER, Prepared

QUICK_SEED = -1  # of its synthetic problems: no --seed of `dbtm eval gsm8k` is negative, so that it asks others
SOURCE, PROBLEM = 0, 1  # streams of random numbers


@register
@dataclass(frozen=True)
class Gsm8k(Task):
    """Examples of a prepared set, drawn with replacement, mixed with synthetic problems generated on the fly."""

    name = "gsm8k"
    evaluation_settings = ("evaluate_data", "evaluate_n")

    data: str = ""
    """Folder of the prepared set."""
    vocab: int = 4096
    """Entries of the tokenizer."""
    length: int = 256
    """Tokens of a question and its program."""
    synthetic: float = 0.0
    """Share of synthetic problems."""
    seed: int = 1
    """Seed of the order and of the synthetic problems."""
    tokenizer: str = ""
    """File of the tokenizer, or its name; empty: the one in `data`."""
    evaluate_data: str = ""
    """Problems of the quick evaluation, JSON lines; empty: held-out synthetic ones."""
    evaluate_n: int = 128
    """Problems of the quick evaluation."""

    def __post_init__(self):
        if self.vocab < 2 or self.length < 4:
            raise UsageError(f"task.vocab={self.vocab} and task.length={self.length} must be at least 2 and 4")
        if not 0 <= self.synthetic <= 1:
            raise UsageError(f"task.synthetic={self.synthetic} must be a share, from 0 to 1")
        if not 1 <= self.evaluate_n <= MOST_COUNT or not 0 <= self.seed < 2**62:
            raise UsageError(
                f"task.evaluate_n={self.evaluate_n} must be from 1 to {MOST_COUNT}, task.seed={self.seed} at least 0"
            )

    # -- data ------------------------------------------------------------------------------------------------------

    @cached_property
    def prepared(self) -> Prepared:
        if not self.data:
            raise UsageError(
                "no problems to train on: prepare some (`dbtm data gsm8k`) and set task.data to the folder"
            )
        prepared = Prepared(self.data)
        if (prepared.vocab, prepared.length) != (self.vocab, self.length):
            raise UsageError(
                f"{self.data} has vocabulary {prepared.vocab} and length {prepared.length}, but "
                f"task.vocab={self.vocab} and task.length={self.length}: prepare it again, or change these settings"
            )
        return prepared

    @cached_property
    def layout(self) -> Layout:
        from dbtm.tasks.text import tokenizer as tokenizers

        if not self.tokenizer and not self.data:
            raise UsageError(
                "no tokenizer: prepare problems (`dbtm data gsm8k`) and set task.data to the folder, or set "
                "task.tokenizer to a tokenizer's file"
            )
        tokenizer = tokenizers.load_file(self.tokenizer or self.data)
        if tokenizers.size(tokenizer) != self.vocab:
            raise UsageError(
                f"the tokenizer in {self.tokenizer or self.data} has {tokenizers.size(tokenizer)} entries, but "
                f"task.vocab={self.vocab}: it belongs to another model"
            )
        return Layout(tokenizer, self.length)

    def batch(self, index: np.ndarray) -> Batch:
        index_B = torch.from_numpy(np.array(index, dtype=np.int64))
        made_B = np.zeros(len(index_B), dtype=bool)
        if self.synthetic:
            made_B = (rng.uniform(rng.fold(self.seed, SOURCE, index_B), 1)[:, 0] < self.synthetic).numpy()
        keys_B = rng.fold(self.seed, PROBLEM, index_B).numpy()
        made = iter(self.made(keys_B[made_B]))
        kept = iter([] if made_B.all() else self.kept(keys_B[~made_B]))
        tokens_BL, prompt_BL = self.layout.fill(next(made) if new else next(kept) for new in made_B)
        return Batch(tokens_BL, prompt_BL)

    def kept(self, keys: np.ndarray) -> list[Row]:
        """Examples of the prepared set, one per key."""
        rows = keys.view(np.uint64) % np.uint64(len(self.prepared))
        return [self.prepared.row(int(row)) for row in rows]

    def made(self, keys: np.ndarray) -> list[Row]:
        """Synthetic problems, one per key; the next key's problem replaces one that is too long."""
        from dbtm.tasks.gsm8k.synthetic import problem

        rows = self.layout.rows([problem(int(key)) for key in keys])
        for i, row in enumerate(rows):
            key = int(keys[i])
            while row is None:
                key += 1
                row = self.layout.rows([problem(key)])[0]
            rows[i] = row
        return [row for row in rows if row is not None]

    def data_sha256(self) -> str:
        return sha256(self.prepared.folder / MANIFEST) if self.data else ""

    # -- problems to solve -----------------------------------------------------------------------------------------

    def given(self, questions: Sequence[str]) -> tuple[dict[str, Any], np.ndarray]:
        """The input of `Sampler.sample` for the questions that leave room for a program, and their indices."""
        prompts = self.layout.prompts(questions)
        fits_B = np.array([len(prompt) < self.length for prompt in prompts], dtype=bool)
        rows = [Row(prompt, len(prompt)) for prompt, fits in zip(prompts, fits_B) if fits]
        tokens_BL, prompt_BL = self.layout.fill(rows)
        return {"tokens": tokens_BL, "clean": prompt_BL}, fits_B

    def programs(self, tokens_BL: np.ndarray, prompt_BL: np.ndarray) -> list[str]:
        """The generated programs of sampled rows."""
        return [self.layout.program(row, int(given.sum())) for row, given in zip(tokens_BL, prompt_BL)]

    def text(self, tokens: np.ndarray) -> str:
        return self.layout.text(np.asarray(tokens))

    def files(self) -> dict[str, str]:
        return {TOKENIZER: self.layout.tokenizer.to_str()}

    def with_files(self, files: Mapping[str, Path]) -> "Gsm8k":
        return replace(self, tokenizer=str(files[TOKENIZER])) if TOKENIZER in files else self

    @cached_property
    def held_out(self) -> list[Example]:
        """Held-out problems of the quick evaluation."""
        from dbtm.tasks.gsm8k.synthetic import held_out

        if self.evaluate_data:
            return list(read(self.evaluate_data, "question", "answer"))[: self.evaluate_n]
        return held_out(self.evaluate_n, QUICK_SEED)

    def prepare_evaluation(self) -> None:
        _ = self.held_out

    def held_out_examples(self, n: int) -> Batch | None:
        from dbtm.tasks.gsm8k.synthetic import held_out

        rows = [row for row in self.layout.rows(held_out(n, QUICK_SEED)) if row is not None]
        return Batch(*self.layout.fill(rows)) if rows else None
