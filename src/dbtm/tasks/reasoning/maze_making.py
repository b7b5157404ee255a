"""Mazes whose shortest path is long: random walls, and a goal far enough from the start.

As in the mazes of Lehnert et al. (2024), of which HRM and TRM keep those with a path of more than 110 steps, every cell
is a wall with a probability drawn per maze. Start and goal are drawn until they are far enough apart: from a random
start, or else from the cell farthest from it. A maze is a function of its key alone.

Shapes: B mazes, C cells of one, in reading order.
"""

import numba
import numpy as np

from dbtm.tasks.compiled_rng import below
from dbtm.tasks.reasoning.maze import FREE, GOAL, PATH, START, WALL

_UNIT = 1 << 24


@numba.njit(nogil=True)
def _neighbour(cell, direction, size):
    """The cell above, to the left, to the right or below; -1 beyond the border."""
    row, column = cell // size, cell % size
    if direction == 0:
        return cell - size if row > 0 else -1
    if direction == 1:
        return cell - 1 if column > 0 else -1
    if direction == 2:
        return cell + 1 if column < size - 1 else -1
    return cell + size if row < size - 1 else -1


@numba.njit(nogil=True)
def _distances(maze_C, source, size, distance_C, queue_C):
    """Steps from a cell to every other, -1 if unreachable; the number of reachable cells."""
    distance_C[:] = -1
    distance_C[source] = 0
    queue_C[0] = source
    read, written = 0, 1
    while read < written:
        cell = queue_C[read]
        read += 1
        for direction in range(4):
            other = _neighbour(cell, direction, size)
            if other >= 0 and maze_C[other] != WALL and distance_C[other] < 0:
                distance_C[other] = distance_C[cell] + 1
                queue_C[written] = other
                written += 1
    return written


@numba.njit(nogil=True)
def _far(distance_C, queue_C, reached, least, random_1):
    """A random cell at least this many steps away, -1 for none: the queue is sorted by distance."""
    first = reached
    while first > 0 and distance_C[queue_C[first - 1]] >= least:
        first -= 1
    return queue_C[first + below(random_1, reached - first)] if first < reached else -1


@numba.njit(nogil=True)
def _make_one(size, low, high, least, tries, random_1, maze_C, distance_C, queue_C):
    """Walls, start and goal; False if no try has a path that is long enough."""
    for _ in range(tries):
        density = low + (high - low) * below(random_1, _UNIT) / _UNIT
        for cell in range(size * size):
            maze_C[cell] = WALL if below(random_1, _UNIT) < density * _UNIT else FREE
        start = below(random_1, size * size)
        if maze_C[start] == WALL:
            continue
        for _ in range(2):
            reached = _distances(maze_C, start, size, distance_C, queue_C)
            goal = _far(distance_C, queue_C, reached, least, random_1)
            if goal >= 0:
                maze_C[start], maze_C[goal] = START, GOAL
                return True
            start = queue_C[reached - 1]
    return False


@numba.njit(nogil=True)
def solve_one(maze_C, size, distance_C, queue_C, answer_C):
    """The maze with a shortest path: of several, the one that prefers up, left, right, down in this order."""
    start = goal = 0
    for cell in range(size * size):
        answer_C[cell] = maze_C[cell]
        if maze_C[cell] == START:
            start = cell
        elif maze_C[cell] == GOAL:
            goal = cell
    _distances(maze_C, goal, size, distance_C, queue_C)
    cell = start
    while distance_C[cell] > 1:
        for direction in range(4):
            other = _neighbour(cell, direction, size)
            if other >= 0 and distance_C[other] == distance_C[cell] - 1:
                cell = other
                break
        answer_C[cell] = PATH


@numba.njit(nogil=True)
def make(keys_B, size, low, high, least, tries, mazes_BC):
    """Mazes without paths, one per key; the number made before the first failure."""
    distance_C, queue_C = np.empty(size * size, np.int64), np.empty(size * size, np.int64)
    random_1 = np.empty(1, np.uint64)
    for row in range(len(keys_B)):
        random_1[0] = keys_B[row]
        if not _make_one(size, low, high, least, tries, random_1, mazes_BC[row], distance_C, queue_C):
            return row
    return len(keys_B)


@numba.njit(nogil=True)
def turn_and_solve(mazes_BC, keys_B, size, turned_BC, answers_BC):
    """Each maze under the rotation or reflection of its key, with its shortest path, which is computed again: the
    preference among several paths is not symmetric.
    """
    distance_C, queue_C = np.empty(size * size, np.int64), np.empty(size * size, np.int64)
    random_1 = np.empty(1, np.uint64)
    for row in range(len(mazes_BC)):
        random_1[0] = keys_B[row]
        symmetry = below(random_1, 8)
        for i in range(size):
            for j in range(size):
                a, b = (j, i) if symmetry & 1 else (i, j)
                a = size - 1 - a if symmetry & 2 else a
                b = size - 1 - b if symmetry & 4 else b
                turned_BC[row, i * size + j] = mazes_BC[row, a * size + b]
        solve_one(turned_BC[row], size, distance_C, queue_C, answers_BC[row])
