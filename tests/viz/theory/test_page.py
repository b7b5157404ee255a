"""The interactive page: it needs nothing from outside, and its own mathematics agrees with the package."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy.special import erfcx
from typer.testing import CliRunner

from dbtm.cli.theory import app
from dbtm.theory.field import endpoint_form
from dbtm.theory.flow import travel, travel_time_dependent
from dbtm.viz.theory.page import erfcx_coefficients, render_page


def test_page_is_one_file_without_references(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["page", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    text = (tmp_path / "simplex.html").read_text(encoding="utf-8")
    assert "/*CONSTANTS*/" not in text
    assert not re.search(r"https?:|<link|<img|src=|@import|fetch\(|XMLHttpRequest", text)


def test_error_function_coefficients() -> None:
    """The series that the page sums, to near rounding over the whole half line."""
    x = np.concatenate([[0.0], np.geomspace(1e-6, 1e8, 500)])
    t = 2 / (2 + x)
    series = t * np.exp(np.polynomial.chebyshev.chebval(2 * t - 1, erfcx_coefficients()))
    np.testing.assert_allclose(series, erfcx(x), rtol=2e-14)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize(("sigma", "a"), [(1.0, 1.0), (0.3, 2.0), (3.0, 1.5)])
def test_page_computes_what_the_package_computes(sigma: float, a: float, tmp_path: Path) -> None:
    """The page's script, run by node: endpoint, rate, map, hitting time and straightness of 60 starts."""
    core = re.search(r'<script id="core">(.*?)</script>', render_page(), re.DOTALL)
    assert core is not None
    p = [0.5, 0.3, 0.2]
    x = sigma * np.random.default_rng(0).standard_normal((60, 3))
    ask = f"""
        const p = {p}, sigma = {sigma}, a = {a};
        console.log(JSON.stringify({x.tolist()}.map((x) => {{
          const mine = path(x, p, sigma, a, true), other = path(x, p, sigma, a, false);
          const here = [endpoint(x, p, sigma), rate(x, p, sigma, a), transport(x, p, sigma)];
          return [...here, mine.tau, mine.ratio, other.ratio];
        }})));"""
    script = tmp_path / "core.js"
    script.write_text(core[1] + ask, encoding="utf-8")
    answer = json.loads(subprocess.run(["node", script], capture_output=True, text=True, check=True).stdout)
    eta, rate, vertex, tau, ratio, other = map(np.array, zip(*answer))
    form, journey = endpoint_form(x, p, sigma, a), travel(x, p, sigma, a)
    np.testing.assert_allclose(eta, form.eta, atol=1e-12)
    np.testing.assert_allclose(rate, np.exp(form.log_Z), rtol=1e-8)
    assert np.array_equal(vertex, journey.vertex)
    np.testing.assert_allclose(tau, journey.hitting_time, atol=1e-3)
    np.testing.assert_allclose(ratio, journey.ratio, atol=1e-3)
    np.testing.assert_allclose(other, travel_time_dependent(x, p, sigma).ratio, atol=5e-3)
