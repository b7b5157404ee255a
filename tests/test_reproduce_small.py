"""benchmarks/reproduce_small.py: commands run once, timed, also after a stop; the list reads its file."""

import json
import subprocess

import pytest

from dbtm.service.reproduction import states
from dbtm.service.reproduction.registry import ENTRIES
from dbtm.service.reproduction.steps.base import Resources
from tests.scripts import load_script

RAN = ("tab:ril-setup", "tab:optimal-anchor")  # exact: nothing is trained


@pytest.fixture(scope="module")
def small():
    return load_script("reproduce_small")


@pytest.fixture(scope="module")
def recorded(small, tmp_path_factory):
    """(words, folder, file) of two tables that ran."""
    folder = tmp_path_factory.mktemp("small")
    words = [*RAN, "--out", str(folder / "reproduce"), "--json", str(folder / "small.json")]
    small.main(words)
    return words, folder / "reproduce", folder / "small.json"


def test_the_file_has_what_was_printed_and_its_time(recorded, tmp_path, monkeypatch):
    _, out, path = recorded
    entries = json.loads(path.read_text())["entries"]
    assert list(entries) == sorted(RAN, key=list(ENTRIES).index), "in the paper's order"
    assert [entries[label]["ran"] for label in RAN] == [1, 2]
    for label in RAN:
        printed = json.loads((out / f"{label.replace(':', '-')}-small.json").read_text())
        assert entries[label]["rows"] == printed["rows"]
        assert 0.3 < entries[label]["cpu_seconds"] < 300, "at least Python has started"
    monkeypatch.setattr(states, "ran_small", entries.get)
    found = states.state_of(ENTRIES[RAN[0]], tmp_path, Resources()).by_scale["small"]
    assert found == f"possible now; ran in {entries[RAN[0]]['cpu_seconds']:.0f} CPU s"


def test_what_has_run_is_not_run_again(small, recorded, monkeypatch):
    words, out, path = recorded
    before = path.read_text()
    with (out / small.TIMES).open("a") as file:
        file.write('{"name": "tab:hyperpar')  # what a kill leaves
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("ran already"))
    small.main(words)
    assert path.read_text() == before


def test_a_table_of_another_plan_is_run_again(small, recorded, monkeypatch):
    words, out, _ = recorded
    document = out / "tab-ril-setup-small.json"
    document.write_text(json.dumps({**json.loads(document.read_text()), "plan": "another"}))
    ran = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: ran.append(command[4]))
    small.main(words)
    assert ran == ["tab:ril-setup"]
    assert list(small.cpu_seconds(out)) == ["tab:optimal-anchor", "tab:ril-setup"]
