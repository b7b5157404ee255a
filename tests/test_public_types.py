"""What users import is checked strictly, and type checkers and editors know its types."""

import ast
import os
import re
import tomllib
from pathlib import Path

import pytest

import dbtm

ROOT = Path(__file__).parent.parent

USER = """
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dbtm


@dbtm.register
@dataclass(frozen=True)
class Own(dbtm.Task):
    name = "own-of-a-user"
    vocab: int = 2
    length: int = 8


class Bare(dbtm.Method):
    name = "bare"


class Full(dbtm.Method[dbtm.MethodConfig, dbtm.SampleConfig]):
    name = "full"


class Print(dbtm.Callback):
    def record(self, step: int, values: Mapping[str, float]) -> None:
        print(step, values["loss"])


def shown(model: dbtm.Model) -> str:
    return model.write(prompt="The", nfe=4).texts[0]


reveal_type(Own(vocab=3))
reveal_type(dbtm.load("text"))
reveal_type(dbtm.load("text").compile())
reveal_type(dbtm.load("sudoku").solve("8500"))
reveal_type(dbtm.load("sudoku").solve(["8500", "0001"], tries=2))
reveal_type(dbtm.load("text").infill("The ____"))
reveal_type(dbtm.load("text").sample(2, nfe=4).texts)
reveal_type(dbtm.override(dbtm.recipe("own").on(Own()), ["train.steps=60"]))
reveal_type(dbtm.fit("own", data="rows.txt", minutes=1, callbacks=[Print()]))
dbtm.lod
"""
REVEALED = [
    "user.Own",
    "dbtm.service.model.Model",
    "dbtm.service.model.Model",
    "dbtm.service.model.Solution",
    "list[dbtm.service.model.Solution]",
    "dbtm.service.model.Samples",
    "list[str]",
    "dbtm.config.run.RunConfig",
    "pathlib.Path",
]
SETTINGS = """
[mypy]
strict = true
follow_imports = silent
ignore_missing_imports = true
"""


def test_every_public_name_is_in_a_module_that_is_checked_strictly():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    (strict,) = (rule for rule in settings["overrides"] if rule.get("disallow_untyped_defs"))
    homes = {getattr(dbtm, name).__module__ for name in dbtm.__all__ if name != "__version__"}
    assert homes <= {*strict["module"]}
    assert (Path(dbtm.__file__).parent / "py.typed").is_file()


def test_type_checkers_see_the_names_that_there_are():
    """The imports under TYPE_CHECKING, `__all__`, and the modules that are imported on first use."""
    tree = ast.parse(Path(dbtm.__file__).read_text())
    (checked,) = (node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    seen = {alias.name: line.module for line in checked.body for alias in line.names}
    assert seen == dbtm._MODULES
    assert sorted([*seen, "__version__"]) == dbtm.__all__ == dir(dbtm)


def test_a_users_file_passes_the_strictest_check(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    (tmp_path / "user.py").write_text(USER)
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MYPYPATH", str(Path(dbtm.__file__).parents[1]))
    quick = ["--no-site-packages", "--cache-dir", os.devnull]  # without PyTorch, which takes a minute to read
    out, failed, _ = api.run(["--config-file", "mypy.ini", *quick, "user.py"])
    assert not failed
    assert re.findall('Revealed type is "(.*)"', out) == REVEALED
    (error,) = (line for line in out.splitlines() if "error" in line and "Found" not in line)
    assert 'Module has no attribute "lod"' in error
