"""A studio on a port of this machine, in a thread, and plain HTTP to it."""

import asyncio
import http.client
import json
import threading
from contextlib import contextmanager
from typing import Any, NamedTuple

from dbtm.studio.server import Address, make_server
from dbtm.studio.state import Studio

JSON = {"Content-Type": "application/json"}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[tuple[str, Any]]:
        blocks = self.body.decode().split("\n\n")[:-1]
        pairs = [block.split("\n") for block in blocks if not block.startswith(":")]
        return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in pairs]

    def done(self) -> Any:
        name, data = self.events()[-1]
        assert name == "done", (name, data)
        return data


class Client:
    """One visitor."""

    def __init__(self, port: int, studio: Studio | None = None, headers: dict[str, str] | None = None):
        self.port, self.studio, self.headers = port, studio, headers or {}

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, path: str, body: Any = None, method: str | None = None, **headers: str) -> Answer:
        """`body` is sent as JSON, bytes as they are; names of headers have _ for -."""
        connection = self.connect()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        kind = JSON if body is not None and "Content-Type" not in given else {}
        connection.request(method or ("GET" if body is None else "POST"), path, data, {**self.headers, **kind, **given})
        response = connection.getresponse()
        answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        connection.close()
        return answer


@contextmanager
def running(studio: Studio, address: Address = Address(port=0)):
    """A client of a studio that runs as long as the context."""
    server, listener = make_server(studio, address)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])), daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.01)
        yield Client(listener.getsockname()[1], studio)
    finally:
        studio.jobs.close()
        server.should_exit = True
        thread.join(20)
        listener.close()
    assert not thread.is_alive()
