"""benchmarks/profiling.py: where the time of a step and of a round goes, at a small size."""

import json

import pytest
import torch

from tests.scripts import load_script

SMALL = ("model.width=16", "model.depth=1", "model.heads=2", "train.batch=4", "method.quality.width=16")


@pytest.mark.parametrize("what", ["step", "round"])
def test_operators_by_time(what, tmp_path, monkeypatch, capsys):
    words = [what, "markov", "--device", "cpu", "--batch", "2", "--json", tmp_path / "a.json"]
    words += [word for change in SMALL for word in ("--set", change)]
    monkeypatch.setattr("sys.argv", ["profiling.py", *map(str, words)])
    load_script("profiling").main()
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["busy_ms"] > 0
    assert any(row["kernel"].startswith("aten::") for row in found["kernels"])
    assert f"{what} of markov: wall" in capsys.readouterr().out


def test_launches_are_counted_per_unit():
    a = torch.randn(8, 8)
    found = load_script("profiling").measured(lambda: [a @ a for _ in range(6)], 3, torch.device("cpu"))
    assert next(row["launches"] for row in found["kernels"] if row["kernel"] == "aten::mm") == 2
