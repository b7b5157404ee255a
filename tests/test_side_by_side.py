"""benchmarks/side_by_side.py: rows from the benchmarks' JSON, alternating order, failures in words."""

import json

import pytest

from tests.scripts import load_script


@pytest.fixture
def script(monkeypatch, tmp_path):
    module = load_script("side_by_side")
    (tmp_path / "other" / "src" / "dbtm").mkdir(parents=True)
    asked = []

    def measure(tree, words):
        asked.append(("other" if tree.name == "other" else "this", words[0], words[-1]))
        slow = 2.0 if tree.name == "other" else 1.0
        if "--recipe" in words and words[2] == "broken" and tree.name == "other":
            return {"failed": "no such recipe"}
        if words[0] == "sampler":
            return {"rounds": {"ms_per_round": {"eager": 8.0 * slow}}, "hardware": "h"}
        times = {"cross-entropy": len(asked) * slow, **({"new": 1.0} if tree.name != "other" else {})}
        return {"rows": [{"step": name, "ms": ms} for name, ms in times.items()], "hardware": "h"}

    monkeypatch.setattr(module, "measure", measure)
    return module, asked


def test_both_versions_in_turn(script, tmp_path, capsys):
    module, asked = script
    out = tmp_path / "out.json"
    words = [
        str(tmp_path / "other"),
        "--recipes",
        "a",
        "broken",
        "--turns",
        "2",
        "--out",
        str(out),
        "--",
        "--batch",
        "7",
    ]
    module.main(words)
    assert [version for version, *_ in asked[:4]] == ["other", "this", "this", "other"]
    assert {last for *_, last in asked} == {"7"}, "words after -- reach every benchmark"
    step, broken, sampler = json.loads(out.read_text())["rows"]
    assert step["ms"] == {"this": [2.0, 3.0], "other": [2.0, 8.0]}
    assert step["ratio"] == 0.5
    assert broken == {"bench": "step, broken", "version": "other", "failed": "no such recipe"}
    assert sampler["ratio"] == 0.5
    assert "round, eager: 0.5" in capsys.readouterr().out


def test_a_folder_without_a_version_is_refused(script, tmp_path, capsys):
    with pytest.raises(SystemExit):
        script[0].main([str(tmp_path)])
    assert "has no src/dbtm" in capsys.readouterr().err
