"""The room of the simplex: constants of the exact flow, and a learned map, trained on request."""

import contextlib
import multiprocessing
import os
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dbtm.core.errors import UsageError
from dbtm.studio.answers import Json
from dbtm.studio.bodies import read_body
from dbtm.studio.events import answer_with
from dbtm.studio.jobs import Job
from dbtm.studio.state import studio_of
from dbtm.studio.threads import in_thread

CELLS = 90  # of the drawing, horizontal and vertical


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
    """One training run at a time, in its own process, so that the models' queue does not wait for it.

    `lock` is held only briefly, since shutdown waits for it; slow work is under `measuring`.
    """

    def __init__(self) -> None:
        self.lock, self.measuring = threading.Lock(), threading.Lock()
        self.process: Any = None
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.seed = 0
        self.found: dict[str, Any] | None = None

    def start(self, seed: int) -> None:
        """Begin, unless the same run is finished or in progress."""
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
        told = self._progress()
        if told is not None:
            return told
        with self.measuring:
            return self._progress() or self._measure()

    def _progress(self) -> dict[str, Any] | None:
        """The state, or None if training is done but its map is not measured yet."""
        from dbtm.service.runs import read_records
        from dbtm.service.simplex import simplex_steps

        with self.lock:
            if self.found is not None:
                return {"state": "ready", "seed": self.seed, **self.found}
            if self.folder is None:
                return {"state": "idle"}
            if self._alive():
                records = read_records(Path(self.folder.name)).records
                step = records[-1]["step"] if records else 0
                return {"state": "training", "seed": self.seed, "step": step, "steps": simplex_steps()}
            if self.process.exitcode != 0:
                self._end()
                return {"state": "failed", "error": "training ended early"}
            return None

    def _measure(self) -> dict[str, Any]:
        with self.lock:
            folder, seed = self.folder, self.seed
        if folder is None:
            return {"state": "idle"}
        try:
            found = learned(_load(folder.name), seed)
        except Exception:
            if self.folder is folder:
                raise
            return {"state": "idle"}  # stopped meanwhile: its files are removed
        with self.lock:
            if self.folder is folder:
                self.found = found
                return {"state": "ready", "seed": seed, **found}
        return {"state": "idle"}

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
    """Runs in the child process, which ends with the studio in any case. Its stderr is discarded."""
    from dbtm.service.simplex import train_simplex

    threading.Thread(target=_end_with_the_studio, daemon=True).start()
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        train_simplex(folder, seed)


def _end_with_the_studio() -> None:
    studio = multiprocessing.parent_process()
    assert studio is not None
    studio.join()
    os._exit(1)


def _load(checkpoint: str) -> Any:
    from dbtm.service.models import load_model

    return load_model(checkpoint, "cpu")


def learned(sampler: Any, seed: int = 0) -> dict[str, Any]:
    """A map's basins in the drawing, and its agreement with the exact one."""
    from dbtm.service.simplex import map_of, plane_points

    found = map_of(sampler, seed)
    if len(found.p) != 3:
        raise UsageError(f"this map has {len(found.p)} vertices: only three can be drawn")
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

    return Json(await in_thread(computed))


async def state(request: Request) -> Response:
    return Json(await in_thread(LEARNING.state))


async def learn(request: Request) -> Response:
    body = await read_body(request, LearnBody)
    await in_thread(LEARNING.start, body.seed)
    return Json(await in_thread(LEARNING.state))


async def stop(request: Request) -> Response:
    await in_thread(LEARNING.stop)
    return Json({"state": "idle"})


async def basins(request: Request) -> Response:
    """The basins of the user's map: `done`."""
    studio, body = studio_of(request), await read_body(request, BasinsBody)
    model = await in_thread(studio.shelf.pick, body.model, "simplex")

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
