"""The token layout against one written out by hand, and its round trip."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dbtm.tasks.sudoku.layout import BOS, PUZZLE, SEPARATOR, SOLUTION, Layout

from .oracle import WIKIPEDIA, grid


def test_the_papers_sizes():
    layout = Layout()
    assert (layout.vocab, layout.grid_length, layout.length, layout.prompt_length) == (12, 89, 180, 91)
    assert layout.prompt_mask().sum() == 91
    assert layout.prompt_mask()[:91].all()


def test_tokens_written_out():
    puzzle, solution = ("0123300000400001", "4123321413422431")
    tokens = Layout(2).encode(grid(puzzle)[None], grid(solution)[None])[0]
    written = [6, 0, 1, 2, 3, 5, 3, 0, 0, 0, 5, 0, 0, 4, 0, 5, 0, 0, 0, 1]
    written += [6, 4, 1, 2, 3, 5, 3, 2, 1, 4, 5, 1, 3, 4, 2, 5, 2, 4, 3, 1]
    assert tokens.tolist() == written
    assert tokens.dtype == np.int64


def test_nine_by_nine_is_rows_joined_by_separators():
    layout = Layout(3)
    tokens = layout.encode(grid(WIKIPEDIA[0])[None], grid(WIKIPEDIA[1])[None])[0]
    halves = [f"{chr(11)}" + chr(10).join(text[i : i + 9] for i in range(0, 81, 9)) for text in WIKIPEDIA]
    expected = [int(c) if c.isdigit() else ord(c) for c in "".join(halves)]
    assert tokens.tolist() == expected


@pytest.mark.parametrize("box", [2, 3])
@given(data=st.data())
def test_round_trip(box, data):
    layout = Layout(box)
    grids = hnp.arrays(np.uint8, (3, box**4), elements=st.integers(0, box * box))
    puzzles, solutions = data.draw(grids), data.draw(grids)
    tokens = layout.encode(puzzles, solutions)
    assert tokens.shape == (3, layout.length)
    assert np.array_equal(layout.decode(tokens), solutions)
    assert np.array_equal(tokens[:, layout.puzzle_positions], puzzles)


def test_without_solutions_the_prompt_is_the_same_and_the_answer_empty():
    layout = Layout(3)
    puzzles, solutions = grid(WIKIPEDIA[0])[None], grid(WIKIPEDIA[1])[None]
    prompt_L = layout.prompt_mask()
    assert np.array_equal(layout.encode(puzzles)[:, prompt_L], layout.encode(puzzles, solutions)[:, prompt_L])
    assert not layout.decode(layout.encode(puzzles)).any()


def test_what_is_no_digit_decodes_as_empty():
    layout = Layout(3)
    tokens = np.full((1, layout.length), layout.bos)
    tokens[0, layout.solution_positions[5]] = layout.separator
    tokens[0, layout.solution_positions[6]] = 9
    assert np.flatnonzero(layout.decode(tokens)[0]).tolist() == [6]


@pytest.mark.parametrize("box", [2, 3])
def test_position_ids(box):
    layout, size = Layout(box), box * box
    ids = layout.position_ids()
    tokens = layout.encode(np.ones((1, box**4)), np.full((1, box**4), 2))[0]
    segment_of_token = {1: PUZZLE, 2: SOLUTION, layout.separator: SEPARATOR, layout.bos: BOS}
    assert ids[:, 3].tolist() == [segment_of_token[token] for token in tokens.tolist()]
    cells = [(r, c, r // box * box + c // box) for r in range(size) for c in range(size)]
    for segment in (PUZZLE, SOLUTION):
        assert [tuple(row) for row in ids[ids[:, 3] == segment][:, :3].tolist()] == cells
    assert (ids[ids[:, 3] >= BOS][:, :3] == size).all()
