"""A Sudoku's refinement as one HTML file that replays it: no network, no fonts or scripts from elsewhere."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dbtm.viz.grid import Round
from dbtm.viz.template import page


def sudoku_page(puzzle_C: np.ndarray, rounds: Sequence[Round], meta: Mapping[str, object]) -> str:
    """The page of one trace.

    `meta["title"]` is the heading; everything else in `meta` (NFE, kappa, milliseconds, whether it is solved ...) is
    shown under it, in order. Opened as `page.html#3`, the page starts at round 3.
    """
    return page("sudoku.html", "A Sudoku, refined", meta, _data(puzzle_C, rounds))


def _data(puzzle_C: np.ndarray, rounds: Sequence[Round]) -> dict[str, Any]:
    return {
        "puzzle": np.asarray(puzzle_C).tolist(),
        "rounds": [
            {
                "values": np.asarray(now.values_C).tolist(),
                "committed": np.asarray(now.committed_C).astype(int).tolist(),
                "score": [round(float(s), 4) if math.isfinite(s) else None for s in now.score_C],
            }
            for now in rounds
        ],
    }
