"""Mazes: paths are shortest by an independent search, and any shortest path is right."""

from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from dbtm.core.errors import UsageError
from dbtm.tasks.reasoning.maze import FREE, GOAL, PATH, START, WALL, Maze

TASK = Maze(size=7, least=9, walls=(0.2, 0.4))
OPEN = "S..\n...\n..G"


def steps(maze_C: np.ndarray, size: int) -> float:
    """From S to G by SciPy's Dijkstra on the graph of free cells."""
    free = maze_C.reshape(size, size) != WALL
    edges = [
        (i * size + j, (i + a) * size + j + b)
        for i, j in product(range(size), repeat=2)
        for a, b in ((0, 1), (1, 0))
        if i + a < size and j + b < size and free[i, j] and free[i + a, j + b]
    ]
    rows, columns = zip(*edges, strict=True)
    graph = csr_array((np.ones(len(edges)), (rows, columns)), shape=(size**2, size**2))
    start, goal = (int(np.flatnonzero(maze_C == end)[0]) for end in (START, GOAL))
    return float(shortest_path(graph, directed=False, unweighted=True, indices=start)[goal])


def test_paths_are_shortest_and_long_enough():
    """As many marked cells as Dijkstra's distance says, joined in one line from start to goal."""
    for row in TASK.batch(np.arange(60)).tokens:
        maze_C, answer_C = row[: TASK.cells], row[TASK.cells :]
        distance = steps(maze_C, TASK.size)
        assert distance >= TASK.least
        assert (answer_C == PATH).sum() == distance - 1
        assert ((maze_C == START).sum(), (maze_C == GOAL).sum()) == (1, 1)
        assert np.array_equal(np.where(answer_C == PATH, FREE, answer_C), maze_C)
        inside = np.where(np.isin(answer_C, (PATH, START, GOAL)), answer_C, WALL)
        assert steps(np.where(inside == PATH, FREE, inside), TASK.size) == distance


def test_hard_mazes_are_those_of_the_field():
    """30 x 30 and a shortest path of more than 110 steps."""
    task = Maze()
    rows = task.batch(np.arange(3)).tokens
    assert task.length == 1800
    assert all(steps(row[:900], 30) > 110 for row in rows)
    assert task.solved(rows).all()


def test_walls_have_the_share_that_was_asked_for():
    for low in (0.1, 0.35):
        mazes = Maze(size=12, least=3, walls=(low, low)).batch(np.arange(200)).tokens[:, :144]
        assert (mazes == WALL).mean() == pytest.approx(low, abs=0.02)


def answers(task: Maze, maze_C: np.ndarray):
    """All ways of marking free cells."""
    free = np.flatnonzero(maze_C == FREE)
    for marks in product((FREE, PATH), repeat=len(free)):
        answer_C = maze_C.copy()
        answer_C[free] = marks
        yield np.concatenate([maze_C, answer_C])


def test_just_the_shortest_paths_are_right():
    """In an open 3 x 3 grid, 6 of the 128 ways of marking cells are shortest paths from corner to corner."""
    task = Maze(size=3, least=2)
    maze_C = task.parse(OPEN)[:9]
    right = [row for row in answers(task, maze_C) if task.complaint(row) is None]
    assert len(right) == 6
    assert all((row[9:] == PATH).sum() == 3 for row in right)


def test_a_pool_repeats_mazes_under_turns_and_reflections():
    task = Maze(size=7, least=9, walls=(0.2, 0.4), pool=3)
    rows = task.batch(np.arange(200)).tokens
    grids = rows[:, :49].reshape(-1, 7, 7)
    forms = {
        min(np.rot90(g, k).tobytes() for g in (grid, grid.T) for k in range(4)) for grid in grids
    }  # one name for all turns of a maze
    assert len(forms) == 3
    assert 12 < len({grid.tobytes() for grid in grids}) <= 24
    assert task.solved(rows).all()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("Soo\n..o\n.#G", "changes the maze at row 3 column 2"),
        ("S..\n...\n..G", "do not join"),
        ("Soo\n...\n..G", "do not join"),
        ("Soo\n.oo\n..G", "4 cells are marked, but a shortest path visits 3"),
        ("Soo\n..o\n..G", None),
        ("S..\noo.\n.oG", None),
    ],
)
def test_what_is_wrong_with_an_answer(answer, words):
    task = Maze(size=3, least=2)
    letters = answer.replace("\n", "")
    row = np.concatenate([task.parse(OPEN)[:9], ["#.SGo".index(letter) for letter in letters]])
    complaint = task.complaint(row)
    assert complaint is None if words is None else words in complaint
    assert task.text(row) == answer


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("S.\n.G", "3 lines of 3 characters"),
        ("S..\n.x.\n..G", "line 2, character 2: 'x'"),
        ("...\n...\n..G", "0 starts"),
        ("S.#\n.##\n##G", "no path leads"),
    ],
)
def test_bad_mazes_are_refused(text, words):
    with pytest.raises(UsageError, match=words):
        Maze(size=3, least=2).parse(text)
