"""The augmentation draws from the symmetry group: all of it, nothing else."""

from itertools import permutations, product

import numpy as np

from dbtm.tasks.sudoku.generate import generate, indexed
from dbtm.tasks.sudoku.solver import solve_many
from dbtm.tasks.sudoku.symmetry import augment


def test_puzzles_stay_unique_and_keep_their_solution_and_clues():
    puzzles_BC, solutions_BC = generate(26, 256, seed=2)
    keys_B = np.random.default_rng(0).integers(0, 2**64, 256, dtype=np.uint64)
    new_puzzles_BC, new_solutions_BC = augment(puzzles_BC, solutions_BC, keys_B)
    found_BC, counts_B = solve_many(new_puzzles_BC)
    assert (counts_B == 1).all()
    assert np.array_equal(found_BC, new_solutions_BC)
    assert (np.count_nonzero(new_puzzles_BC, axis=1) == 26).all()
    assert (new_puzzles_BC != puzzles_BC).any(axis=1).all()


def test_a_row_depends_on_its_key_alone():
    puzzles_BC, solutions_BC = generate(30, 64, seed=2)
    before = puzzles_BC.copy()
    keys_B = np.arange(64, dtype=np.uint64)
    whole = np.stack(augment(puzzles_BC, solutions_BC, keys_B))
    parts = [np.stack(augment(puzzles_BC[i : i + 1], solutions_BC[i : i + 1], keys_B[i : i + 1])) for i in range(64)]
    assert np.array_equal(whole, np.concatenate(parts, axis=1))
    assert np.array_equal(puzzles_BC, before), "the input is not touched"


def orbit(puzzle_C):
    """All images of a 4 x 4 puzzle: relabelling x row orders x column orders x transpose, by brute force."""
    orders = [
        [first * 2 + a, first * 2 + 1 - a, (1 - first) * 2 + b, (1 - first) * 2 + 1 - b]
        for first, a, b in product((0, 1), repeat=3)
    ]
    square = puzzle_C.reshape(4, 4)
    images = set()
    for rows, columns, flip in product(orders, orders, (False, True)):
        moved = square[np.ix_(rows, columns)]
        moved = moved.T if flip else moved
        for labels in permutations(range(1, 5)):
            images.add(np.array([0, *labels], np.uint8)[moved].tobytes())
    return images


def test_exactly_the_orbit_is_reached():
    puzzles_BC, solutions_BC = indexed(5, 3, seed=9, box=2)
    keys_B = np.random.default_rng(1).integers(0, 2**64, 40_000, dtype=np.uint64)
    for puzzle_C, solution_C in zip(puzzles_BC, solutions_BC):
        copies = [np.tile(grid_C, (len(keys_B), 1)) for grid_C in (puzzle_C, solution_C)]
        images_BC, _ = augment(*copies, keys_B)
        assert {image_C.tobytes() for image_C in images_BC} == orbit(puzzle_C)
