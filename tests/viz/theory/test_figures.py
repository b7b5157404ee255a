"""The figures of the theory by name, from Python and as `dbtm theory`: settings, errors, numbers and files."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from dbtm.cli.theory import app
from dbtm.core.errors import UsageError
from dbtm.service.theory import FIGURES, FigureRequest, draw_figure, find_figure, setting_for


def refusal(*words: str) -> str:
    """The one line that a wrong command answers."""
    result = CliRunner().invoke(app, list(words))
    assert isinstance(result.exception, UsageError), result.output
    return str(result.exception)


def test_list_names_every_figure_with_its_options() -> None:
    result = CliRunner().invoke(app, ["list"])
    assert result.exit_code == 0
    for name, entry in FIGURES.items():
        assert name in result.output
        assert entry.about in result.output
    assert "--p 0.4,0.38,0.2,0.02" in result.output


def test_a_figure_is_saved_in_three_forms(tmp_path: Path) -> None:
    """`dbtm theory basins` writes a picture, a drawing that parses, and the numbers; nothing else."""
    result = CliRunner().invoke(app, ["basins", "--p", ".4,.3,.2,.1", "--out", str(tmp_path / "new")])
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["basins.json", "basins.png", "basins.svg"]
    assert (tmp_path / "new" / "basins.png").read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(tmp_path / "new" / "basins.svg").getroot().tag.endswith("svg")
    record = json.loads((tmp_path / "new" / "basins.json").read_text())
    assert record["setting"]["p"] == pytest.approx([0.4, 0.3, 0.2, 0.1])
    assert np.all(np.diff(record["numbers"]["birth_times"]) > 0)
    assert sum(record["numbers"]["autonomous_share"]) == pytest.approx(1.0)


def test_phase_numbers_follow_the_options() -> None:
    """The figure's own commitment times are those of its sigma and a."""
    result = draw_figure(FigureRequest("phase", sigma=0.5, a=2.0))
    expected = 1 - (1 + 0.5 * np.sqrt(2 * np.log(12))) ** -0.5
    numbers = result.drawing.numbers["V=12"]
    assert numbers["t_star"] == pytest.approx(expected)
    exact, simulated = np.array(numbers["exact"]), np.array(numbers["simulated"])
    assert np.abs(exact[::8] - simulated).max() < 0.04


def test_mistakes_are_one_clear_line(tmp_path: Path) -> None:
    assert "did you mean 'simplex'?" in refusal("simplx")
    assert refusal("phase", "--p", ".5,.5") == "figure 'phase' does not read p; it reads a, sigma"
    assert "must sum to one, got 0.7" in refusal("simplex", "--p", ".5,.2")
    assert "positive probabilities" in refusal("simplex", "--p", "1.2,-.2")
    assert "got '.5;.5'" in refusal("simplex", "--p", ".5;.5")
    assert "draws 3 vertices; p gives 2" in refusal("simplex", "--p", ".5,.5", "--out", str(tmp_path / "x"))
    assert "sigma must be positive" in refusal("births", "--sigma", "0")
    assert "a must be at least one" in refusal("simplex", "--a", "0.5")
    assert "sigma must be positive, got nan" in refusal("births", "--sigma", "nan")
    assert not (tmp_path / "x").exists()
    taken = tmp_path / "taken"
    taken.write_text("a file")
    assert "as the folder for the files" in refusal("births", "--out", str(taken))
    assert taken.read_text() == "a file"


def test_near_one_probabilities_are_scaled_to_one() -> None:
    assert sum(setting_for(FigureRequest("simplex", p=(1 / 3, 1 / 3, 0.3333333))).p) == pytest.approx(1.0, abs=1e-15)


def test_unknown_names_are_refused_in_python_too() -> None:
    with pytest.raises(UsageError, match="no theory figure 'births2'"):
        find_figure("births2")
