"""Attention against the delta rule: the summary of known numbers, and a small measurement."""

import json
import re

import pytest
import torch
import typer
from typer.testing import CliRunner

from dbtm.bench import backbones
from dbtm.bench.backbones import BackboneTiming, draw, measure, summary
from dbtm.cli.bench_backbone import backbone
from dbtm.config import ModelConfig
from dbtm.core.errors import UsageError

app = typer.Typer()
app.command()(backbone)


def known_rows() -> list[BackboneTiming]:
    """Attention l^2, mixed 2 l^1.5, delta 100 l; attention does not fit at the largest length."""
    laws = {"attention": lambda l: float(l**2), "mixed": lambda l: 2 * l**1.5, "delta": lambda l: 100.0 * l}
    rows = []
    for l in (16, 64, 256, 1024):
        for name, law in laws.items():
            fits = name != "attention" or l < 1024
            rows.append(BackboneTiming(name, l, *([law(l)] * 4)) if fits else BackboneTiming(name, l))
    return rows


def test_summary():
    found = summary(known_rows())
    for name in backbones.MEASURES:
        entry = found[name]
        assert entry["exponent"] == pytest.approx({"attention": 2, "mixed": 1.5, "delta": 1})
        assert entry["exponent_at_the_end"] == pytest.approx({"attention": 2, "mixed": 1.5, "delta": 1})
        assert entry["crossing"] == pytest.approx({"mixed": 16, "delta": 100})
        assert entry["ratio"]["delta"] == pytest.approx({16: 6.25, 64: 100 / 64, 256: 100 / 256})
    figure = draw(known_rows(), found)
    assert len(figure.axes) == 4
    assert all(len(ax.lines) >= 3 for ax in figure.axes)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("too long"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes."),
    ],
    ids=["gpu", "cpu"],
)
def test_measurement_and_running_out_of_memory(monkeypatch, error):
    """A backbone that does not fit leaves a gap and is not tried again; the others continue."""
    original, tried = backbones.calls, []

    def calls(config, length, *others):
        tried.append((config.pattern, length))
        if config.pattern == "attn" and length > 8:
            raise error
        return original(config, length, *others)

    monkeypatch.setattr(backbones, "calls", calls)
    base = ModelConfig(width=16, depth=1, heads=2, dropout=0.0)
    rows = list(measure(base, (8, 16, 20), 1, torch.device("cpu"), repeats=1))
    assert len(rows) == 9
    missing = {(row.backbone, row.length) for row in rows if row.step_ms is None}
    assert missing == {("attention", 16), ("attention", 20)}
    assert all(row.forward_ms > 0 and row.step_bytes > row.forward_bytes > 0 for row in rows if row.step_ms is not None)
    assert ("attn", 20) not in tried


def test_other_errors_are_not_taken_for_a_lack_of_memory(monkeypatch):
    def calls(*_):
        raise RuntimeError("a fault")

    monkeypatch.setattr(backbones, "calls", calls)
    base = ModelConfig(width=16, depth=1, heads=2, dropout=0.0)
    with pytest.raises(RuntimeError, match="a fault"):
        list(measure(base, (8,), 1, torch.device("cpu"), repeats=1))


def test_command(tmp_path):
    files = {"--json": tmp_path / "b.json", "--figure": tmp_path / "b.svg"}
    words = ["--lengths", "8,16", "--width", "16", "--head-width", "8", "--depth", "4", "--repeats", "1"]
    options = [str(word) for pair in files.items() for word in pair]
    result = CliRunner().invoke(app, [*words, "--device", "cpu", *options], catch_exceptions=False)
    assert result.exit_code == 0
    assert re.search(r"16 .* ms .*\(x \d", result.output)
    found = json.loads(files["--json"].read_text())
    assert [row["length"] for row in found["rows"]] == [8] * 3 + [16] * 3
    assert set(found["step_ms"]["exponent"]) == {"attention", "mixed", "delta"}
    assert found["hardware"].startswith("cpu")
    assert found["kernels"]["delta"].startswith("reference")
    assert "<svg" in files["--figure"].read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.json", "b.svg"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--lengths", "8,x"], "--lengths 8,x"),
        (["--lengths", "0"], "--lengths 0"),
        (["--width", "20", "--head-width", "16"], "--width 20"),
        (["--figure", "b.txt"], "--figure b.txt"),
        (["--batch", "0"], "--batch"),
        (["--depth", "3"], "--depth 3"),
        (["--width", "0"], "--width 0"),
        (["--softcap", "nan"], "--softcap nan must be at least 0"),
    ],
)
def test_bad_input_is_one_line(words, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        CliRunner().invoke(app, words, catch_exceptions=False)
