"""The room of texts: a prompt, a text with holes, or tokens to regenerate in part; rounds are streamed."""

import time
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dbtm.core.errors import UsageError
from dbtm.studio.bodies import ModelBody, read_body
from dbtm.studio.events import answer_with
from dbtm.studio.jobs import Job
from dbtm.studio.state import Studio, every, studio_of
from dbtm.studio.threads import in_thread

OTHERS = 4  # likely tokens per position in a round


@dataclass(frozen=True, kw_only=True)
class TextBody(ModelBody):
    """One of: a prompt and a suffix (both may be empty), a text with holes, tokens with null where to generate."""

    prompt: str = ""
    suffix: str = ""
    infill: str | None = None
    hole: int | None = None
    tokens: tuple[int | None, ...] | None = None

    def __post_init__(self):
        super().__post_init__()
        given = [self.infill is not None, self.tokens is not None, bool(self.prompt or self.suffix)]
        if sum(given) > 1:
            raise UsageError("give only one of: a prompt with its suffix, a text with holes (infill), or tokens")
        if self.hole is not None and (self.infill is None or self.hole < 1):
            raise UsageError("hole, the number of tokens per hole, needs infill and must be at least 1")


async def write(request: Request) -> Response:
    """A text: `start` with the given part, a `round` per network evaluation, `done`."""
    studio, body = studio_of(request), await read_body(request, TextBody)
    model = await in_thread(studio.shelf.pick, body.model, "text")
    return answer_with(studio.jobs, request, lambda job: run_write(studio, job, body, model))


def run_write(studio: Studio, job: Job, body: TextBody, model: str) -> dict[str, Any]:
    from dbtm.service import generation
    from dbtm.service.pages import LiveSample, samples_page

    sampler = studio.shelf.load(model)
    common: dict[str, Any] = {
        "checkpoint": model, "options": body.options(), "seed": body.seed, "trace": True, "others": OTHERS,
    }  # fmt: skip
    sample: Any
    if body.tokens is not None:
        ask = generation.SampleRequest(tokens=body.tokens, **common)
        (tokens_L,), (given_L,) = generation.given_tokens(ask, sampler)
        sample = lambda *more: generation.sample(ask, sampler, *more)  # noqa: E731
    else:
        parts = generation.parts_of(body.prompt, body.suffix, body.infill)
        hole = generation.hole_size(body.infill, body.hole)
        fill = generation.InfillRequest(parts=parts, hole=hole, **common)
        (tokens_L,), (given_L,) = generation.given_parts(fill, sampler)
        sample = lambda *more: generation.infill(fill, sampler, *more)  # noqa: E731
    sampler.with_options(**body.options())
    assert sampler.task is not None
    live = LiveSample(sampler.task, tokens_L, given_L)
    job.send("start", live.start())
    shown = every(int((~given_L).sum()) if not sampler.has_budget else 1)

    def on_round(state: Any) -> None:
        if shown():
            job.send("round", live.document(state))

    start = time.perf_counter()
    result = sample(studio.progress(job), on_round)
    milliseconds = 1000 * (time.perf_counter() - start)
    return {
        "last": live.document(result.trace.rounds[-1], last=True) if result.trace.rounds else None,
        "tokens": result.trace.tokens[0].tolist(),
        "text": result.texts()[0],
        "nfe": int(result.trace.nfe[0]),
        "milliseconds": round(milliseconds, 1),
        "settings": result.settings,
        "result": studio.results.keep(lambda: samples_page(result)),
    }


ROUTES = [Route("/api/text/write", write, methods=["POST"])]
