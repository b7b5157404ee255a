"""Checkpoints of one's own are added to every room that they fit: programs, texts by other methods, maps."""

import pytest

from dbtm.checkpoint.loading import load
from dbtm.service.generation import ProgramsRequest, write_programs
from dbtm.service.training import TrainRequest, train
from dbtm.studio.opening import open_studio
from dbtm.studio.shelf import name_models
from tests.evals.tiny import mini_sudoku, write_checkpoint
from tests.service.conftest import TINY, prepared  # noqa: F401 - a fixture
from tests.studio.client import running


@pytest.fixture(scope="module")
def own(prepared, tmp_path_factory, few_samples_measured):  # noqa: F811
    """A studio with a writer of programs, a writer of text token by token, and a map on the simplex."""
    home = tmp_path_factory.mktemp("own")
    small = (*TINY, "task.evaluate_n=2")
    asked = {
        "gsm": TrainRequest(recipe="gsm-small", data=prepared["gsm-small"], changes=small, out=home / "gsm"),
        "ar": TrainRequest(
            recipe="text-small", method="ar", data=prepared["text-small"], changes=small, out=home / "ar"
        ),
        "map": TrainRequest(recipe="simplex", changes=("train.steps=3", "optim.warmup=1"), out=home / "map"),
    }
    for request in asked.values():
        train(request)
    with running(open_studio([str(home / name) for name in asked], [], "cpu")) as client:
        yield client


def test_each_has_its_room(own):
    cards = {card["name"]: card["room"] for card in own.ask("/api/models").json["models"]}
    assert cards == {"gsm": "maths", "ar": "text", "map": "simplex", "sudoku": "sudoku", "text": "text"}


def test_a_question_is_answered_by_the_program_of_the_service(own):
    body = {"question": "Ann has 3 apples and buys 4. How many has she?", "nfe": 2, "seed": 1}
    answer = own.ask("/api/maths/answer", body)
    told, done = dict(answer.events()), answer.done()
    request = ProgramsRequest(checkpoint="gsm", question=body["question"], options={"nfe": 2}, seed=1, trace=True)
    want = write_programs(request, load(own.studio.shelf.paths["gsm"], "cpu"))
    assert done["program"] == want.programs[0]
    assert done["outcome"]["kind"] == want.outcomes[0].kind
    assert told["start"]["question"] == body["question"]
    assert set(told["start"]["given"]) == {0}, "the question is not repeated in every round"
    assert len(done["last"]["parts"]) == len(told["start"]["given"])


def test_a_problem_that_nobody_trains_on_comes_with_its_answer(own):
    answer = own.ask("/api/maths/answer", {"nfe": 1, "seed": 4})
    told, done = dict(answer.events()), answer.done()
    assert told["start"]["question"]
    assert isinstance(told["start"]["answer"], float | int)
    assert done["correct"] in (True, False)


@pytest.mark.parametrize("question", ["", " ", "why? " * 2000])
def test_a_question_that_is_none_is_refused(own, question):
    answer = own.ask("/api/maths/answer", {"question": question})
    assert answer.status == 400


def test_a_method_without_a_budget_writes_token_by_token(own):
    assert "no budget to choose" in own.ask("/api/text/write", {"model": "ar", "nfe": 4}).json["error"]
    answer = own.ask("/api/text/write", {"model": "ar", "prompt": "the"})
    rounds = [data for name, data in answer.events() if name == "round"]
    assert answer.done()["nfe"] >= len(rounds) > 1
    assert all("others" not in told for told in rounds)


def test_the_basins_of_ones_own_map(own):
    done = own.ask("/api/simplex/basins", {"model": "map"}).done()
    assert len(done["basins"]) == done["cells"] ** 2
    assert set(done["basins"]) <= {0, 1, 2}
    assert sum(done["frequencies"]) == pytest.approx(1)


def test_points_of_the_drawing_lie_in_its_plane_and_hold_the_triangle():
    from dbtm.service.simplex import plane_points

    x = plane_points(60)
    assert x.sum(-1) == pytest.approx(1)
    inside = (x > 0).all(-1)
    assert 0.1 < inside.mean() < 0.25, "the triangle has (sqrt 3 / 4) / 1.66^2 = 15.7 % of the square"
    assert x[:60, 0].min() > x[-60:, 0].max(), "e1 is at the top"


def test_a_folder_of_runs_is_looked_into_and_a_checkpoint_is_a_model(tmp_path):
    write_checkpoint(mini_sudoku(), tmp_path / "runs" / "a")
    studio = open_studio([str(tmp_path / "runs"), str(tmp_path / "runs" / "a" / "step-00000001")], [])
    assert studio.runs == [tmp_path / "runs"]
    assert set(studio.shelf.paths) == {"a/step-00000001", "sudoku", "text"}


def test_models_of_one_name_keep_apart():
    names = name_models(["x/run", "y/run", "z/sudoku"], ["sudoku"])
    assert len(names) == 4
    assert sorted(names.values()) == ["sudoku", "x/run", "y/run", "z/sudoku"]
