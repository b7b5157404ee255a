"""Sudoku as a task: given the puzzle half, generate the solution half."""

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.tasks.base import Batch, Task, register
from dbtm.tasks.sudoku.clues import clue_range
from dbtm.tasks.sudoku.layout import Layout

MOST_SEED = 10_000
EVALUATION_SEED = 100 * MOST_SEED  # beyond the seeds of all pools (`pools`)


@register
@dataclass(frozen=True)
class Sudoku(Task):
    """A pool of puzzles from our generator, drawn with replacement, under random symmetries."""

    name = "sudoku"
    evaluation_settings = ("evaluate_clues", "evaluate_also", "evaluate_n")

    box: int = 3
    """Size of a box: 3 for 9 x 9 grids, 2 for 4 x 4."""
    clues: tuple[tuple[int, int], ...] = ((30, 30), (35, 35), (40, 40))
    """Ranges of clue counts, mixed in equal parts."""
    pool: int = 48_000
    """Training puzzles of each range."""
    seed: int = 1
    """Seed of the puzzles."""
    augment: bool = True
    """Draw puzzles under random symmetries."""
    evaluate_clues: int = 30
    """Clues of the puzzles of the quick evaluation."""
    evaluate_also: tuple[int, ...] = ()
    """Other counts of clues that it also measures, each by itself; the best checkpoint does not depend on them."""
    evaluate_n: int = 256
    """Puzzles of the quick evaluation."""

    def __post_init__(self):
        for clues in self.clues:
            clue_range(clues, self.box)
        for count in self.evaluate_also:
            clue_range(count, self.box)
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
        """The puzzles of the quick evaluation, and their solutions."""
        return self._held_out(self.evaluate_n, self.evaluate_clues)

    @cached_property
    def also_held_out(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """The same with each of the other counts of clues."""
        return {clues: self._held_out(self.evaluate_n, clues) for clues in self.evaluate_also}

    def _held_out(self, n: int, clues: int) -> tuple[np.ndarray, np.ndarray]:
        """Puzzles of a seed that is never trained on, less those that the pool happens to hold (4 x 4 has few)."""
        from dbtm.tasks.sudoku.generate import generate

        puzzles, solutions = generate(clues, 2 * n, EVALUATION_SEED, box=self.box)
        pool = {puzzle.tobytes() for puzzle in self.puzzles[0]}
        new = np.array([puzzle.tobytes() not in pool for puzzle in puzzles])
        return puzzles[new][:n], solutions[new][:n]

    def held_out_examples(self, n: int) -> Batch:
        tokens = self.layout.encode(*self._held_out(n, self.evaluate_clues))
        return Batch(tokens, np.broadcast_to(self.layout.prompt_mask(), tokens.shape))

    def solved(self, tokens_BL: np.ndarray, solutions_BC: np.ndarray) -> np.ndarray:
        """Which rows hold every cell of their solution, (B,) bool."""
        return (self.layout.decode(tokens_BL) == solutions_BC).all(-1)

    def text(self, tokens: np.ndarray) -> str:
        digits = self.layout.digits
        grid = self.layout.decode(tokens[None])[0].reshape(digits, digits)
        return "\n".join(" ".join(str(d) if d else "." for d in row) for row in grid)
