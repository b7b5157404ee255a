"""docs/python.md runs from its first block to its last, and docs/api.md has every public name."""

import re
from pathlib import Path

import pytest

import dbtm

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "python.md").read_text()


def test_its_blocks_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(compile(code, "python.md", "exec"), names)
    out = capsys.readouterr().out
    assert "8 5 9 | 6 1 2 | 4 3 7" in out
    assert "nfe=0 must be positive" in out
    assert [step for step, _ in names["losses"].seen][-1] == 30
    assert repr(names["again"]).startswith("Model('rows-model': own by dbtm")


def test_only_the_hub_needs_a_network():
    (hub,) = re.findall(r"```py\n(.*?)```", PAGE, re.S)
    assert set(re.findall(r"hf://|push_to_hub", hub)) == {"hf://", "push_to_hub"}
    compile(hub, "python.md", "exec")


@pytest.mark.parametrize("name", sorted({*dbtm.__all__} - {"__version__"}))
def test_the_reference_has_every_public_name(name):
    assert re.search(rf"^::: dbtm\.[\w.]*\.{name}$", (DOCS / "api.md").read_text(), re.M)


@pytest.mark.parametrize("name", ["solve", "write", "infill", "sample", "save_pretrained", "push_to_hub"])
def test_the_guide_names_every_call_of_a_model(name):
    assert callable(getattr(dbtm.Model, name))
    assert f".{name}(" in PAGE or f"`{name}`" in PAGE
