"""The room of the simplex: constants of the exact flow, and a learned map beside it, trained while one waits."""

import contextlib
import multiprocessing
import os
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dbtm.core.errors import UsageError
from dbtm.studio.bodies import read_body
from dbtm.studio.events import answer_with
from dbtm.studio.jobs import Job
from dbtm.studio.state import studio_of

CELLS = 90  # of the drawing, across and down


@dataclass(frozen=True)
class LearnBody:
    seed: int = 0

    def __post_init__(self):
        if not 0 <= self.seed < 2**31:
            raise UsageError(f"seed {self.seed}: give a whole number from 0 to 2^31 - 1")


@dataclass(frozen=True)
class BasinsBody:
    model: str


class Learning:
    """One training run at a time, in a process of its own, so that the models' queue does not wait for it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: Any = None
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.seed = 0
        self.found: dict[str, Any] | None = None

    def start(self, seed: int) -> None:
        """Begin, unless the same is there or under way."""
        with self.lock:
            if self.seed == seed and (self.found is not None or self._alive()):
                return
            self._end()
            self.seed, self.folder = seed, tempfile.TemporaryDirectory(prefix="dbtm-simplex-")
            context = multiprocessing.get_context("spawn")
            self.process = context.Process(target=_train, args=(self.folder.name, seed), daemon=True)
            self.process.start()

    def stop(self) -> None:
        with self.lock:
            self._end()

    def state(self) -> dict[str, Any]:
        """`idle`, `training` with its step, `ready` with the basins, or `failed`."""
        from dbtm.service.runs import read_records
        from dbtm.service.simplex import simplex_steps

        with self.lock:
            if self.found is not None:
                return {"state": "ready", "seed": self.seed, **self.found}
            if self.folder is None:
                return {"state": "idle"}
            run = Path(self.folder.name)
            records = read_records(run).records
            step = records[-1]["step"] if records else 0
            if self._alive():
                return {"state": "training", "seed": self.seed, "step": step, "steps": simplex_steps()}
            if self.process.exitcode != 0:
                self._end()
                return {"state": "failed", "error": "training ended before it was done"}
            self.found = learned(_load(self.folder.name), self.seed)
            return {"state": "ready", "seed": self.seed, **self.found}

    def _alive(self) -> bool:
        return self.process is not None and self.process.is_alive()

    def _end(self) -> None:
        if self._alive():
            self.process.kill()
            self.process.join()
        self.process, self.found = None, None
        if self.folder is not None:
            self.folder.cleanup()
            self.folder = None


def _train(folder: str, seed: int) -> None:
    """In the process of its own: the loop's report on stderr is nobody's."""
    from dbtm.service.simplex import train_simplex

    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        train_simplex(folder, seed)


def _load(checkpoint: str) -> Any:
    from dbtm.service.models import load_model

    return load_model(checkpoint, "cpu")


def learned(sampler: Any, seed: int = 0) -> dict[str, Any]:
    """A map's basins in the drawing, and how close it is to the exact one."""
    from dbtm.service.simplex import map_of, plane_points

    found = map_of(sampler, seed)
    if len(found.p) != 3:
        raise UsageError(f"this map has {len(found.p)} vertices: three can be drawn")
    return {
        "p": list(found.p),
        "frequencies": list(found.frequencies),
        "agreement": found.agreement,
        "cells": CELLS,
        "basins": found.vertex_of(plane_points(CELLS)).tolist(),
    }


LEARNING = Learning()


async def constants(request: Request) -> Response:
    def computed() -> dict[str, Any]:
        from dbtm.viz.theory.page import constants as of_page

        return of_page()

    return JSONResponse(await run_in_threadpool(computed))


async def state(request: Request) -> Response:
    return JSONResponse(await run_in_threadpool(LEARNING.state))


async def learn(request: Request) -> Response:
    body = await read_body(request, LearnBody)
    await run_in_threadpool(LEARNING.start, body.seed)
    return JSONResponse(await run_in_threadpool(LEARNING.state))


async def stop(request: Request) -> Response:
    await run_in_threadpool(LEARNING.stop)
    return JSONResponse({"state": "idle"})


async def basins(request: Request) -> Response:
    """The basins of one's own map: `done`."""
    studio, body = studio_of(request), await read_body(request, BasinsBody)
    model = await run_in_threadpool(studio.shelf.pick, body.model, "simplex")

    def work(job: Job) -> dict[str, Any]:
        return learned(studio.shelf.load(model))

    return answer_with(studio.jobs, request, work)


ROUTES = [
    Route("/api/simplex/constants", constants),
    Route("/api/simplex/learned", state),
    Route("/api/simplex/learn", learn, methods=["POST"]),
    Route("/api/simplex/stop", stop, methods=["POST"]),
    Route("/api/simplex/basins", basins, methods=["POST"]),
]
