"""The room of runs: live training runs and their results."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dbtm.core.errors import UsageError
from dbtm.studio.answers import Json
from dbtm.studio.bodies import MOST_NFE, read_body
from dbtm.studio.events import answer_with
from dbtm.studio.jobs import Job
from dbtm.studio.state import Studio, studio_of
from dbtm.studio.threads import in_thread


@dataclass(frozen=True)
class RunSamplesBody:
    nfe: int | None = None
    seed: int = 0

    def __post_init__(self):
        if self.nfe is not None and not 1 <= self.nfe <= MOST_NFE:
            raise UsageError(f"nfe {self.nfe}: the studio allows 1 to {MOST_NFE} network evaluations")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"seed {self.seed}: give a whole number from 0 to 2^63 - 1")


def find_run(studio: Studio, name: str) -> Path:
    """The folder of a run by its name in the list; any other name is 404."""
    from dbtm.service.runs import find_runs

    found = find_runs(studio.runs)
    if name not in found:
        raise HTTPException(404)
    return found[name]


async def all_runs(request: Request) -> Response:
    studio = studio_of(request)

    def listed() -> dict[str, Any]:
        from dbtm.service.runs import find_runs, summarise

        runs = [{"name": name, **asdict(summarise(run))} for name, run in find_runs(studio.runs).items()]
        return {"runs": runs, "folders": [str(folder) for folder in studio.runs]}

    return Json(await in_thread(listed))


async def one_run(request: Request) -> Response:
    """A run: its progress, its checkpoints, and its records from byte `from` on."""
    studio, name = studio_of(request), request.query_params.get("name", "")
    start = request.query_params.get("from", "0")
    if not (start.isascii() and start.isdecimal() and len(start) < 16):
        raise UsageError("from: give a number of bytes")

    def told() -> dict[str, Any]:
        from dbtm.service.runs import list_checkpoints, read_records, summarise

        run = find_run(studio, name)
        read = read_records(run, int(start))
        checkpoints = [asdict(note) for note in list_checkpoints(run, read.records)]
        return {**asdict(summarise(run)), "name": name, "checkpoints": checkpoints, "metrics": asdict(read)}

    return Json(await in_thread(told))


async def settings(request: Request) -> Response:
    studio, name = studio_of(request), request.query_params.get("name", "")

    def told() -> dict[str, Any]:
        from dbtm.service.runs import run_settings

        run = find_run(studio, name)
        try:
            found = run_settings(run)
        except UsageError as error:  # the run has just begun: not a visitor's mistake
            return {"settings": [], "note": str(error)}
        return {"settings": [{**asdict(setting), "changed": setting.changed} for setting in found], "note": None}

    return Json(await in_thread(told))


async def samples(request: Request) -> Response:
    """Samples over training: a `sample` per checkpoint, all from the same noise."""
    studio, body = studio_of(request), await read_body(request, RunSamplesBody)
    run = await in_thread(find_run, studio, request.query_params.get("name", ""))

    def work(job: Job) -> dict[str, Any]:
        from dbtm.service.runs import samples_over_training

        count = 0
        for sample in samples_over_training(run, body.nfe, body.seed, studio.progress(job), studio.shelf.device):
            job.send("sample", asdict(sample))
            count += 1
        return {"samples": count}

    return answer_with(studio.jobs, request, work)


ROUTES = [
    Route("/api/runs", all_runs),
    Route("/api/runs/one", one_run),
    Route("/api/runs/settings", settings),
    Route("/api/runs/samples", samples, methods=["POST"]),
]
