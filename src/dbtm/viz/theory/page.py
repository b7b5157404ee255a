"""The interactive page for three vertices: one HTML file with its own mathematics, no network and no library.

For V = 3 the current is a closed form in the scaled complementary error function, which the page evaluates from the
Chebyshev coefficients filled in here. tests/viz/theory/test_page.py compares the page's own code with
dbtm.theory.
"""

import json
from pathlib import Path

import numpy as np
from scipy.special import erfcx

from dbtm.viz.template import join_modules, read_asset
from dbtm.viz.theory.style import VERTEX_COLOURS

_TEMPLATE = Path(__file__).with_name("page.html")
_DEGREE = 24
_NODES = 24


def render_page() -> str:
    """The page as text."""
    core = f"{join_modules(['simplex_core.js'])}Object.assign(K, {json.dumps(constants())});\n"
    fields = {
        "STYLE": "\n".join(map(read_asset, ("base.css", "viewer.css", "simplex.css"))),
        "CORE": f'"use strict";\n{core}',
        "SCRIPT": join_modules(["dom.js", "simplex_view.js", "simplex_page.js"]),
    }
    parts = _TEMPLATE.read_text(encoding="utf-8").split("@@")
    return "".join(fields[part] if index % 2 else part for index, part in enumerate(parts))


def constants() -> dict[str, list]:
    """Constants of the page: a series, a quadrature, and the colours of the vertices."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return {
        "ERFCX": erfcx_coefficients().tolist(),
        "NODES": (0.5 * (1 + nodes)).tolist(),
        "WEIGHTS": (0.5 * weights).tolist(),
        "COLOURS": list(VERTEX_COLOURS[:3]),
    }


def erfcx_coefficients() -> np.ndarray:
    """Chebyshev coefficients, in s = 2 t - 1 on [-1, 1], of log(erfcx(x) / t) with t = 2 / (2 + x) and x >= 0."""

    def smooth(s: np.ndarray) -> np.ndarray:
        t = 0.5 * (1 + s)
        return np.log(erfcx(2.0 / t - 2.0) / t)

    return np.polynomial.chebyshev.chebinterpolate(smooth, _DEGREE)
