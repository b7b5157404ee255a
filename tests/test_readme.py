"""The README is true: its Python example runs, its commands exist, its numbers (and those of docs/) are of results/."""

import json
import re
from pathlib import Path

from typer.main import get_command

from dbtm.checkpoint.loading import find
from dbtm.cli import app
from dbtm.core.registry import METHODS, TASKS
from tests.scripts import load_script

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_python_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len(code.strip().splitlines()) == 5
    exec(compile(code, "README.md", "exec"), {})
    grid, *texts = capsys.readouterr().out.split("The ", 2)
    assert grid.splitlines()[0] == "8 5 9 | 6 1 2 | 4 3 7"
    assert texts[0].startswith("river")
    assert " of the town" in texts[1]


def test_the_page_on_ones_own_runs(tmp_path, monkeypatch, capsys):
    """A task and a method that are told about there are trained, saved, loaded and sampled."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "own.md").read_text(), re.S)
    assert len(blocks) == 2
    told: dict = {}
    try:
        for code in blocks:
            exec(compile(code, "own.md", "exec"), told)
    finally:
        TASKS.known.pop("parity", None)
        METHODS.known.pop("bigram", None)
    out, err = capsys.readouterr()
    assert out.count("[[") == 2
    assert re.search(r"\n  right  1 NFE [\d.]+  4 NFE [\d.]+\n", err)
    assert "cross_entropy" in err
    saved = [json.loads(path.read_text())["method"]["name"] for path in tmp_path.glob("runs/*/step-*/config.json")]
    assert sorted(saved) == ["bigram", "dbtm"]


def test_the_callback_on_the_page_on_tracking_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "track.md").read_text(), re.S)
    exec(compile(code, "track.md", "exec"), {})
    assert re.match(r"step 5: lowest loss \d+\.\d{4}\n", capsys.readouterr().out)


def test_the_page_on_traces_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "trace.md").read_text(), re.S)
    exec(compile(code, "trace.md", "exec"), {})
    rounds = re.findall(r"round (\d): +(\d+) of 89 committed, lowest score [01]\.\d\d\n", capsys.readouterr().out)
    assert rounds[0][0] == "1"
    assert rounds[-1] == ("8", "89")


def test_its_tables_are_those_of_results():
    module = load_script("readme")
    for page in module.TABLES:
        assert module.rendered(page) == (ROOT / page).read_text(), "run python benchmarks/readme.py"


def test_the_sudoku_table_is_of_the_packaged_weights():
    measured = json.loads((ROOT / "results" / "sudoku.json").read_text())["model"]["sha256"]
    assert measured == json.loads((find("sudoku") / "manifest.json").read_text())["ema.safetensors"]


def test_it_can_be_read_in_a_few_minutes():
    """At most 900 words as `wc -w` counts them, those of tables and code included."""
    assert len(README.split()) <= 900


def test_every_command_it_names_exists():
    commands = set(get_command(app).commands)
    cells = " ".join(re.findall(r"^\| (`dbtm.*?) \|", README, re.M))
    named = {*re.findall(r"`dbtm (\w+)", README), *re.findall(r"`(?:dbtm )?(\w+)", cells)}
    assert named <= commands
    assert {"demo", "train", "sample", "recipes", "doctor", "solve"} <= named
    assert {"make demo", "make test"} <= set(re.findall(r"make \w+", README))
