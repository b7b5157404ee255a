"""The room of word problems: a question, the program round by round, its run in the sandbox, the answer."""

import time
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dbtm.studio.bodies import ModelBody, read_body
from dbtm.studio.events import answer_with
from dbtm.studio.jobs import Job
from dbtm.studio.state import Studio, every, studio_of
from dbtm.studio.threads import in_thread


@dataclass(frozen=True, kw_only=True)
class QuestionBody(ModelBody):
    """A question, or null for a held-out one, drawn by the seed."""

    question: str | None = None


async def answer(request: Request) -> Response:
    """An answer: `start` with the question, a `round` per network evaluation, `stage`, `done`."""
    studio, body = studio_of(request), await read_body(request, QuestionBody)
    model = await in_thread(studio.shelf.pick, body.model, "maths")
    return answer_with(studio.jobs, request, lambda job: run_answer(studio, job, body, model))


def run_answer(studio: Studio, job: Job, body: QuestionBody, model: str) -> dict[str, Any]:
    from dbtm.service.generation import ProgramsRequest, given_questions, write_programs
    from dbtm.service.pages import LiveSample, samples_page, verdict_of

    sampler = studio.shelf.load(model)
    ask = ProgramsRequest(checkpoint=model, options=body.options(), seed=body.seed, trace=True, question=body.question)
    questions, answers, (tokens_BL, given_BL) = given_questions(ask, sampler)
    sampler.with_options(**body.options())
    assert sampler.task is not None
    live = LiveSample(sampler.task, tokens_BL[0], given_BL[0], first=int(given_BL[0].sum()))
    job.send("start", {**live.start(), "question": questions[0], "answer": answers[0]})
    shown = every(int((~given_BL[0]).sum()) if not sampler.has_budget else 1)

    def on_round(state: Any) -> None:
        if shown():
            job.send("round", live.document(state))

    start = time.perf_counter()
    result = write_programs(ask, sampler, studio.progress(job), on_round)
    outcome = result.outcomes[0]
    return {
        "last": live.document(result.trace.rounds[-1], last=True) if result.trace.rounds else None,
        "program": result.programs[0],
        "outcome": {**vars(outcome), "value": _plain(outcome.value)},
        "verdict": verdict_of(result, 0),
        "correct": result.correct(0),
        "answer": result.answers[0],
        "nfe": int(result.trace.nfe[0]),
        "milliseconds": round(1000 * (time.perf_counter() - start), 1),
        "settings": result.settings,
        "result": studio.results.keep(lambda: samples_page(result)),
    }


def _plain(value: Any) -> str | None:
    """A program's number as text: browsers' numbers have 53 bits."""
    return None if value is None else str(value)


ROUTES = [Route("/api/maths/answer", answer, methods=["POST"])]
