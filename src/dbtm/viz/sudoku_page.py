"""A Sudoku's trace as one HTML file that replays it: no network, no external fonts or scripts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dbtm.viz.states import GridState, scores
from dbtm.viz.template import fill_template


def sudoku_page(puzzle_C: np.ndarray, states: Sequence[GridState], meta: Mapping[str, object]) -> str:
    """The page of one trace.

    `meta["title"]` is the heading; everything else in `meta` (NFE, kappa, milliseconds, whether it is solved ...) is
    shown under it, in order. Opened as `page.html#3`, the page starts at round 3.
    """
    states = [*states[:-1], states[-1].settled()]
    data = {"puzzle": np.asarray(puzzle_C).tolist(), "rounds": [grid_document(state) for state in states]}
    return fill_template("A Sudoku, refined", meta, data, '<table class="grid" id="view"></table>')


def grid_document(state: GridState) -> dict[str, Any]:
    """A round in the viewer's format."""
    committed_C = state.committed_C
    return {
        "values": np.asarray(state.values_C).tolist(),
        "committed": None if committed_C is None else np.asarray(committed_C).astype(int).tolist(),
        "score": scores(state.score_C),
        "time": state.time,
    }
