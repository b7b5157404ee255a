"""A Sudoku's refinement as one HTML file that replays it: no network, no fonts or scripts from elsewhere."""

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files

import numpy as np

from dbtm.viz.grid import Round


def sudoku_page(puzzle_C: np.ndarray, rounds: Sequence[Round], meta: Mapping[str, object]) -> str:
    """The page of one trace.

    `meta["title"]` is the heading; everything else in `meta` (NFE, kappa, milliseconds, whether it is solved ...) is
    shown under it, in order. Opened as `page.html#3`, the page starts at round 3.
    """
    facts = "".join(
        f"<div><dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd></div>"
        for name, value in meta.items()
        if name != "title"
    )
    fields = {
        "TITLE": escape(str(meta.get("title", "A Sudoku, refined"))),
        "FACTS": facts,
        "DATA": _data(puzzle_C, rounds),
    }
    # Split at the fields and join once, so that text such as @@DATA@@ inside a field stays what it is.
    parts = files("dbtm.viz").joinpath("sudoku.html").read_text(encoding="utf-8").split("@@")
    return "".join(fields[part] if index % 2 else part for index, part in enumerate(parts))


def _data(puzzle_C: np.ndarray, rounds: Sequence[Round]) -> str:
    """The trace as JSON that may stand inside a script element."""
    data = {
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
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
