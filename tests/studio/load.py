"""Many visitors at once: python -m tests.studio.load --clients 32 --seconds 60 --out results/studio-load.json

The studio runs as a command of its own. Every client solves puzzles with the packaged model, one after the other, and
checks that each answer is to its own puzzle; now and then one leaves in the middle.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch

from dbtm.evals.provenance import made
from dbtm.service.puzzles import new_puzzle
from tests.studio.client import Client

LEAVES = 0.05  # of requests are left before they are answered


class Visitor(threading.Thread):
    """One client that asks, checks and asks again."""

    def __init__(self, client: Client, number: int, puzzles: list[str], until: float):
        super().__init__(daemon=True)
        self.client, self.puzzles, self.until = client, puzzles, until
        self.name, self.random = f"visitor-{number}", random.Random(number)
        self.first, self.whole = list[float](), list[float]()
        self.mixed = self.lost = self.busy = self.left = 0

    def run(self) -> None:
        while time.monotonic() < self.until:
            puzzle = self.random.choice(self.puzzles)
            if self.random.random() < LEAVES:
                self._leave(puzzle)
            else:
                self._solve(puzzle)

    def _body(self, puzzle: str) -> bytes:
        return json.dumps({"puzzle": puzzle, "nfe": 4, "seed": self.random.randrange(1000)}).encode()

    def _post(self, puzzle: str):
        connection = self.client.connect()
        headers = {"Content-Type": "application/json", "X-Studio-Client": self.name}
        connection.request("POST", "/api/sudoku/solve", self._body(puzzle), headers)
        return connection

    def _solve(self, puzzle: str) -> None:
        begun = time.monotonic()
        try:
            connection = self._post(puzzle)
            response = connection.getresponse()
            if response.status == 429:
                self.busy += 1
                response.read()
                time.sleep(0.2)
                return
            text, first = b"", None
            while line := response.readline():
                text += line
                if first is None and line == b"event: round\n":
                    first = time.monotonic() - begun
            connection.close()
        except OSError:
            self.lost += 1
            return
        events = dict(_events(text))
        if "done" not in events or first is None:
            self.lost += 1
            return
        self.first.append(first)
        self.whole.append(time.monotonic() - begun)
        answer = events["done"]["last"]["values"]
        own = "".join(map(str, events["start"]["puzzle"])) == puzzle
        keeps = all(clue == "0" or int(clue) == cell for clue, cell in zip(puzzle, answer, strict=True))
        self.mixed += not (own and (keeps or not events["done"]["solved"]))

    def _leave(self, puzzle: str) -> None:
        connection = self._post(puzzle)
        time.sleep(self.random.random() * 0.2)
        connection.close()
        self.left += 1


def _events(text: bytes):
    for block in text.decode().split("\n\n")[:-1]:
        name, _, data = block.partition("\n")
        if data:
            yield name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def load(clients: int, seconds: float) -> dict:
    puzzles = [new_puzzle(30, seed) for seed in range(64)]
    words = [sys.executable, "-m", "dbtm", "studio", "--no-browser", "--port", "0", "--device", "cpu"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline().partition("://127.0.0.1:")[2].partition("/")[0])
        client = Client(port)
        client.ask("/api/sudoku/solve", {"puzzle": puzzles[0], "nfe": 1}).done()  # waits until the model is there
        before, begun = _memory(server.pid), time.monotonic()
        visitors = [Visitor(client, number, puzzles, begun + seconds) for number in range(clients)]
        for visitor in visitors:
            visitor.start()
        curve = _watch(server.pid, visitors, begun, seconds)
        for visitor in visitors:
            visitor.join(120)
        took, after = time.monotonic() - begun, _memory(server.pid)
        queue = client.ask("/api/models").json["queue"]
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)
    whole = sorted(value for visitor in visitors for value in visitor.whole)
    first = sorted(value for visitor in visitors for value in visitor.first)
    counts = [len(visitor.whole) for visitor in visitors]
    return {
        "what": "clients of dbtm studio on loopback, each solving Sudokus with 30 clues at 4 NFE, one after the other",
        "clients": clients,
        "seconds": round(took, 1),
        "answered": len(whole),
        "lost": sum(visitor.lost for visitor in visitors),
        "mixed": sum(visitor.mixed for visitor in visitors),
        "refused_429": sum(visitor.busy for visitor in visitors),
        "left_in_the_middle": sum(visitor.left for visitor in visitors),
        "answers_per_client": {"least": min(counts), "most": max(counts)},
        "seconds_to_first_round": _spread(first),
        "seconds_to_answer": _spread(whole),
        "answers_per_second": round(len(whole) / took, 2),
        "queue_at_the_end": queue,
        "server_memory_mib": {"before": before, "after": after, "by_answers": curve},
        "server_exit_code": server.returncode,
        "load_average": [round(value, 1) for value in os.getloadavg()],
        "cpu_count": os.cpu_count(),
        "command": f"python -m tests.studio.load --clients {clients} --seconds {seconds:g}",
        **made(torch.device("cpu")),
    }


def _watch(pid: int, visitors: list[Visitor], begun: float, seconds: float) -> list[tuple[int, int | None]]:
    """Answers so far and the server's memory, twenty times over the run."""
    curve = []
    for share in range(1, 21):
        time.sleep(max(0.0, begun + seconds * share / 20 - time.monotonic()))
        curve.append((sum(len(visitor.whole) for visitor in visitors), _memory(pid)))
    return curve


def _memory(pid: int) -> int | None:
    """Resident memory of a process in MiB, where the system tells it."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return int(text.partition("VmRSS:")[2].split()[0]) >> 10


def _spread(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100)
    return {"median": round(cuts[49], 3), "p95": round(cuts[94], 3), "most": round(values[-1], 3)}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--clients", type=int, default=32)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--out", type=Path)
    chosen = options.parse_args()
    found = load(chosen.clients, chosen.seconds)
    print(json.dumps(found, indent=1))
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
