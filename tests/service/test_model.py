"""A model as Python users hold it, and repositories of a hub that is a fake."""

import json
import sys
import types
from pathlib import Path

import pytest

import dbtm
from dbtm.core.errors import UsageError
from dbtm.service import hub
from dbtm.service.solving import BUILT_IN
from tests.evals.tiny import mini_sudoku, write_checkpoint

EASY = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
ANSWER = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"


@pytest.fixture(scope="module")
def sudoku():
    return dbtm.load("sudoku", device="cpu")


@pytest.fixture(scope="module")
def text():
    return dbtm.load("text", device="cpu")


def test_a_sudoku_is_solved(sudoku):
    found = sudoku.solve(EASY, nfe=4)
    assert found.solved
    assert found.digits == ANSWER
    assert repr(found).startswith(f"solved ({found.nfe} network evaluation")
    assert "5 3 4 | 6 7 8 | 9 1 2" in str(found)
    page = found._repr_html_()
    assert page.count("<td") == 81
    assert page.count("font-weight:bold") == sum(c != "0" for c in EASY)


def test_tries_end_with_the_first_right_answer(sudoku, untrained_mini):
    assert sudoku.solve(EASY, tries=3).tries == 1
    wrong = untrained_mini.solve(BUILT_IN[16], tries=3, nfe=1)
    assert (wrong.solved, wrong.tries) == (False, 3)
    assert repr(wrong).startswith("wrong: ")


@pytest.fixture(scope="module")
def untrained_mini(tmp_path_factory):
    return dbtm.load(write_checkpoint(mini_sudoku(), tmp_path_factory.mktemp("untrained")), device="cpu")


def test_errors_speak_of_arguments(sudoku, text):
    for call in (
        lambda: sudoku.solve("12"),
        lambda: sudoku.solve(EASY, tries=0),
        lambda: sudoku.solve(EASY, nfe=0),
        lambda: sudoku.write("The"),
        lambda: text.solve(EASY),
        lambda: text.write("The", nfee=3),
        lambda: dbtm.load("no-such-model"),
    ):
        with pytest.raises(UsageError) as error:
            call()
        assert "--" not in str(error.value)


def test_text_is_written_around_what_is_given(text):
    written = text.write(prompt="The river", nfe=2, n=2, seed=3)
    assert len(written.texts) == len(written) == 2
    assert all("The river" in each for each in written.texts)
    filled = text.infill("The ____ of the city", hole=3, nfe=2)
    assert filled.texts[0].split("of the city")[0].strip().startswith("The ")
    assert (written.nfe <= 2).all()


def test_samples_know_their_texts(text):
    drawn = text.sample(7, nfe=1)
    assert drawn.texts == [text.task.text(row) for row in drawn.tokens]
    assert repr(drawn).splitlines()[0] == "7 samples, 1 network evaluations each:"
    assert repr(drawn).endswith("... and 2 more")
    assert drawn._repr_html_().count("<tr>") == 7


def test_markup_of_a_sample_stays_text(tmp_path, untrained_mini):
    from dataclasses import replace

    import numpy as np

    class Tags(dbtm.Task):
        def text(self, tokens):
            return "<script>alert(1)</script>"

    drawn = replace(untrained_mini.sample(1, nfe=1), task=Tags())
    assert "<script>" not in drawn._repr_html_()
    assert np.array_equal(drawn.tokens, untrained_mini.sample(1, nfe=1).tokens)


def test_a_model_says_what_it_is(sudoku):
    assert repr(sudoku).startswith("Model('sudoku': sudoku by dbtm, ")
    assert "length 162" in repr(sudoku) or "length" in repr(sudoku)


# -- saving and the hub ------------------------------------------------------------------------------------------------


def test_what_is_saved_loads_the_same(untrained_mini, tmp_path):
    saved = untrained_mini.save_pretrained(tmp_path / "saved")
    names = {path.name for path in saved.iterdir()}
    assert {"config.json", "ema.safetensors", "manifest.json", "README.md"} <= names
    assert not names & {"model.safetensors", "optim.safetensors", "state.json"}
    again = dbtm.load(saved, device="cpu")
    assert (again.sample(3, nfe=2).tokens == untrained_mini.sample(3, nfe=2).tokens).all()
    card = (saved / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: dbtm\n")
    assert 'model.solve("8500...")' in card
    with pytest.raises(UsageError, match="not empty"):
        untrained_mini.save_pretrained(saved)


@pytest.fixture
def fake_hub(monkeypatch, tmp_path):
    """{repository: folder}, and the calls that were made; there is no network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shelf, calls = tmp_path / "hub", []

    def snapshot_download(repo_id, revision, local_dir, allow_patterns, repo_type):
        calls.append(("fetch", repo_id, revision, tuple(allow_patterns)))
        source = shelf / repo_id
        if not source.is_dir():
            raise ConnectionError("404\nmore lines")
        Path(local_dir).mkdir(parents=True, exist_ok=True)
        for path in source.iterdir():
            (Path(local_dir) / path.name).write_bytes(path.read_bytes())

    class HfApi:
        def __init__(self, token=None):
            calls.append(("login", token))

        def create_repo(self, repo_id, repo_type, private, exist_ok):
            calls.append(("create", repo_id, private))

        def upload_folder(self, folder_path, repo_id, commit_message):
            (shelf / repo_id).mkdir(parents=True)
            for path in Path(folder_path).iterdir():
                (shelf / repo_id / path.name).write_bytes(path.read_bytes())
            return types.SimpleNamespace(commit_url=f"https://hub/{repo_id}/commit/1")

    module = types.ModuleType("huggingface_hub")
    module.snapshot_download, module.HfApi = snapshot_download, HfApi
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    return calls


def test_a_model_goes_to_the_hub_and_comes_back(untrained_mini, fake_hub):
    assert untrained_mini.push_to_hub("org/mini", private=True, token="secret") == "https://hub/org/mini/commit/1"
    assert fake_hub[:2] == [("login", "secret"), ("create", "org/mini", True)]
    again = dbtm.load("hf://org/mini@abc123", device="cpu")
    assert fake_hub[-1] == ("fetch", "org/mini", "abc123", tuple(hub.PATTERNS))
    assert (again.sample(2, nfe=2).tokens == untrained_mini.sample(2, nfe=2).tokens).all()
    assert "hf://org/mini@main" in (again.folder / "README.md").read_text()


def test_only_weights_and_documents_are_fetched():
    assert not [pattern for pattern in hub.PATTERNS if pattern.endswith((".py", ".bin", ".pt", ".pkl", "*"))]


@pytest.mark.parametrize("name", ["hf://org/name", "hf://name@main", "hf://../x@main", "hf://org/name@../../etc"])
def test_a_revision_must_be_named(fake_hub, name):
    with pytest.raises(UsageError, match="hf://org/name@revision"):
        dbtm.load(name)
    assert fake_hub == []


def test_a_repository_that_is_not_there_is_a_line(fake_hub):
    with pytest.raises(UsageError, match="cannot fetch hf://org/none@v1: 404") as error:
        dbtm.load("hf://org/none@v1")
    assert "\n" not in str(error.value)


def test_altered_weights_are_refused(untrained_mini, fake_hub, tmp_path):
    untrained_mini.push_to_hub("org/mini")
    path = tmp_path / "hub" / "org" / "mini" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "recipe": "other"}))
    with pytest.raises(UsageError, match="sha256"):
        dbtm.load("hf://org/mini@main")


def test_without_the_library_it_is_a_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UsageError, match=r"pip install 'dbtm\[hub\]'"):
        dbtm.load("hf://org/name@main")
