"""Sudoku as a task: given the puzzle half, generate the solution half."""

import hashlib
import os
from dataclasses import dataclass
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
from dbtm.tasks.sudoku.clues import check_effort, clue_range
from dbtm.tasks.sudoku.layout import Layout

MOST_SEED = 10_000
EVALUATION_SEED = 100 * MOST_SEED  # beyond the seeds of all pools (`pools`)


@register
@dataclass(frozen=True)
class Sudoku(Task):
    """Pools of puzzles, made by our generators or from files, drawn with replacement under random symmetries."""

    name = "sudoku"
    evaluation_settings = ("evaluate_clues", "evaluate_also", "evaluate_file", "evaluate_n")

    box: int = 3
    """Size of a box: 3 for 9 x 9 grids, 2 for 4 x 4."""
    clues: tuple[tuple[int, int], ...] = ((30, 30), (35, 35), (40, 40))
    """Ranges of clues, each a pool of generated puzzles. All pools are mixed in equal parts."""
    efforts: tuple[tuple[int, int], ...] = ()
    """Ranges of a solver's guesses, each a pool of generated hard puzzles (9 x 9 only)."""
    puzzle_files: tuple[str, ...] = ()
    """CSV files of puzzles (puzzle or puzzle,solution), each a pool."""
    pool: int = 48_000
    """Generated puzzles per pool."""
    seed: int = 1
    """Seed of the puzzles."""
    augment: bool = True
    """Draw puzzles under random symmetries."""
    evaluate_clues: int = 30
    """Clues of the puzzles of the quick evaluation."""
    evaluate_also: tuple[int, ...] = ()
    """Other numbers of clues to evaluate separately; they do not affect the best checkpoint."""
    evaluate_file: str = ""
    """A CSV file whose first puzzles the quick evaluation solves; empty: generated ones."""
    evaluate_n: int = 256
    """Puzzles of the quick evaluation."""

    def __post_init__(self):
        for clues in self.clues:
            clue_range(clues, self.box)
        for count in self.evaluate_also:
            clue_range(count, self.box)
        for effort in self.efforts:
            check_effort(effort, self.box)
        if not 1 <= self.pool <= MOST_COUNT or not (self.clues or self.efforts or self.puzzle_files):
            raise UsageError(
                f"task.pool must be from 1 to {MOST_COUNT}, and one of task.clues, task.efforts and task.puzzle_files "
                "must be set, such as task.clues=[[30,30]]"
            )
        if self.evaluate_n > MOST_COUNT:
            raise UsageError(f"task.evaluate_n={self.evaluate_n} must be at most {MOST_COUNT}")
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
        """Each range of clues with the seed of its training puzzles."""
        return [(clues, self.seed * 100 + i) for i, clues in enumerate(self.clues)]

    @cached_property
    def _pools(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """(puzzles, solutions) of each pool, generated on all cores at first use."""
        from dbtm.tasks.sudoku.generate import generate  # imported here because they compile
        from dbtm.tasks.sudoku.hard import generate_hard

        workers = os.cpu_count() or 1
        dug = [generate(clues, self.pool, seed, box=self.box, workers=workers) for clues, seed in self.pools()]
        hard = [
            generate_hard(effort, self.pool, self.seed * 100 + i, workers=workers)
            for i, effort in enumerate(self.efforts)
        ]
        return dug + hard + [self._read(name) for name in self.puzzle_files]

    def preparation(self) -> str:
        count = (len(self.clues) + len(self.efforts)) * self.pool
        return f"generating {count:,} puzzles before the first step" if count else ""

    def _read(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Puzzles and solutions of a file, which must have grids of this task's size."""
        from dbtm.tasks.sudoku import csvfile

        puzzles_BC, solutions_BC = csvfile.read(name)
        if puzzles_BC.shape[1] != self.layout.cells:
            raise UsageError(
                f"{name} has grids of {puzzles_BC.shape[1]} cells, but task.box={self.box} needs {self.layout.cells}"
            )
        return puzzles_BC, solutions_BC

    @cached_property
    def puzzles(self) -> tuple[np.ndarray, np.ndarray]:
        """All training puzzles and their solutions."""
        puzzles, solutions = zip(*self._pools, strict=True)
        return np.concatenate(puzzles), np.concatenate(solutions)

    def data_sha256(self) -> str:
        digests = "".join(sha256(Path(name)) for name in self.puzzle_files)
        return hashlib.sha256(digests.encode()).hexdigest() if digests else ""

    def prepare_evaluation(self) -> None:
        clue_range(self.evaluate_clues, self.box)
        if self.puzzle_files:
            _ = self._pools  # a file with a bad row is refused before training begins
        if self.evaluate_file:
            _ = self.held_out

    def rows(self, keys_B: np.ndarray) -> np.ndarray:
        """Rows of `puzzles`, drawn with replacement; all pools are equally likely, whatever their size."""
        sizes = np.array([len(puzzles) for puzzles, _ in self._pools], dtype=np.uint64)
        pool_B, row_B = np.divmod(keys_B.view(np.uint64) % (len(sizes) * sizes.max()), sizes.max())
        return (np.cumsum(sizes) - sizes)[pool_B] + row_B % sizes[pool_B]

    def batch(self, index: np.ndarray) -> Batch:
        puzzles, solutions = self.puzzles
        keys_B = rng.fold(self.seed, torch.from_numpy(np.asarray(index, dtype=np.int64))).numpy()
        rows = self.rows(keys_B)
        chosen = puzzles[rows], solutions[rows]
        if self.augment:
            from dbtm.tasks.sudoku.symmetry import augment

            chosen = augment(*chosen, rng.mix(torch.from_numpy(keys_B)).numpy().view(np.uint64))
        tokens = self.layout.encode(*chosen)
        return Batch(tokens, np.broadcast_to(self.layout.prompt_mask(), tokens.shape))

    def given(self, puzzles_BC: np.ndarray) -> dict[str, Any]:
        """The input of `Sampler.sample` for these puzzles: tokens and the mask of given ones."""
        tokens = self.layout.encode(puzzles_BC)
        return {"tokens": tokens, "clean": np.broadcast_to(self.layout.prompt_mask(), tokens.shape)}

    @cached_property
    def held_out(self) -> tuple[np.ndarray, np.ndarray]:
        """The puzzles of the quick evaluation, and their solutions."""
        if self.evaluate_file:
            puzzles_BC, solutions_BC = self._read(self.evaluate_file)
            return puzzles_BC[: self.evaluate_n], solutions_BC[: self.evaluate_n]
        return self._held_out(self.evaluate_n, self.evaluate_clues)

    @cached_property
    def also_held_out(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """The same for each of the other numbers of clues."""
        return {clues: self._held_out(self.evaluate_n, clues) for clues in self.evaluate_also}

    def _held_out(self, n: int, clues: int) -> tuple[np.ndarray, np.ndarray]:
        """Puzzles of a held-out seed, without those in the pool (4 x 4 puzzles are few and repeat)."""
        from dbtm.tasks.sudoku.generate import generate

        puzzles, solutions = generate(clues, 2 * n, EVALUATION_SEED, box=self.box)
        pool = {puzzle.tobytes() for puzzle in self.puzzles[0]}
        new = np.array([puzzle.tobytes() not in pool for puzzle in puzzles])
        return puzzles[new][:n], solutions[new][:n]

    def held_out_examples(self, n: int) -> Batch:
        tokens = self.layout.encode(*self._held_out(n, self.evaluate_clues))
        return Batch(tokens, np.broadcast_to(self.layout.prompt_mask(), tokens.shape))

    def solved(self, tokens_BL: np.ndarray, solutions_BC: np.ndarray) -> np.ndarray:
        """Which rows have every cell of their solution right, (B,) bool."""
        return (self.layout.decode(tokens_BL) == solutions_BC).all(-1)

    def text(self, tokens: np.ndarray) -> str:
        digits = self.layout.digits
        grid = self.layout.decode(tokens[None])[0].reshape(digits, digits)
        return "\n".join(" ".join(str(d) if d else "." for d in row) for row in grid)
