"""Shortest path in a maze: `cells of the maze, cells with the path marked`, each row by row.

The answer repeats walls, start and goal and marks the cells of a shortest path. Training uses one path (of several,
the one that prefers up, left, right, down in this order); any shortest path is right.

Shapes: B mazes, C cells of one, L = 2 C tokens.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.tasks.base import Batch, register
from dbtm.tasks.reasoning.base import Reasoning, in_threads

WALL, FREE, START, GOAL, PATH = range(5)
LETTERS = "#.SGo"
MOST_SIZE = 100
TRIES = 200_000  # random walls per maze: 30 x 30 mazes with a path of 111 steps take a few hundred


@register
@dataclass(frozen=True)
class Maze(Reasoning):
    """Random walls, and a goal many steps from the start: each example is a new maze."""

    name = "maze"
    vocab = 5

    size: int = 30
    """Rows and columns."""
    least: int = 111
    """Fewest steps of the shortest path from start to goal; 111 is HRM's and TRM's "more than 110" for 30 x 30."""
    walls: tuple[float, float] = (0.3, 0.5)
    """Range of the share of walls, drawn per maze."""
    pool: int = 0
    """Number of different mazes of a run, used with rotations and reflections; 0: every example is new."""
    seed: int = 1
    """Seed of the mazes."""
    evaluate_n: int = 256
    """Mazes of the quick evaluation."""

    def __post_init__(self):
        if not 2 <= self.size <= MOST_SIZE or not 2 <= self.least < self.size**2:
            raise UsageError(
                f"task.size={self.size} must be from 2 to {MOST_SIZE}, and task.least={self.least} from 2 to the "
                "number of cells less 1"
            )
        low, high = self.walls
        if not 0 <= low <= high < 1:
            raise UsageError(f"task.walls={list(self.walls)} must be two shares below 1, the smaller one first")
        if self.pool < 0:
            raise UsageError(f"task.pool={self.pool} must be 0 (new mazes) or a number of mazes")
        self.check_counts()

    @property
    def cells(self) -> int:
        return self.size**2

    @property
    def length(self) -> int:  # type: ignore[override]
        return 2 * self.cells

    def answer(self) -> np.ndarray:
        return np.arange(self.length) >= self.cells

    def position_ids(self) -> np.ndarray:
        """Row, column and half of every position, (L, 3)."""
        row_C, column_C = np.divmod(np.arange(self.cells), self.size)
        halves = [np.stack([row_C, column_C, np.full(self.cells, half)], axis=1) for half in (0, 1)]
        return np.concatenate(halves)

    def batch(self, index: np.ndarray) -> Batch:
        keys_B = self.keys(self.seed, index)
        of_B = self.keys(self.seed, (keys_B % np.uint64(self.pool)).astype(np.int64)) if self.pool else keys_B
        return self.given(self.make(of_B, keys_B))

    def make(self, keys_B: np.ndarray, turns_B: np.ndarray | None = None) -> np.ndarray:
        """Mazes of some keys, rotated or reflected by others."""
        from dbtm.tasks.reasoning import maze_making  # imported here because it compiles

        def chunk(keys_B2: np.ndarray) -> np.ndarray:
            keys_B, turns_B = keys_B2.T
            mazes_BC, turned_BC, answers_BC = np.zeros((3, len(keys_B), self.cells), np.int64)
            if maze_making.make(keys_B, self.size, *self.walls, self.least, TRIES, mazes_BC) < len(keys_B):
                raise UsageError(
                    f"no maze with task.size={self.size} and task.walls={list(self.walls)} has a shortest path of "
                    f"{self.least} steps: use fewer steps (task.least) or other walls"
                )
            maze_making.turn_and_solve(mazes_BC, turns_B, self.size, turned_BC, answers_BC)
            return np.concatenate([turned_BC, answers_BC], axis=1)

        return in_threads(chunk, np.stack([keys_B, keys_B if turns_B is None else turns_B], axis=1))

    def distances(self, maze_C: np.ndarray, source: int) -> dict[int, int]:
        """Steps from a cell to every cell that can be reached from it without walls."""
        steps, queue = {source: 0}, deque([source])
        while queue:
            cell = queue.popleft()
            for other in self._neighbours(cell):
                if maze_C[other] != WALL and other not in steps:
                    steps[other] = steps[cell] + 1
                    queue.append(other)
        return steps

    def _neighbours(self, cell: int) -> Iterator[int]:
        row, column = divmod(cell, self.size)
        if row:
            yield cell - self.size
        if column:
            yield cell - 1
        if column < self.size - 1:
            yield cell + 1
        if row < self.size - 1:
            yield cell + self.size

    def complaint(self, tokens_L: np.ndarray) -> str | None:
        """The marked cells must join start and goal, and be as few as on a shortest path."""
        maze_C, answer_C = tokens_L[: self.cells], tokens_L[self.cells :]
        marked_C = answer_C == PATH
        changed = np.flatnonzero(np.where(marked_C, FREE, answer_C) != maze_C)
        if len(changed):
            row, column = divmod(int(changed[0]), self.size)
            return f"the answer changes the maze at row {row + 1} column {column + 1}"
        start, goal = (int(np.flatnonzero(maze_C == end)[0]) for end in (START, GOAL))
        inside_C = np.where(marked_C | (maze_C == START) | (maze_C == GOAL), FREE, WALL)
        if goal not in self.distances(inside_C, start):
            return "the marked cells do not join start and goal"
        shortest, marked = self.distances(maze_C, start)[goal], int(marked_C.sum())
        if marked >= shortest:
            return f"{marked} cells are marked, but a shortest path visits {shortest - 1}"
        return None

    def parse(self, text: str) -> np.ndarray:
        """One line per row: # for a wall, S, G, and . for a free cell; the o of a path counts as free."""
        lines = [line.strip() for line in text.strip().splitlines()]
        if len(lines) != self.size or any(len(line) != self.size for line in lines):
            raise UsageError(
                f"the maze must have {self.size} lines of {self.size} characters: # for a wall, . for a free cell, S "
                "for the start, G for the goal"
            )
        cells = "".join(lines).replace("o", ".")
        for at, letter in enumerate(cells):
            if letter not in "#.SG":
                row, column = divmod(at, self.size)
                raise UsageError(f"line {row + 1}, character {column + 1}: {letter!r} is not one of # . S G")
        if cells.count("S") != 1 or cells.count("G") != 1:
            raise UsageError(f"the maze has {cells.count('S')} starts (S) and {cells.count('G')} goals (G), not 1 each")
        maze_C = np.array([LETTERS.index(letter) for letter in cells])
        if cells.index("G") not in self.distances(maze_C, cells.index("S")):
            raise UsageError("no path leads from S to G: open a wall (# to .)")
        return np.concatenate([maze_C, maze_C])

    def text(self, tokens: np.ndarray) -> str:
        """The answer's half."""
        return self._drawn(np.asarray(tokens)[self.cells :])

    def problem(self, tokens: np.ndarray) -> str:
        return self._drawn(np.asarray(tokens)[: self.cells])

    def _drawn(self, cells_C: np.ndarray) -> str:
        rows = cells_C.reshape(self.size, self.size)
        return "\n".join("".join(LETTERS[token] for token in row) for row in rows)
