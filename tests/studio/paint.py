"""What a browser sees of the studio's speed: python -m tests.studio.paint --out results/studio-page.json

First contentful paint of a fresh page, and the time from a click on Solve to the first round of a 4-NFE Sudoku on
screen, once the model is loaded; beside them the time to the first round's event without a browser.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

from dbtm.evals.provenance import made
from tests.studio.browser import FLAGS, find_browser
from tests.studio.client import Client

CLICKS = 10
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
SOLVED = "() => document.querySelector('.told').textContent.includes(' NFE, ')"
PUZZLE = "850002400720000009004000000000107002305000900040000000000080070017000000000036040"


def measure() -> dict:
    from playwright.sync_api import sync_playwright

    words = [sys.executable, "-m", "dbtm", "studio", "--no-browser", "--port", "0", "--device", "cpu"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().split()[2]
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
            paints, rounds = [], []
            client = Client(int(url.rpartition(":")[2].strip("/")))
            client.ask("/api/sudoku/solve", {"puzzle": PUZZLE, "nfe": 4}).done()  # waits until the model is there
            for _ in range(3):
                page = browser.new_page()
                page.goto(url)
                page.wait_for_selector("td")
                paints.append(page.evaluate(PAINT))
            for _ in range(CLICKS):
                page.get_by_role("button", name="Solve", exact=True).click()
                page.wait_for_function(SOLVED)
                rounds.append(float(page.evaluate("document.querySelector('table.grid').dataset.firstRound")))
            alone = [_alone(client) for _ in range(CLICKS)]
            browser.close()
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)
    return {
        "what": "dbtm studio in Chromium: milliseconds to the first paint, and from the click to the first round",
        "first_contentful_paint_ms": [round(value) for value in paints],
        "click_to_first_round_ms": {
            "median": round(statistics.median(rounds)),
            "all": [round(each) for each in rounds],
        },
        "post_to_first_round_without_browser_ms": round(statistics.median(alone)),
        "nfe": 4,
        "load_average": [round(value, 1) for value in os.getloadavg()],
        "cpu_count": os.cpu_count(),
        "niceness": os.nice(0),
        "command": "python -m tests.studio.paint",
        **made(torch.device("cpu")),
    }


def _alone(client: Client) -> float:
    """Milliseconds from a request to the event of its first round."""
    connection, begun = client.connect(), time.perf_counter()
    body = json.dumps({"puzzle": PUZZLE, "nfe": 4})
    connection.request("POST", "/api/sudoku/solve", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    while response.readline() != b"event: round\n":
        pass
    taken = 1000 * (time.perf_counter() - begun)
    response.read()
    connection.close()
    return taken


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--out", type=Path)
    chosen = options.parse_args()
    text = json.dumps(measure(), indent=1)
    print(text)
    if chosen.out:
        chosen.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
