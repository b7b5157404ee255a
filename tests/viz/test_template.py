"""The viewer's modules, joined to one script: nothing is lost, nothing collides, and the policy names what is there."""

import base64
import hashlib
import re
import shutil
import subprocess

import numpy as np
import pytest

from dbtm.viz.states import GridState
from dbtm.viz.sudoku_page import sudoku_page
from dbtm.viz.template import REPLAY, join_modules, read_asset

NAMES = re.compile(r"^(?:export )?(?:async )?(?:function|const|let|class) +(\w+)", re.MULTILINE)
IMPORTS = re.compile(r'^import \{ ([\w, ]+) \} from "\./(\w+\.js)";$', re.MULTILINE)


def test_top_level_names_differ_and_imports_come_first():
    seen: list[str] = []
    for name in REPLAY:
        text = read_asset(name)
        assert text.count("\nimport ") + text.startswith("import ") == len(IMPORTS.findall(text)), name
        for imported, origin in IMPORTS.findall(text):
            assert REPLAY.index(origin) < REPLAY.index(name), f"{name} stands before {origin}"
            assert set(imported.split(", ")) <= set(NAMES.findall(read_asset(origin))), f"{name} imports {imported}"
        seen += NAMES.findall(text)
    assert len(seen) == len(set(seen)), sorted(name for name in seen if seen.count(name) > 1)


def test_no_module_writes_markup_or_calls_out():
    forbidden = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|fetch\(|https?:"
    for name in REPLAY:
        assert not re.search(forbidden, read_asset(name)), name


def test_the_joined_script_has_no_module_syntax_left():
    assert not re.search(r"^(import|export) ", join_modules(REPLAY), re.MULTILINE)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_joined_script_is_a_script(tmp_path):
    path = tmp_path / "replay.mjs"
    path.write_text(join_modules(REPLAY), encoding="utf-8")
    checked = subprocess.run(["node", "--check", path], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("element", ["style", "script"])
def test_the_policy_allows_what_the_page_holds_and_nothing_else(element):
    text = sudoku_page(np.zeros(16, np.uint8), [GridState(np.ones(16, np.uint8))], {"title": "'; script-src *"})
    policy = re.search(r'http-equiv="Content-Security-Policy" content="(.*?)"', text)[1]
    (allowed,) = re.findall(rf"{element}-src '(.*?)'", policy)
    held = re.search(rf"<{element}(?: type=\"module\")?>(.*?)</{element}>", text, re.DOTALL)[1]
    assert allowed == "sha256-" + base64.b64encode(hashlib.sha256(held.encode()).digest()).decode()
    assert policy.startswith("default-src 'none';")
