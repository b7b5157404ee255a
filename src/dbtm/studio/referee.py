"""The room of comparisons: results of `dbtm referee`, as tables."""

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dbtm.studio.answers import Json
from dbtm.studio.state import studio_of
from dbtm.studio.threads import in_thread


async def all_comparisons(request: Request) -> Response:
    studio = studio_of(request)

    def listed() -> dict[str, Any]:
        from dbtm.service.comparisons import find_comparisons

        return {"comparisons": list(find_comparisons(studio.runs)), "folders": [str(place) for place in studio.runs]}

    return Json(await in_thread(listed))


async def one_comparison(request: Request) -> Response:
    studio, name = studio_of(request), request.query_params.get("name", "")

    def told() -> dict[str, Any]:
        from dbtm.service.comparisons import find_comparisons, read_comparison

        found = find_comparisons(studio.runs)
        if name not in found:
            raise HTTPException(404)
        return {"name": name, **read_comparison(found[name])}

    return Json(await in_thread(told))


ROUTES = [Route("/api/referee", all_comparisons), Route("/api/referee/one", one_comparison)]
