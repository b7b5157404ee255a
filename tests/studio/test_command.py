"""`dbtm studio` as a command: it opens, answers, and ends at once."""

import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from tests.processes import PATIENCE, default_signals_in_children


@pytest.fixture
def start(tmp_path):
    processes = []

    def begin(*words):
        with default_signals_in_children():
            process = subprocess.Popen(
                [sys.executable, "-m", "dbtm", "studio", "--no-browser", "--port", "0", *words],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            )  # fmt: skip
        processes.append(process)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_opens_answers_and_ends(start, number):
    process = start()
    url = re.search(r"http://\S+", process.stdout.readline())[0]
    with urllib.request.urlopen(f"{url}healthz") as answer:
        assert answer.status == 200
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (0, "studio closed\n", "")


def test_it_does_not_wait_for_work_that_is_under_way(start):
    process = start()
    url = re.search(r"http://\S+", process.stdout.readline())[0]
    body, kind = json.dumps({"nfe": 64}).encode(), {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{url}api/text/write", body, kind)) as answer:
        assert answer.readline() in (b"event: start\n", b"event: queued\n")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (0, "studio closed\n", "")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--host", "0.0.0.0"], "--token"),
        (["--host", "0.0.0.0", "--token", "short"], "at least 12"),
        (["nowhere"], "there is no folder nowhere"),
        (["--host", "no.such.host.invalid", "--token", "long enough to be one"], "cannot listen"),
    ],
)
def test_mistakes_are_told_in_a_line(start, words, complaint):
    out, err = (process := start(*words)).communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert complaint in err.splitlines()[-1]
    assert "Traceback" not in err
    assert out == ""


def test_other_machines_are_let_in_with_a_warning(start):
    process = start("--host", "0.0.0.0", "--token", "long enough to be one")
    assert "http://127.0.0.1:" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert err.startswith("warning: 0.0.0.0 can be reached from other machines")
