"""What the rooms answer is what the services say, round by round."""

import numpy as np
import pytest

from dbtm.checkpoint.loading import load
from dbtm.service.generation import InfillRequest, hole_size, infill, parts_of
from dbtm.service.solving import SolveRequest, solve
from dbtm.tasks.sudoku.puzzle import parse, violation
from tests.studio.samples import HOSTILE

PUZZLE = "850002400720000009004000000000107002305000900040000000000080070017000000000036040"


def test_a_solve_streams_the_rounds_of_the_service(client):
    answer = client.ask("/api/sudoku/solve", {"puzzle": PUZZLE, "nfe": 4, "seed": 3, "model": "sudoku"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    want = solve(SolveRequest(puzzle_C=parse(PUZZLE), options={"nfe": 4}, seed=3), load("sudoku", "cpu"))
    events = [event for event in answer.events() if event[0] != "queued"]
    rounds = [data for name, data in events if name == "round"]
    assert [name for name, _ in events] == ["start", *["round"] * len(want.rounds), "done"]
    assert [told["values"] for told in rounds] == [state.values_C.tolist() for state in want.rounds]
    assert [told["committed"] for told in rounds] == [state.committed_C.astype(int).tolist() for state in want.rounds]
    done = answer.done()
    assert (done["solved"], done["nfe"], done["budget"]) == (want.solved, want.nfe, 4)
    assert done["settings"]["seed"] == 3


def test_a_result_can_be_saved_as_a_page(client):
    done = client.ask("/api/sudoku/solve", {"puzzle": "1000003004000002", "model": "mini", "nfe": 2}).done()
    saved = client.ask(f"/api/results/{done['result']}")
    assert saved.status == 200
    assert saved.headers["content-disposition"].startswith("attachment")
    assert b'id="data">{"puzzle":[1,0,0,0' in saved.body
    assert client.ask("/api/results/another").status == 404


def test_new_puzzles_have_the_clues_that_were_asked_for(client):
    one, two = (
        client.ask("/api/sudoku/puzzle", {"clues": 8, "seed": seed, "box": 2}).json["puzzle"] for seed in (1, 2)
    )
    assert one != two
    assert sum(digit != "0" for digit in one) == 8
    assert one == client.ask("/api/sudoku/puzzle", {"clues": 8, "seed": 1, "box": 2}).json["puzzle"]
    assert "22 to 60" in client.ask("/api/sudoku/puzzle", {"clues": 5}).json["error"]
    assert "1 to 100" in client.ask("/api/sudoku/puzzle", {"guesses": 101}).json["error"]
    assert "not both" in client.ask("/api/sudoku/puzzle", {"guesses": 5, "clues": 30}).json["error"]
    for each in client.ask("/api/sudoku/puzzles").json["built_in"]:
        assert len(each["puzzle"]) in (16, 81)


@pytest.mark.parametrize("body", [{"prompt": "The river"}, {"infill": "The ____ of ____ was old."}, {}])
def test_a_text_streams_the_rounds_of_the_service(client, body):
    answer = client.ask("/api/text/write", {**body, "nfe": 3, "seed": 5})
    parts, hole = parts_of(**body), hole_size(body.get("infill"), None)
    request = InfillRequest(checkpoint="text", parts=parts, hole=hole, options={"nfe": 3}, seed=5, trace=True)
    want = infill(request, load("text", "cpu"))
    rounds = [data for name, data in answer.events() if name == "round"]
    done, start = answer.done(), dict(answer.events())["start"]
    assert done["tokens"] == want.trace.tokens[0].tolist()
    assert done["text"] == want.texts()[0]
    assert len(rounds) == len(want.trace.rounds)
    assert start["given"] == want.trace.prompt[0].astype(int).tolist()
    assert start["free"] == int((~want.trace.prompt[0]).sum())
    assert rounds[-1]["parts"] == done["last"]["parts"]


def test_a_round_tells_what_else_was_likely(client):
    """At temperature 0 the first of the likely tokens is the one proposed, and its probability the confidence."""
    answer = client.ask("/api/text/write", {"nfe": 2, "scorer": "confidence"})
    first = next(data for name, data in answer.events() if name == "round")
    for others, score in zip(first["others"], first["score"], strict=True):
        chances = [p for _, p in others]
        assert len(others) == 4
        assert chances == sorted(chances, reverse=True)
        assert chances[0] == pytest.approx(score, abs=2e-4)


def test_a_marked_span_is_made_anew_in_place(client):
    before = client.ask("/api/text/write", {"prompt": "The river", "nfe": 2}).done()["tokens"]
    given = [None if 20 <= i < 40 else token for i, token in enumerate(before)]
    after = client.ask("/api/text/write", {"tokens": given, "nfe": 2, "seed": 9}).done()["tokens"]
    kept = np.array([token is not None for token in given])
    assert (np.array(after) == np.array(before))[kept].all()
    assert after != before


def test_what_a_visitor_writes_comes_back_as_data(client):
    """Never as HTML: the type of every answer but the page and saved files is JSON or events."""
    answer = client.ask("/api/text/write", {"prompt": HOSTILE, "nfe": 1})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-content-type-options"] == "nosniff"
    saved = client.ask(f"/api/results/{answer.done()['result']}")
    assert HOSTILE.encode() not in saved.body
    assert b"\\u003c" in saved.body


def test_models_are_described_without_their_paths(client, mini):
    answer = client.ask("/api/models")
    cards = {card["name"]: card for card in answer.json["models"]}
    assert {name: card["room"] for name, card in cards.items()} == {
        "sudoku": "sudoku",
        "text": "text",
        "mini": "sudoku",
    }
    assert cards["mini"]["size"] == 16
    assert mini.encode() not in answer.body


def test_runs_tell_their_records_checkpoints_and_settings(client):
    (run,) = client.ask("/api/runs").json["runs"]
    assert (run["name"], run["recipe"], run["step"], run["loss"]) == ("mini", "sudoku-mini", 1, 2.0)
    told = client.ask("/api/runs/one?name=mini").json
    assert [record["step"] for record in told["metrics"]["records"]] == [1, 1]
    assert told["checkpoints"] == [{"name": "step-00000001", "step": 1, "score": 0.25, "best": False}]
    again = client.ask(f"/api/runs/one?name=mini&from={told['metrics']['end']}").json
    assert again["metrics"]["records"] == []
    settings = {each["name"]: each for each in client.ask("/api/runs/settings?name=mini").json["settings"]}
    assert settings["model.width"]["value"] == 16
    assert settings["model.width"]["changed"]


def test_samples_over_training_answer_the_built_in_puzzle(client):
    events = client.ask("/api/runs/samples?name=mini", {"nfe": 2, "seed": 1}).events()
    (sample,) = [data for name, data in events if name == "sample"]
    assert (sample["step"], len(sample["grid"])) == (1, 16)
    want = solve(SolveRequest(checkpoint="mini", options={"nfe": 2}, seed=1), client.studio.shelf.load("mini"))
    assert sample["grid"] == want.solution_C.tolist()


def test_comparisons_are_tables(client):
    assert client.ask("/api/referee").json["comparisons"] == ["compared"]
    told = client.ask("/api/referee/one?name=compared").json
    assert [(row["label"], row["nfe"]) for row in told["rows"]] == [("dbtm", 1), ("dbtm", 4), ("mdlm", 1), ("mdlm", 4)]
    assert told["metric"]["lower_is_better"]
    assert told["entries"][0]["about"] == HOSTILE


def test_two_visitors_get_their_own_results(client):
    """Asked at the same time for different puzzles, each gets the answer to its own."""
    from concurrent.futures import ThreadPoolExecutor

    grids = [client.ask("/api/sudoku/puzzle", {"clues": 10, "seed": s, "box": 2}).json["puzzle"] for s in range(8)]

    def ask(grid):
        return client.ask("/api/sudoku/solve", {"puzzle": grid, "model": "mini", "nfe": 2}, X_Studio_Client=grid)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, grids))
    for grid, answer in zip(grids, answers, strict=True):
        start = dict(answer.events())["start"]
        assert "".join(map(str, start["puzzle"])) == grid
        done = answer.done()
        assert done["solved"] == (violation(np.array(done["last"]["values"]), parse(grid)) is None)
