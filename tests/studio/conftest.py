"""One studio for many tests, with the package's models and a tiny one of each kind."""

import json

import pytest

from dbtm.studio.shelf import Shelf
from dbtm.studio.state import Studio
from tests.evals.tiny import mini_sudoku, write_checkpoint
from tests.studio.browser import FLAGS, Visit, find_browser
from tests.studio.client import Client, running
from tests.studio.samples import REFEREE


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Runs and a comparison: `mini` has two records and a checkpoint, `beside` is a folder that nobody named."""
    home = tmp_path_factory.mktemp("studio")
    run = home / "runs" / "mini"
    write_checkpoint(mini_sudoku(), run)
    records = [
        {"step": 1, "loss": 2.0, "lr": 0.1, "steps_per_second": 2.0, "seconds": 0.5},
        {"step": 1, "eval/score": 0.25},
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (home / "runs" / "compared").mkdir()
    (home / "runs" / "compared" / "referee.json").write_text(json.dumps(REFEREE))
    (home / "beside").mkdir()
    (home / "beside" / "metrics.jsonl").write_text('{"step": 7, "loss": 1.0}\n')
    return home


@pytest.fixture(scope="session")
def mini(folders) -> str:
    """A 4 x 4 model that has learned nothing."""
    return str(folders / "runs" / "mini")


@pytest.fixture(scope="session")
def client(folders, mini) -> Client:
    shelf = Shelf({"sudoku": "sudoku", "text": "text", "mini": mini}, "cpu")
    with running(Studio(shelf, [folders / "runs"])) as client:
        yield client


@pytest.fixture(scope="module")  # no longer: while it is open, no other event loop can run in this thread
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser, client):
    """A visit that ends without a complaint of the page and without a request to anyone else."""
    visits = []

    def begin(**options):
        visits.append(Visit(browser, f"http://{client.host}", **{"reduced_motion": "reduce", **options}))
        return visits[-1]

    yield begin
    for each in visits:
        each.close()
