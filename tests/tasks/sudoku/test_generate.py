"""The generator keeps its promises: unique, exact, a function of (seed, index), and evenly spread."""

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.tasks.sudoku.generate import clue_range, generate, indexed

from .oracle import count, is_solved


def clue_counts(puzzles_BC):
    return np.count_nonzero(puzzles_BC, axis=1)


@pytest.mark.parametrize(
    ("box", "clues", "n"), [(3, 22, 3), (3, 25, 5), (3, 30, 10), (3, 40, 10), (2, 4, 20), (2, 7, 20)]
)
def test_every_puzzle_has_one_solution_and_the_asked_clues(box, clues, n):
    puzzles_BC, solutions_BC = generate(clues, n, seed=3, box=box)
    assert puzzles_BC.shape == solutions_BC.shape == (n, box**4)
    assert puzzles_BC.dtype == solutions_BC.dtype == np.uint8
    assert (clue_counts(puzzles_BC) == clues).all()
    for puzzle_C, solution_C in zip(puzzles_BC, solutions_BC):
        assert is_solved(solution_C)
        assert count(puzzle_C, 2) == 1
        assert (solution_C[puzzle_C > 0] == puzzle_C[puzzle_C > 0]).all()


def test_a_puzzle_depends_on_seed_and_index_alone():
    whole = generate(30, 600, seed=7)
    assert np.array_equal(whole, generate(30, 600, seed=7, workers=3)), "workers"
    parts = [generate(30, n, seed=7, first=first) for first, n in ((0, 1), (1, 299), (300, 300))]
    assert np.array_equal(whole, np.concatenate(parts, axis=1)), "chunks"


def test_the_meaning_of_a_seed_never_changes():
    """Held-out sets are named by their seed, so this puzzle must stay what it is on every machine and version."""
    puzzles_BC, _ = generate(30, 1, seed=1, first=12345)
    assert (
        "".join(map(str, puzzles_BC[0]))
        == "240900800709500062000100070460001009500700010000002507890300600306010000002080000"
    )


def test_seeds_and_clue_counts_share_no_solution():
    pools = [
        generate(30, 200, seed=1),
        generate(30, 200, seed=2),
        generate(31, 200, seed=1),
        generate((30, 31), 200, seed=1),
    ]
    assert len({solution_C.tobytes() for _, solutions_BC in pools for solution_C in solutions_BC}) == 800


def test_a_range_of_clues_is_drawn_evenly():
    puzzles_BC, _ = generate((24, 33), 2000, seed=1)
    share = np.bincount(clue_counts(puzzles_BC), minlength=34)[24:] / 2000
    assert clue_counts(puzzles_BC).min() >= 24
    assert np.abs(share - 0.1).max() < 0.03


def test_digits_and_clues_are_spread_evenly():
    puzzles_BC, solutions_BC = generate(30, 4000, seed=11)
    clue_share_C = (puzzles_BC > 0).mean(axis=0)
    assert np.abs(clue_share_C - 30 / 81).max() < 0.045  # six standard deviations
    for digit in range(1, 10):
        assert np.abs((solutions_BC == digit).mean(axis=0) - 1 / 9).max() < 0.03


def test_small_full_grids_are_uniform():
    """Chi-square over all 288 grids; 5 standard deviations above its mean."""
    _, solutions_BC = indexed(8, 28800, seed=4, box=2)
    _, counts = np.unique(solutions_BC, axis=0, return_counts=True)
    assert len(counts) == 288
    assert ((counts - 100) ** 2 / 100).sum() < 287 + 5 * (2 * 287) ** 0.5


def test_no_repeats():
    _, solutions_BC = generate(30, 3000, seed=1)
    assert len(np.unique(solutions_BC, axis=0)) == 3000
    puzzles_BC, _ = generate(4, 5000, seed=1, box=2)
    assert len(np.unique(puzzles_BC, axis=0)) == 5000
    stream_BC, _ = indexed(4, 8000, seed=1, box=2)
    _, first_B = np.unique(stream_BC, axis=0, return_index=True)
    assert np.array_equal(puzzles_BC[:4000], stream_BC[np.sort(first_B)][:4000]), "repeats are dropped in order"


def test_more_than_there_are_is_refused():
    with pytest.raises(UsageError, match=r"found only 2.. different puzzles"):
        generate(16, 1000, seed=1, box=2)


def test_progress_is_told():
    told = []
    generate(35, 400, seed=1, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 400
    assert len(told) > 2


@pytest.mark.parametrize(
    ("clues", "box", "message"),
    [
        (19, 3, "19 clues at box size 3: use 20 to 81"),
        (82, 3, "82 clues"),
        ((36, 22), 3, "36-22 clues .* fewest first"),
        (3, 2, "use 4 to 16"),
        (30, 4, "box size 4 is not supported"),
    ],
)
def test_impossible_clue_counts_are_refused(clues, box, message):
    with pytest.raises(UsageError, match=message):
        clue_range(clues, box)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(seed):
    with pytest.raises(UsageError, match="seed"):
        generate(30, 1, seed)
