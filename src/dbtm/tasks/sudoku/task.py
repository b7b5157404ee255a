"""Sudoku as a task: given the puzzle half, generate the solution half."""

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.tasks.base import Batch, Task, register
from dbtm.tasks.sudoku.clues import clue_range
from dbtm.tasks.sudoku.layout import Layout

if TYPE_CHECKING:
    from dbtm.sampling.sampler import Sampler

MOST_SEED = 10_000
EVALUATION_SEED = 100 * MOST_SEED  # beyond the seeds of all pools (`pools`)


@register
@dataclass(frozen=True)
class Sudoku(Task):
    """A pool of puzzles from our generator, drawn with replacement, under random symmetries."""

    name = "sudoku"
    of_evaluation = ("evaluate_clues", "evaluate_n")
    box: int = 3
    clues: tuple[tuple[int, int], ...] = ((30, 30), (35, 35), (40, 40))  # ranges of clue counts, mixed in equal parts
    pool: int = 48_000  # puzzles of each range
    seed: int = 1
    augment: bool = True
    evaluate_clues: int = 30
    evaluate_n: int = 256

    def __post_init__(self):
        for clues in self.clues:
            clue_range(clues, self.box)
        if self.pool < 1 or not self.clues:
            raise UsageError("task.pool must be at least 1 and task.clues must name at least one range, [[30,30]]")
        if not 0 <= self.seed < MOST_SEED:
            raise UsageError(f"task.seed={self.seed} must be from 0 to {MOST_SEED - 1}: larger ones are for evaluation")

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.box)

    @property
    def vocab(self) -> int:  # type: ignore[override]
        return self.layout.vocab

    @property
    def length(self) -> int:  # type: ignore[override]
        return self.layout.length

    def position_ids(self) -> np.ndarray:
        return self.layout.position_ids()

    def pools(self) -> list[tuple[tuple[int, int], int]]:
        """Every range of clues with the seed that its training puzzles come from."""
        return [(clues, self.seed * 100 + i) for i, clues in enumerate(self.clues)]

    @cached_property
    def puzzles(self) -> tuple[np.ndarray, np.ndarray]:
        """The training pool: (puzzles, solutions), generated on all cores when first asked for."""
        from dbtm.tasks.sudoku.generate import generate  # compiles: only where puzzles are made

        made = [
            generate(clues, self.pool, seed, box=self.box, workers=os.cpu_count() or 1) for clues, seed in self.pools()
        ]
        puzzles, solutions = zip(*made, strict=True)
        return np.concatenate(puzzles), np.concatenate(solutions)

    def batch(self, index: np.ndarray) -> Batch:
        puzzles, solutions = self.puzzles
        keys_B = rng.fold(self.seed, torch.from_numpy(np.asarray(index, dtype=np.int64))).numpy()
        rows = keys_B.view(np.uint64) % np.uint64(len(puzzles))  # drawn with replacement: a function of the index alone
        chosen = puzzles[rows], solutions[rows]
        if self.augment:
            from dbtm.tasks.sudoku.symmetry import augment

            chosen = augment(*chosen, rng.mix(torch.from_numpy(keys_B)).numpy().view(np.uint64))
        tokens = self.layout.encode(*chosen)
        return Batch(tokens, np.broadcast_to(self.layout.prompt_mask(), tokens.shape))

    def given(self, puzzles_BC: np.ndarray) -> dict[str, Any]:
        """What `Sampler.sample` needs to solve these puzzles: tokens and the mask of what is given."""
        tokens = self.layout.encode(puzzles_BC)
        return {"tokens": tokens, "clean": np.broadcast_to(self.layout.prompt_mask(), tokens.shape)}

    @cached_property
    def held_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Puzzles of a seed that is never trained on, less those that the pool happens to hold (4 x 4 has few)."""
        from dbtm.tasks.sudoku.generate import generate

        puzzles, solutions = generate(self.evaluate_clues, 2 * self.evaluate_n, EVALUATION_SEED, box=self.box)
        pool = {puzzle.tobytes() for puzzle in self.puzzles[0]}
        new = np.array([puzzle.tobytes() not in pool for puzzle in puzzles])
        return puzzles[new][: self.evaluate_n], solutions[new][: self.evaluate_n]

    def evaluate(self, sampler: "Sampler", seed: int) -> dict[str, float]:
        """Exact-solve share on held-out puzzles at 1, 4 and 16 evaluations."""
        puzzles, solutions = self.held_out
        out = {}
        for nfe in (1, 4, 16):
            tokens = sampler.sample(**self.given(puzzles), nfe=nfe, seed=seed).tokens
            out[f"solved_{nfe}"] = float((self.layout.decode(tokens) == solutions).all(-1).mean())
        return {**out, "score": out["solved_4"] + out["solved_1"]}

    def text(self, tokens: np.ndarray) -> str:
        digits = self.layout.digits
        grid = self.layout.decode(tokens[None])[0].reshape(digits, digits)
        return "\n".join(" ".join(str(d) if d else "." for d in row) for row in grid)
