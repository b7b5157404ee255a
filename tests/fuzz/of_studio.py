"""Requests to the studio, as its server hands them on: each is answered with a status below 500 and JSON."""

import asyncio
import atexit
import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from dbtm.core.errors import UsageError
from tests.fuzz import corpus
from tests.fuzz.harness import Files, put
from tests.fuzz.mutate import Draw, json_mutated
from tests.fuzz.registry import target

BODIES: dict[str, dict[str, Any]] = {
    "/api/login": {"token": "x"},
    "/api/sudoku/puzzle": {"clues": 8, "seed": 1, "box": 2},
    "/api/sudoku/solve": {"puzzle": corpus.SMALL, "nfe": 1, "seed": 3, "kappa": 0.5, "temperature": 0.0},
    "/api/text/write": {"prompt": "A", "suffix": "on", "nfe": 1, "seed": 3, "model": "text"},
    "/api/text/write?": {"infill": "A ____ on", "hole": 1, "nfe": 1},
    "/api/runs/samples": {"nfe": 1, "seed": 0},
    "/api/simplex/basins": {"model": "learned"},
}
GETS = (
    "/", "/healthz", "/static/studio.js", "/api/models", "/api/runs", "/api/runs/one", "/api/runs/settings",
    "/api/referee", "/api/referee/one", "/api/sudoku/puzzles", "/api/results/x", "/api/simplex/constants",
)  # fmt: skip
NAMES = ("markov", "text", "compared", "../../etc", "/etc/passwd", "%2e%2e", "\x1b[2J", "x" * 4000, "\ud800", "", "%00")
HEADERS = (
    ("origin", ("http://127.0.0.1", "http://[", "null", "http://evil", "http://127.0.0.1\x00", "[", "http://[::1", "")),
    ("host", ("127.0.0.1", "evil", "[", "[::1", "127.0.0.1:x", "127.0.0.1:99999999999", "", "a@b", "127.0.0.1\xff")),
    ("cookie", ("dbtm-studio=x", "dbtm-studio=\xe9", "=;" * 3000, '"', "dbtm-studio")),
    ("authorization", ("Bearer x", "Bearer \xe9", "bearer", "Basic x", "")),
    ("content-type", ("text/plain", "application/json; charset=utf-16", "", "\xff")),
    ("content-length", ("0", "-1", "99999999999999999999", "x")),
    ("sec-fetch-site", ("cross-site", "same-origin", "none", "\xff")),
    ("x-studio-client", ("x" * 5000, "\x1b[2J", "")),
    ("range", ("bytes=0-1", "bytes=x")),
)


def _request(draw: Draw) -> Files:
    headers = {"host": "127.0.0.1", "content-type": "application/json"}
    for _ in range(draw.choice((0, 0, 0, 1, 2))):
        name, values = draw.choice(HEADERS)
        headers[name] = draw.choice(values)
    if draw.random() < 0.6:
        path, body = draw.choice([*BODIES.items()])
        method, data = "POST", json.dumps(body).encode()
        if draw.random() > 0.1:
            data = json_mutated(draw, data)
    else:
        path, method, data = draw.choice(GETS), "GET", b""
    query = ""
    if "/runs" in path or "/referee" in path or draw.random() < 0.1:
        odd = draw.choice(
            ("", "&from=0", "&from=-1", "&from=9" + "9" * 30, "&from=9999999", "&from=x", "&&&=", "&name=x")
        )
        query = f"name={draw.choice(NAMES)}{odd}"
    if draw.random() < 0.1:
        path = draw.choice(
            (path + draw.choice(NAMES), "/static/" + draw.choice(NAMES), "//", path.upper(), "/api/../x")
        )
    if draw.random() < 0.05:
        method = draw.choice(("GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE", "X"))
    token = draw.random() < 0.2
    words = {"method": method, "path": path.rstrip("?"), "query": query, "headers": headers, "token": token}
    return {"request.json": json.dumps(words).encode(), "body": data[: 1 << 17]}


@cache
def _folder() -> Path:
    keep = tempfile.TemporaryDirectory(prefix="dbtm-studio-")
    atexit.register(keep.cleanup)
    folder = Path(keep.name)
    for name, files in (("markov", corpus.toy_run()), ("text", corpus.text_run()), ("sudoku", corpus.sudoku_run())):
        put(files, folder / name)
    put({"compared/referee.json": corpus.comparison()["referee.json"]}, folder)
    return folder


@cache
def _app(token: bool) -> Any:
    """In a forked process: its worker is a thread."""
    from dbtm.studio.app import make_app
    from dbtm.studio.guard import Door
    from dbtm.studio.shelf import Shelf
    from dbtm.studio.state import Studio

    folder = _folder()
    studio = Studio(Shelf({name: str(folder / name) for name in ("sudoku", "text", "markov")}, "cpu"), [folder])
    studio.door = Door("a long enough token" if token else None)
    return make_app(studio)


async def _ask(app: Any, words: dict[str, Any], body: bytes) -> tuple[int, bytes]:
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": words["method"], "scheme": "http",
        "path": words["path"], "raw_path": words["path"].encode("utf-8", "replace"), "root_path": "",
        "query_string": words["query"].encode("utf-8", "replace"), "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "headers": [(k.encode(), v.encode("latin-1", "replace")) for k, v in words["headers"].items()],
    }  # fmt: skip
    sent = [{"type": "http.request", "body": body, "more_body": False}]
    status, out = 0, b""

    async def receive() -> dict[str, Any]:
        if sent:
            return sent.pop()
        await asyncio.sleep(3600)
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, out
        status = message.get("status", status)
        out += message.get("body", b"")

    if not app.state.studio.jobs.thread.is_alive():
        app.state.studio.jobs.start()
    await app(scope, receive, send)
    return status, out


@target(_request)
def studio(folder: Path) -> None:
    words = json.loads((folder / "request.json").read_bytes())
    status, body = asyncio.run(_ask(_app(words["token"]), words, (folder / "body").read_bytes()))
    assert 200 <= status < 500, f"status {status}: {body[:200]!r}"
    if status >= 400:
        error = json.loads(body)["error"] if body else f"status {status}"
        raise UsageError(error)
    assert b"Traceback" not in body


def warm_up() -> None:
    """Import what requests need, and write the studio's folders."""
    _folder()
    from dbtm.studio import app  # noqa: F401
