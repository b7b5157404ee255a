"""Puzzle files: round trip, atomic writing, and bad rows named by line."""

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.tasks.sudoku import csvfile
from dbtm.tasks.sudoku.generate import generate

from .oracle import HARD, UNSOLVABLE, WIKIPEDIA, grid

GOOD = ",".join(WIKIPEDIA)


@pytest.mark.parametrize("box", [2, 3])
def test_round_trip(tmp_path, box):
    puzzles_BC, solutions_BC = generate(8 if box == 2 else 30, 50, seed=1, box=box)
    csvfile.write(tmp_path / "a.csv", puzzles_BC, solutions_BC)
    assert np.array_equal(csvfile.read(tmp_path / "a.csv"), (puzzles_BC, solutions_BC))
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_the_format_is_the_documented_one(tmp_path):
    csvfile.write(tmp_path / "a.csv", grid(WIKIPEDIA[0])[None], grid(WIKIPEDIA[1])[None])
    assert (tmp_path / "a.csv").read_bytes().decode() == f"puzzle,solution\n{GOOD}\n"


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "a.csv").write_text("old")
    with pytest.raises(TypeError):
        csvfile.write(tmp_path / "a.csv", [grid(WIKIPEDIA[0]), None], [grid(WIKIPEDIA[1])] * 2)
    assert (tmp_path / "a.csv").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_missing_solutions_are_found(tmp_path):
    (tmp_path / "a.csv").write_text(f"puzzle\n{WIKIPEDIA[0]}\n\n{HARD[0].replace('0', '.')}\n")
    puzzles_BC, solutions_BC = csvfile.read(tmp_path / "a.csv")
    assert np.array_equal(puzzles_BC, [grid(WIKIPEDIA[0]), grid(HARD[0])])
    assert np.array_equal(solutions_BC, [grid(WIKIPEDIA[1]), grid(HARD[1])])


def test_what_a_spreadsheet_writes_is_read(tmp_path):
    """A byte order mark, Windows line ends, quotes and a capital."""
    (tmp_path / "a.csv").write_bytes(f'\ufeffPuzzle,Solution\r\n"{WIKIPEDIA[0]}","{WIKIPEDIA[1]}"\r\n'.encode())
    assert np.array_equal(csvfile.read(tmp_path / "a.csv")[1][0], grid(WIKIPEDIA[1]))


wrong_solution = WIKIPEDIA[1][:-1] + "1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 must be the header"),
        (GOOD, "line 1 must be the header"),
        ("puzzle,solution\n", "has no puzzles"),
        (f"puzzle,solution\n{GOOD}\n{GOOD},x\n", "line 3: found 3 columns, expected 2"),
        (f"puzzle,solution\n{GOOD}\n{WIKIPEDIA[0]}\n", "line 3: found 1 columns"),
        (f"puzzle,solution\n{GOOD}\n\n{GOOD[1:]}\n", "line 4: the puzzle has 80 characters, expected 81"),
        (f"puzzle,solution\n{GOOD[:-1]}\n", "line 2: the solution has 80 characters"),
        ("puzzle\n12x\n", "line 2: the puzzle has 3 characters, expected 81 (or 16 for 4 x 4)"),
        (f"puzzle\n{WIKIPEDIA[0]}\n{'0' * 16}\n", "line 3: the puzzle has 16 characters, expected 81"),
        (f"puzzle,solution\n{GOOD[:4]}x{GOOD[5:]}\n", "line 2: 'x' at character 5 of the puzzle: use 1 to 9"),
        (f"puzzle\n{'0' * 15}5\n", "line 2: '5' at character 16 of the puzzle: use 1 to 4"),
        (
            f"puzzle,solution\n{GOOD}\n{WIKIPEDIA[0]},{wrong_solution}",
            "line 3: the solution is wrong: row 9 column 9 is 1",
        ),
        (f"puzzle,solution\n{'0' * 81},{wrong_solution}", "line 2: the solution is wrong: row 9 has two 1s"),
        (f"puzzle,solution\n{WIKIPEDIA[0]},{HARD[1]}", "row 1 column 1 is 8, but the clue there is 5"),
        (f"puzzle,solution\n{WIKIPEDIA[0]},{WIKIPEDIA[0]}", "row 1 column 3 is empty"),
        (f"puzzle\n{WIKIPEDIA[0]}\n11{'0' * 79}\n", "line 3: the puzzle has no solution: row 1 has two 1s"),
        (f"puzzle\n{UNSOLVABLE}\n", "line 2: the puzzle has no solution: look for a mistyped clue"),
        (f"puzzle\n{WIKIPEDIA[0]}\n{'0' * 81}\n", "line 3: the puzzle has several solutions"),
        (f"puzzle,solution\n{'0' * 81},{WIKIPEDIA[1]}\n", "line 2: the puzzle has several solutions"),
    ],
)
def test_bad_files_are_refused_by_line(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(UsageError) as error:
        csvfile.read(tmp_path / "a.csv")
    assert message in str(error.value)
    assert "a.csv" in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .*: No such file"):
        csvfile.read(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes(b"puzzle\n\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot read"):
        csvfile.read(tmp_path / "binary.csv")
