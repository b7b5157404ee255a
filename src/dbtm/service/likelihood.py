"""The likelihood of held-out examples, or an upper bound on its negative logarithm."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbtm.core.errors import UsageError
from dbtm.evals.likelihood import LikelihoodScore, check_method, fitting_batch, measure_likelihood
from dbtm.evals.provenance import made
from dbtm.service.evaluation import Meter
from dbtm.service.evaluation.generated_text import move_data
from dbtm.service.evaluation.models import describe_model
from dbtm.service.evaluation.together import load_shared
from dbtm.service.progress import Progress
from dbtm.tasks.base import Batch, Task
from dbtm.tasks.text.task import Text


@dataclass(frozen=True, kw_only=True)
class LikelihoodRequest:
    """At most n held-out examples of a checkpoint's task."""

    checkpoint: str
    n: int = 1000
    data: Path | None = None  # new path of the prepared text
    seed: int = 0  # of the random times at which a bound is estimated
    batch: int | None = None  # None: what fits
    device: str = "auto"


@dataclass(frozen=True)
class LikelihoodResult:
    """Nats per token, and the examples they are measured on."""

    score: LikelihoodScore
    model: dict[str, Any]
    data: dict[str, Any]
    made: dict[str, Any]

    def document(self) -> dict[str, Any]:
        return {**self.score.document(), "model": self.model, "data": self.data, **self.made}


class NoTextError(UsageError):
    """The text of a checkpoint is missing or has moved."""


def evaluate_likelihood(request: LikelihoodRequest, progress: Progress = Progress()) -> LikelihoodResult:
    """Measure the likelihood on held-out examples."""
    sampler = load_shared(request.checkpoint, request.device)
    check_method(sampler.method)
    move_data(sampler, request.checkpoint, request.data, progress)
    task = sampler.task
    assert task is not None
    sampler.batch = request.batch or fitting_batch(sampler)
    progress.stage("getting held-out examples")
    examples = _held_out(task, request.n)
    n = len(examples.tokens)
    progress.stage(f"measuring {n} examples", n)
    score = measure_likelihood(sampler, examples, request.seed, Meter(progress), progress.cancelled)
    source = {"data": str(request.data)} if request.data is not None else {}
    return LikelihoodResult(
        score,
        describe_model(sampler, request.checkpoint),
        {"task": task.name, **source, "n": n, "seed": request.seed},
        made(sampler.device),
    )


def _held_out(task: Task, n: int) -> Batch:
    try:
        examples = task.held_out_examples(n)
    except UsageError as error:
        raise (NoTextError(f"no held-out text: {error}") if isinstance(task, Text) else error) from None
    if examples is None or not len(examples.tokens):
        raise UsageError(f"the task '{task.name}' has no held-out examples: there is nothing to measure")
    return examples
