"""A model as Python users hold it, and repositories of a hub that is a fake."""

import json
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dbtm
from dbtm.core.errors import UsageError
from dbtm.sampling import Sampler
from dbtm.service import hub
from dbtm.service.solving import BUILT_IN, SolveRequest, solve_many
from dbtm.tasks.sudoku.puzzle import parse
from tests.evals.tiny import METHODS, mini_sudoku, write_checkpoint

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
        lambda: sudoku.solve([EASY], tries=0),
        lambda: sudoku.solve(None),
        lambda: sudoku.solve([EASY, 5]),
        lambda: sudoku.write("The"),
        lambda: text.solve(EASY),
        lambda: text.write("The", nfee=3),
        lambda: dbtm.load("no-such-model"),
    ):
        with pytest.raises(UsageError) as error:
            call()
        assert "--" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nfe": 0}, "nfe=0 must be positive"),
        ({"kappa": 7.0}, "kappa=7.0 must be between 0 and 1"),
        ({"nfe": "4"}, "nfe='4' must be of type int"),
    ],
)
def test_a_wrong_option_is_named_as_it_was_given(sudoku, text, options, message):
    calls = (sudoku.solve, EASY), (sudoku.sample, 1), (text.write, "The"), (text.infill, "The ____")
    for call, argument in calls:
        with pytest.raises(UsageError) as error:
            call(argument, **options)
        assert str(error.value) == message


def test_a_mistyped_name_is_corrected():
    with pytest.raises(UsageError, match=r"no such checkpoint: txet; did you mean 'text'\?"):
        dbtm.load("txet")
    with pytest.raises(UsageError) as error:
        dbtm.load("runs/mine")
    assert "did you mean" not in str(error.value)


# -- many puzzles ------------------------------------------------------------------------------------------------------


def test_a_list_of_puzzles_is_solved_together(sudoku, monkeypatch):
    batches = []
    sample = Sampler.sample
    monkeypatch.setattr(
        Sampler, "sample", lambda self, *a, **o: batches.append(len(o["tokens"])) or sample(self, *a, **o)
    )
    found = sudoku.solve([EASY, BUILT_IN[81]], nfe=8)
    assert batches == [2]
    assert [each.puzzle for each in found] == [EASY, BUILT_IN[81]]
    assert found[0].digits == ANSWER
    assert all(each.solved and each.nfe == len(each.result.rounds) for each in found)
    alone = sudoku.solve(EASY, nfe=8)  # puzzle 1 has the same noise in a list
    assert (alone.digits, alone.nfe) == (found[0].digits, found[0].nfe)
    assert sudoku.solve((EASY,), nfe=8)[0].digits == ANSWER
    assert sudoku.solve([]) == []


@pytest.mark.parametrize("method", METHODS)
def test_each_answer_of_a_list_is_that_of_its_sample(method, tmp_path):
    """Samples of a batch end after different numbers of rounds."""
    model = dbtm.load(write_checkpoint(mini_sudoku(method), tmp_path), device="cpu")
    options = {"dbtm": {"nfe": 6, "kappa": 0.3}, "mdlm": {"nfe": 6}, "ar": {}}[method]
    puzzles = [BUILT_IN[16], "1000003004000020", "0100300000020030"]
    grids = [parse(puzzle) for puzzle in puzzles]
    trace = model.sample(**model.task.given(np.stack(grids)), seed=5, **options)
    found = solve_many(SolveRequest(seed=5, options=options), grids, 1, model._plain())
    for (result, tries), answer, nfe in zip(found, model.task.layout.decode(trace.tokens), trace.nfe, strict=True):
        assert np.array_equal(result.solution_C, answer)
        assert (result.nfe, tries) == (nfe, 1)


def test_only_unsolved_puzzles_of_a_list_are_tried_again(untrained_mini, monkeypatch):
    from dbtm.service import solving

    asked = []

    def verdicts(solution_C, puzzle_C):
        asked.append(tuple(puzzle_C))
        return None if len(asked) in (2, 3) else "wrong"  # the second at once, the first when tried again

    monkeypatch.setattr(solving, "violation", verdicts)
    first, second = BUILT_IN[16], "0" * 16
    monkeypatch.setattr("dbtm.service.model.check", lambda puzzle_C: puzzle_C)
    found = untrained_mini.solve([first, second], tries=3, nfe=1)
    assert [each.tries for each in found] == [2, 1]
    assert len(asked) == 3


def test_a_bad_puzzle_of_a_list_is_named(sudoku):
    with pytest.raises(UsageError, match=r"^puzzle 2: the puzzle has 2 cells"):
        sudoku.solve([EASY, "12"])
    with pytest.raises(UsageError, match=r"^puzzle 1: the clues clash"):
        sudoku.solve(["55" + EASY[2:]])


# -- texts -------------------------------------------------------------------------------------------------------------


def test_text_is_written_around_what_is_given(text):
    written = text.write(prompt="The river", nfe=2, n=2, seed=3)
    assert len(written.texts) == len(written) == 2
    assert all("The river" in each for each in written.texts)
    filled = text.infill("The ____ of the city", hole=3, nfe=2)
    assert filled.texts[0].startswith("The ")
    assert filled.texts[0].endswith(" of the city"), "what the model writes after it is left out"
    assert filled.tokens.shape == (1, text.task.length)
    assert text.infill("The ____ of the city", nfe=2).texts == filled.texts
    at_end = text.infill("The river ____", nfe=2)
    assert at_end.texts == [text.task.text(at_end.tokens[0, : len(text.task.encode("The river")) + 3])]
    assert (written.nfe <= 2).all()


def test_samples_know_their_texts(text):
    drawn = text.sample(7, nfe=1)
    assert drawn.texts == [text.task.text(row) for row in drawn.tokens]
    assert repr(drawn).splitlines()[0] == "7 samples, 1 network evaluation each:"
    assert repr(text.sample(1, nfe=2)).startswith("1 sample, 2 network evaluations each:")
    assert "<caption>7 samples, 1 network evaluation each<" in drawn._repr_html_()
    assert repr(drawn).endswith("... and 2 more")
    assert drawn._repr_html_().count("<tr>") == 7


def test_markup_of_a_sample_stays_text(tmp_path, untrained_mini):
    class Tags(dbtm.Task):
        def text(self, tokens):
            return "<script>alert(1)</script>"

    drawn = replace(untrained_mini.sample(1, nfe=1), task=Tags())
    assert "<script>" not in drawn._repr_html_()
    assert np.array_equal(drawn.tokens, untrained_mini.sample(1, nfe=1).tokens)


def test_a_model_says_what_it_is(sudoku):
    assert repr(sudoku).startswith("Model('sudoku': sudoku by dbtm, ")
    assert "length 180" in repr(sudoku)
    page = sudoku._repr_html_()
    assert "<th>task</th><td>sudoku</td>" in page
    assert "6,891,534" in page


def test_one_evaluation_is_singular(sudoku):
    once = sudoku.solve(EASY, nfe=1)
    assert repr(once).startswith("solved (1 network evaluation)")
    assert "<caption>solved, 1 network evaluation<" in once._repr_html_()


# -- saving and the hub ------------------------------------------------------------------------------------------------


def test_what_is_saved_loads_the_same(untrained_mini, tmp_path):
    saved = untrained_mini.save_pretrained(tmp_path / "saved")
    names = {path.name for path in saved.iterdir()}
    assert {"config.json", "ema.safetensors", "manifest.json", "README.md"} <= names
    assert not names & {"model.safetensors", "optim.safetensors", "state.json"}
    again = dbtm.load(saved, device="cpu")
    assert (again.sample(3, nfe=2).tokens == untrained_mini.sample(3, nfe=2).tokens).all()
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
    card = (again.folder / "README.md").read_text()
    assert "# mini\n" in card
    assert 'dbtm.load("hf://org/mini@main")' in card


def test_a_push_without_a_network_is_a_line(untrained_mini, fake_hub, monkeypatch):
    class Offline:
        def __init__(self, token):
            pass

        def create_repo(self, **about):
            raise ConnectionError("[Errno -2] Name or service not known\nmore lines")

    monkeypatch.setattr(sys.modules["huggingface_hub"], "HfApi", Offline)
    with pytest.raises(UsageError) as error:
        untrained_mini.push_to_hub("org/mini")
    assert str(error.value) == "cannot push to org/mini: [Errno -2] Name or service not known"


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
