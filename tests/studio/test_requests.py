"""Bad requests get a status and a sentence; paths lead nowhere; readers that leave cancel their work."""

import json
import socket
import threading
import time

import pytest

from dbtm.studio.shelf import Shelf
from dbtm.studio.state import Studio
from tests.processes import PATIENCE
from tests.studio.client import running

BUILT_IN = "850002400720000009004000000000107002305000900040000000000080070017000000000036040"


def sentence(answer) -> str:
    assert set(answer.json) == {"error"}
    assert "Traceback" not in answer.json["error"]
    return answer.json["error"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "not JSON"),
        (b"[" * 20000, 400, "not JSON"),
        (b"\xff\xfe\x00", 400, "not JSON"),
        (b"[]", 400, "must be a JSON object"),
        (b'"x"', 400, "must be a JSON object"),
        (b"9" * 5000, 400, "not JSON"),
        (b"{}", 400, "missing key 'puzzle'"),
        (b'{"puzzle": 5}', 400, "must be of type str"),
        (b'{"puzzle": "1", "nope": 1}', 400, "unknown key 'nope'"),
        (b'{"puzzle": "1", "nfe": true}', 400, "must be of type int"),
        (b'{"puzzle": "1", "nfe": 0}', 400, "1 to 64"),
        (b'{"puzzle": "1", "nfe": 65}', 400, "1 to 64"),
        (b'{"puzzle": "1", "seed": -1}', 400, "seed"),
        (b'{"puzzle": "1", "kappa": 1e999}', 400, "finite"),
        (b'{"puzzle": "12"}', 400, "the puzzle has 2 cells"),
        (b'{"puzzle": "<script>"}', 400, "does not belong in a puzzle"),
        (b'{"puzzle": "' + b"1" * 30000 + b'"}', 400, "30000 characters"),
        (b'{"puzzle": "' + b"1" * 70000 + b'"}', 413, "larger than 64 KiB"),
        (json.dumps({"puzzle": "11" + "0" * 79}).encode(), 400, "row 1 has two 1s"),
        (json.dumps({"puzzle": "0" * 81}).encode(), 400, "several solutions"),
        (json.dumps({"puzzle": BUILT_IN, "model": "text"}).encode(), 400, "does not belong to sudoku"),
        (json.dumps({"puzzle": BUILT_IN, "model": "../../etc"}).encode(), 400, "there is no model"),
        (json.dumps({"puzzle": BUILT_IN, "scorer": "nope"}).encode(), 400, "is not a choice"),
        (json.dumps({"puzzle": BUILT_IN, "kappa": 2.0}).encode(), 400, "kappa"),
        (json.dumps({"puzzle": BUILT_IN, "model": "mini"}).encode(), 400, "the puzzle is 9 x 9"),
    ],
)  # fmt: skip
def test_a_bad_solve_is_refused_in_a_sentence(client, body, status, words):
    answer = client.ask("/api/sudoku/solve", body, **{"Content-Type": "application/json"})
    assert answer.status == status
    assert words in sentence(answer)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"tokens": [1, 2]}, "2 tokens are given"),
        ({"tokens": [99999] * 128}, "a token is outside"),
        ({"prompt": "a", "infill": "b ____"}, "give only one of"),
        ({"infill": "no hole"}, "no hole to fill"),
        ({"hole": 3}, "needs infill"),
        ({"prompt": "word " * 1000}, "do not fit into"),
        ({"prompt": "\ud800"}, "not UTF-8"),
        ({"temperature": -1.0}, "temperature"),
        ({"model": "sudoku"}, "does not belong to text"),
        ({"order": "random"}, "no option 'order'"),
    ],
)
def test_a_bad_text_is_refused_in_a_sentence(client, body, words):
    answer = client.ask("/api/text/write", body)
    assert answer.status == 400
    assert words in sentence(answer)


def test_a_room_without_a_model_says_so(client):
    assert "there is no model for maths" in sentence(client.ask("/api/maths/answer", {}))


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/..%2f..%2fcli/__init__.py", "/static//etc/passwd",
     "/static/%2e%2e/%2e%2e/__init__.py", "/static/viewer/../../app.py", "/static/viewer/..%5c..%5capp.py", "/static/",
     "/static/app.py", "/static/app.js%00",
     "/api/results/..%2f..%2fetc%2fpasswd", "/etc/passwd", "//etc/passwd", "/static/rooms/../../__init__.py"],
)  # fmt: skip
def test_no_path_leads_out(client, path):
    answer = client.ask(path)
    assert answer.status == 404
    assert sentence(answer) == "there is nothing at this address"


@pytest.mark.parametrize(
    "name", ["../beside", "beside", "mini/../../beside", "/etc", "mini/step-00000001", "", "\0", "%2e%2e"]
)
@pytest.mark.parametrize("path", ["/api/runs/one", "/api/runs/settings", "/api/referee/one"])
def test_only_runs_in_the_list_are_read(client, path, name):
    from urllib.parse import urlencode

    assert client.ask(f"{path}?{urlencode({'name': name})}").status == 404
    assert client.ask(f"/api/runs/samples?{urlencode({'name': name})}", {}).status == 404


def test_other_methods_are_refused(client):
    assert client.ask("/api/sudoku/solve").status == 405
    assert client.ask("/", {}).status == 405
    assert client.ask("/api/models", method="DELETE").status == 405


@pytest.mark.parametrize("start", ["-1", "x", "1e3", "²", "9" * 30])
def test_a_place_to_read_from_is_a_number(client, start):
    from urllib.parse import quote

    assert client.ask(f"/api/runs/one?name=mini&from={quote(start)}").status == 400


def wait_until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.01)


def test_a_reader_that_leaves_cancels_its_work(client, monkeypatch):
    """The work waits to be cancelled: a studio that went on with it would never be done."""
    from dbtm.studio import text

    begun = []

    def endless(studio, job, body, model):
        begun.append(job)
        job.send("start", {})
        while not job.stop.wait(0.005):
            pass
        job.check()

    monkeypatch.setattr(text, "run_write", endless)
    connection = client.connect()
    connection.request("POST", "/api/text/write", b"{}", {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.status == 200
    assert not begun[0].cancelled()
    response.close()
    connection.close()
    wait_until(lambda: begun[0].cancelled() and client.studio.jobs.state()["running"] == 0)


def test_a_body_that_never_comes_holds_nothing_up(client, monkeypatch):
    from dbtm.studio import bodies

    monkeypatch.setattr(bodies, "SLOWEST", 0.2)
    with socket.create_connection(("127.0.0.1", client.port)) as slow:
        head = f"POST /api/text/write HTTP/1.1\r\nHost: {client.host}\r\nContent-Type: application/json\r\n"
        slow.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert client.ask("/healthz").status == 200
        assert b" 408 " in slow.recv(4096)


def test_a_silent_connection_is_closed(monkeypatch, client):
    from dbtm.studio import server

    monkeypatch.setattr(server, "FIRST_LINE", 0.2)
    with socket.create_connection(("127.0.0.1", client.port)) as silent:
        silent.sendall(b"GET / HT")
        silent.settimeout(20)
        assert silent.recv(100) == b""


def test_a_studio_that_ends_does_not_wait_for_a_thread_at_work(monkeypatch):
    """Compiling the generator of puzzles may take half a minute: a request that waits for it is left at once."""
    from dbtm.studio import sudoku

    begun, go = threading.Event(), threading.Event()

    def slow(*_):
        begun.set()
        go.wait(PATIENCE)
        return "0" * 81

    monkeypatch.setattr(sudoku, "make_puzzle", slow)
    with running(Studio(Shelf({}, "cpu"))) as client:  # which fails where the server is still there after 20 s
        connection = client.connect()
        connection.request("POST", "/api/sudoku/puzzle", b"{}", {"Content-Type": "application/json"})
        assert begun.wait(PATIENCE)
    assert not go.is_set()
    go.set()
    connection.close()
