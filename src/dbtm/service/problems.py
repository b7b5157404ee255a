"""One reasoning problem (a maze, a graph, a formula), answered by a trained model and judged by its rules."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_SEED
from dbtm.evals.cost import flops_of
from dbtm.sampling import Sampler
from dbtm.service.request import ModelRequest
from dbtm.tasks.reasoning.base import Reasoning

BUDGET = 16  # default network evaluations for methods with a budget


@dataclass(frozen=True, kw_only=True)
class ProblemRequest(ModelRequest):
    """A problem for a checkpoint trained on its kind."""

    kind: str
    """The name of the task."""
    text: str | None = None
    """The problem as text; None: a random one from the seed."""


@dataclass(frozen=True)
class ProblemResult:
    """The model's answer to a problem."""

    problem: str
    answer: str
    rounds: list[str]
    """The answer after every round."""
    committed: list[int | None]
    """Committed positions per round; None if the method has no commits."""
    free: int
    """Positions of the answer."""
    nfe: int
    budget: int | None
    milliseconds: float
    violation: str | None
    """What is wrong with the answer; None if it is valid."""
    stable: bool | None
    """Whether the check confirmed the answer; None without a check."""
    settings: dict[str, Any]
    flops: float
    """Estimated FLOPs: the number of network evaluations times the matrix products of one."""

    @property
    def solved(self) -> bool:
        return self.violation is None


def answer(request: ProblemRequest, sampler: Sampler | None = None) -> ProblemResult:
    """The model's answer: any valid one is right."""
    sampler = request.sampler(sampler)
    task = _task(sampler, request)
    new = request.text is None
    tokens_L = task.new(np.array([request.seed % MOST_SEED]))[0] if new else task.parse(str(request.text))
    options = request.checked(sampler, {"nfe": BUDGET, **request.options} if sampler.has_budget else request.options)
    free_L = task.answer()
    start = time.perf_counter()
    trace = sampler.sample(tokens=tokens_L[None], clean=~free_L[None], seed=request.seed, trace=True, **options)
    milliseconds = 1000 * (time.perf_counter() - start)
    return ProblemResult(
        problem=task.problem(tokens_L),
        answer=task.text(trace.tokens[0]),
        rounds=[task.text(np.maximum(state.tokens[0], 0)) for state in trace.rounds],
        committed=[None if s.committed is None else int(s.committed[0, free_L].sum()) for s in trace.rounds],
        free=int(free_L.sum()),
        nfe=int(trace.nfe[0]),
        budget=options["nfe"] + options.get("check", 0) if sampler.has_budget else None,
        milliseconds=milliseconds,
        violation=task.complaint(trace.tokens[0]),
        stable=None if trace.stable is None else bool(trace.stable[0]),
        settings=request.settings(sampler, options),
        flops=int(trace.nfe[0]) * flops_of(sampler, options),
    )


def _task(sampler: Sampler, request: ProblemRequest) -> Reasoning:
    task = sampler.task
    if not isinstance(task, Reasoning) or task.name != request.kind:
        name = task.name if task else "nothing"
        raise UsageError(
            f"the checkpoint '{request.checkpoint}' was trained on '{name}', not on '{request.kind}': train one with "
            f"the recipe '{request.kind}' or '{request.kind}-mini'"
        )
    return task
