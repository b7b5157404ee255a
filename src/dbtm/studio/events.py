"""Answers: a job's events as server-sent events while it runs, or an error status with a message."""

import asyncio
import json
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dbtm.studio.answers import Json
from dbtm.studio.jobs import Busy, Event, Job, Jobs, Work

LAST = ("done", "error", "cancelled")
PATIENCE = 0.5  # seconds in the queue before an event says so
PING, SLOWEST = 10.0, 20.0  # seconds: interval of keep-alive lines; the longest wait for a reader
CLIENT = "x-studio-client"


def client_of(request: Request) -> str:
    """The client of a request in the queue: a page's own name, else the address."""
    named = request.headers.get(CLIENT, "")[:64]
    return named or (request.client.host if request.client else "")


def answer_with(jobs: Jobs, request: Request, work: Work) -> Response:
    """The events of new work for a client, or 429 if the queue is full."""
    try:
        return EventStream(jobs.submit(client_of(request), work))
    except Busy as busy:
        return Json({"error": str(busy)}, 429, {"Retry-After": "1"})


class EventStream(Response):
    """Server-sent events of a job. A reader that leaves, or reads nothing for long, cancels the job.

    The status waits for the first event: work that fails at once has its own status.
    """

    def __init__(self, job: Job):
        self.job = job
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        tasks = [asyncio.create_task(self._pump(scope, receive, send)), asyncio.create_task(gone())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.job.cancel()
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError, OSError, TimeoutError):
                    await task

    async def _first(self) -> Event:
        """The first event. A waiting event is sent only after a while, and not once the work has begun: the
        status may still change until the first result.
        """
        event, data = await self.job.events.get()
        try:
            while event == "queued":
                event, data = await asyncio.wait_for(self.job.events.get(), PATIENCE)
        except TimeoutError:
            return event, data
        return await self.job.events.get() if event == "begun" else (event, data)

    async def _pump(self, scope: Scope, receive: Receive, send: Send) -> None:
        event, data = await self._first()
        if event == "error":
            await Json({"error": data["error"]}, data["status"])(scope, receive, send)
            return
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while True:
            await _send(send, encode(event, data), event not in LAST)
            if event in LAST:
                return
            while True:
                try:
                    event, data = await asyncio.wait_for(self.job.events.get(), PING)
                    break
                except TimeoutError:
                    await _send(send, b": still here\n\n", True)


async def _send(send: Send, body: bytes, more: bool) -> None:
    """Drop a reader that reads nothing for long, to free memory and the connection."""
    await asyncio.wait_for(send({"type": "http.response.body", "body": body, "more_body": more}), SLOWEST)


def encode(event: str, data: dict[str, Any]) -> bytes:
    """One event. This JSON has no line breaks, so the data cannot end the event early."""
    return f"event: {event}\ndata: {json.dumps(data, separators=(',', ':'), allow_nan=False)}\n\n".encode()
