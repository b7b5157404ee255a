"""benchmarks/ablations.py: its arms are runs that exist, and its report reads what runs write."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from dbtm.config import override
from dbtm.recipes import recipe

PATH = Path(__file__).parent.parent / "benchmarks" / "ablations.py"


@pytest.fixture(scope="module")
def ablations():
    specification = spec_from_file_location("ablations", PATH)
    module = module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_arms_differ_from_the_base_and_from_each_other(ablations):
    for study in ablations.STUDIES.values():
        runs = [override(recipe(study.recipe), [*study.shared, *arm.settings]) for arm in study.arms]
        assert len({repr(run) for run in runs}) >= len(runs) - 1  # one may spell out a setting of the recipe
        assert len({ablations.folder(Path("out"), arm) for arm in study.arms}) == len(runs)


def test_report(ablations, tmp_path, capsys):
    study = ablations.STUDIES["mini"]
    for i, arm in enumerate(study.arms):
        run = ablations.folder(tmp_path, arm)
        run.mkdir()
        lines = [{"step": 5, "loss": 1.0, "seconds": 2.5}, {"step": 5, "eval/solved_4": 0.25 * i, "eval/score": 1.0}]
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (ablations.folder(tmp_path, study.arms[0]) / "judged.json").write_text('{"rows": [{"nfe": 1, "perplexity": 7.0}]}')
    ablations.report(study, tmp_path, tmp_path / "out.json")
    first, second = json.loads((tmp_path / "out.json").read_text())["arms"]
    assert first["curve"] == [{"step": 5, "seconds": 2.5, "solved_4": 0.0, "score": 1.0}]
    assert first["judged"] == [{"nfe": 1, "perplexity": 7.0}]
    assert second["arm"] == "no transport"
    assert "judged" not in second
    assert (tmp_path / "out.svg").read_text().startswith("<?xml")
    assert "no transport" in capsys.readouterr().out
