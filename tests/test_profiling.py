"""benchmarks/profiling.py: where the time of a step and of a round goes, at a small size."""

import json

import pytest

from tests.scripts import load_script

SMALL = ("model.width=16", "model.depth=1", "model.heads=2", "train.batch=4", "method.quality.width=16")


@pytest.mark.parametrize("what", ["step", "round"])
def test_operators_by_time(what, tmp_path, monkeypatch, capsys):
    words = [what, "markov", "--device", "cpu", "--batch", "2", "--json", tmp_path / "a.json"]
    words += [word for change in SMALL for word in ("--set", change)]
    monkeypatch.setattr("sys.argv", ["profiling.py", *map(str, words)])
    load_script("profiling").main()
    found = json.loads((tmp_path / "a.json").read_text())
    times = [row["ms"] for row in found["kernels"]]
    assert times == sorted(times, reverse=True)
    assert 0 < sum(times) <= found["busy_ms"] * 1.001
    assert any(row["kernel"].startswith("aten::") for row in found["kernels"])
    assert f"{what} of markov: wall" in capsys.readouterr().out
