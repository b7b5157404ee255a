"""The studio as an ASGI app: routes of all rooms behind the guard, its pages, and errors in plain words."""

import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dbtm import __version__
from dbtm.core.errors import UsageError
from dbtm.studio import maths, referee, runs, simplex, sudoku, text
from dbtm.studio.answers import Json
from dbtm.studio.bodies import read_body
from dbtm.studio.guard import COOKIE, Guard
from dbtm.studio.state import Studio, studio_of
from dbtm.studio.threads import in_thread
from dbtm.viz.template import WEB as VIEWER

WEB = files("dbtm.studio") / "web"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
ROOMS = (sudoku, text, maths, simplex, runs, referee)


def make_app(studio: Studio, names: frozenset[str] = frozenset()) -> Starlette:
    """The app; `names` are this machine's names besides localhost and its addresses."""
    routes = [
        Route("/", page),
        Route("/static/{name:path}", asset),
        Route("/healthz", health),
        Route("/api/login", login, methods=["POST"]),
        Route("/api/models", models),
        Route("/api/results/{name}", saved),
        *(route for room in ROOMS for route in room.ROUTES),
    ]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        studio.jobs.start()
        yield
        studio.jobs.close()
        simplex.LEARNING.stop()

    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(Guard, door=studio.door, names=names)],
        exception_handlers={UsageError: usage_error, HTTPException: http_error, Exception: failure},
    )
    app.state.studio, app.state.assets = studio, read_assets()
    return app


# -- pages -------------------------------------------------------------------------------------------------------------


def read_assets() -> dict[str, tuple[bytes, str]]:
    """{name: (content, kind)} of all served files, read once, so that no path of a request is opened."""
    found: dict[str, tuple[bytes, str]] = {}
    for prefix, folder in (("viewer/", VIEWER), ("", WEB), ("rooms/", WEB / "rooms")):
        for path in folder.iterdir():
            kind = KINDS.get(f".{path.name.rpartition('.')[2]}")
            if kind and path.is_file():
                found[prefix + path.name] = (path.read_bytes(), kind)
    return found


async def page(request: Request) -> Response:
    return _asset(request, "index.html")


async def asset(request: Request) -> Response:
    return _asset(request, request.path_params["name"])


def _asset(request: Request, name: str) -> Response:
    if name not in request.app.state.assets:
        raise HTTPException(404)
    content, kind = request.app.state.assets[name]
    return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})


# -- what all rooms share ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoginBody:
    token: str


async def login(request: Request) -> Response:
    """Exchange the token for a cookie, so that it is never part of an address."""
    studio, body = studio_of(request), await read_body(request, LoginBody)
    if studio.door.closed():
        return Json({"error": "too many wrong tokens: wait a minute"}, 429, {"Retry-After": "60"})
    if not studio.door.fits(body.token):
        return Json({"error": "wrong token"}, 401)
    response = Json({"version": __version__})
    response.set_cookie(COOKIE, studio.door.session, httponly=True, samesite="strict", path="/")
    return response


async def health(request: Request) -> Response:
    return Json({"status": "ok", "version": __version__})


async def models(request: Request) -> Response:
    studio = studio_of(request)
    described = await in_thread(studio.shelf.describe)
    return Json({"models": described, "version": __version__, "queue": studio.jobs.state()})


async def saved(request: Request) -> Response:
    """A result as a file that replays it."""
    html = await in_thread(studio_of(request).results.page, request.path_params["name"])
    if html is None:
        raise HTTPException(404)
    headers = {"Content-Disposition": 'attachment; filename="dbtm.html"'}
    return Response(html, media_type="text/html", headers=headers)


# -- errors ------------------------------------------------------------------------------------------------------------


async def usage_error(request: Request, error: Exception) -> Response:
    return Json({"error": str(error)}, getattr(error, "status", 400))


async def http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words: dict[int, str] = {404: "there is nothing at this address", 405: "this address needs another method"}
    headers: Any = error.headers
    return Json({"error": words.get(error.status_code, error.detail)}, error.status_code, headers)


async def failure(request: Request, error: Exception) -> Response:
    """Unexpected errors are reported in the terminal, not to the browser."""
    traceback.print_exception(error)
    return Json({"error": "the studio failed at this request; see its terminal"}, 500)
