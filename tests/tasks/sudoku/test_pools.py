"""Pools of puzzles from generators and files, mixed in equal parts."""

import threading

import numpy as np
import pytest

from dbtm.config import override
from dbtm.core.errors import UsageError
from dbtm.recipes import recipe
from dbtm.service.training import TrainRequest, configuration
from dbtm.tasks.sudoku import csvfile
from dbtm.tasks.sudoku.generate import generate, in_chunks
from dbtm.tasks.sudoku.task import Sudoku


@pytest.fixture
def puzzle_file(tmp_path):
    path = tmp_path / "theirs.csv"
    csvfile.write(path, *generate(26, 7, seed=11))
    return path


def drawn(task, n=4000):
    """The pool's rows that n examples come from."""
    rows = {puzzle.tobytes(): row for row, puzzle in enumerate(task.puzzles[0])}
    tokens = task.batch(np.arange(n)).tokens[:, task.layout.puzzle_positions].astype(np.uint8)
    return np.array([rows[puzzle.tobytes()] for puzzle in tokens])


def test_the_calling_thread_compiles():
    """Ctrl-C stops it at once there; workers, which would have to be waited for, only get later chunks."""
    threads: list[str] = []

    def make(begin: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        threads.append(threading.current_thread().name)
        return np.full((count, 1), begin), np.zeros((count, 1))

    begins = [int(chunk[0, 0]) for chunk, _ in in_chunks(make, 0, 20, workers=2, size=8)]
    assert begins == [0, 8, 16]
    assert threads[0] == threading.current_thread().name
    assert threads[0] not in threads[1:]


def test_every_pool_is_as_likely_as_any_other(puzzle_file):
    task = Sudoku(clues=((30, 30),), efforts=((1, 2),), puzzle_files=(str(puzzle_file),), pool=20, augment=False)
    sizes = [20, 20, 7]
    pool = np.repeat(np.arange(3), sizes)[drawn(task)]
    assert np.abs(np.bincount(pool) / 4000 - 1 / 3).max() < 0.03
    assert len(np.unique(drawn(task))) == sum(sizes), "every puzzle"


def test_generated_pools_of_one_size_are_one_pool():
    """The rows of earlier versions: the key modulo the number of puzzles."""
    task = Sudoku(clues=((30, 30), (40, 40)), pool=5)
    keys_B = np.array([0, 4, 5, 9, 10, 2**63, 2**64 - 1], dtype=np.uint64)
    assert task.rows(keys_B.view(np.int64)).tolist() == [int(key) % 10 for key in keys_B]


def test_a_files_bytes_belong_to_the_run(puzzle_file):
    task = Sudoku(clues=(), puzzle_files=(str(puzzle_file),))
    before = task.data_sha256()
    assert before
    assert Sudoku().data_sha256() == ""
    csvfile.write(puzzle_file, *generate(26, 7, seed=12))
    assert Sudoku(clues=(), puzzle_files=(str(puzzle_file),)).data_sha256() != before


def test_bad_files_are_refused_before_training(puzzle_file, tmp_path):
    small = tmp_path / "small.csv"
    csvfile.write(small, *generate(6, 3, seed=1, box=2))
    with pytest.raises(UsageError, match=r"small\.csv has grids of 16 cells, but task\.box=3 needs 81"):
        Sudoku(clues=(), puzzle_files=(str(small),)).prepare_evaluation()
    with pytest.raises(UsageError, match="cannot read"):
        Sudoku(clues=(), puzzle_files=("nowhere.csv",)).prepare_evaluation()
    with pytest.raises(UsageError, match="must be set"):
        Sudoku(clues=())
    with pytest.raises(UsageError, match="no hard puzzles of box size 2"):
        Sudoku(box=2, clues=((6, 6),), evaluate_clues=6, efforts=((2, 4),))


def test_puzzles_of_a_request_replace_the_generated_ones(puzzle_file):
    config = configuration(TrainRequest("sudoku", puzzles=(puzzle_file,)))
    assert (config.task.clues, config.task.puzzle_files) == ((), (str(puzzle_file),))
    with pytest.raises(UsageError, match="puzzles are for Sudoku recipes, not for 'markov'"):
        configuration(TrainRequest("markov", puzzles=(puzzle_file,)))


def test_the_quick_evaluation_may_solve_a_file(puzzle_file):
    run = override(recipe("sudoku"), [f'task.evaluate_file="{puzzle_file}"', "task.evaluate_n=5"])
    puzzles, solutions = run.task.held_out
    assert len(puzzles) == len(solutions) == 5
    assert np.array_equal(puzzles, csvfile.read(puzzle_file)[0][:5])
