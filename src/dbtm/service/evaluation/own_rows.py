"""Generated rows of a checkpoint trained on a user's data, beside the held-out rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dbtm.core.errors import UsageError
from dbtm.evals.drawing import fitting_batch
from dbtm.evals.own import HeldOutCE, RowsScore, cross_entropy, load_metric, own_task, row_scores
from dbtm.evals.provenance import made
from dbtm.evals.settings import over_budgets
from dbtm.evals.validation import validation_loss
from dbtm.service.evaluation import Meter
from dbtm.service.evaluation.models import describe_model
from dbtm.service.evaluation.together import load_shared
from dbtm.service.progress import Progress


@dataclass(frozen=True, kw_only=True)
class OwnEvaluationRequest:
    """Samples of a checkpoint that was trained on a user's rows."""

    checkpoint: str
    n: int = 1000  # samples per setting, and most held-out rows
    data: Path | None = None  # new path of the rows
    metric: str | None = None  # file.py:function, which is run
    seed: int = 0
    budgets: tuple[int, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    batch: int | None = None  # None: what fits
    device: str = "auto"


@dataclass(frozen=True)
class OwnEvaluation:
    """Metrics of the samples and of the held-out rows."""

    model: dict[str, Any]
    data: dict[str, Any]
    made: dict[str, Any]
    held_out: HeldOutCE | None = None
    validation: float | None = None
    """The method's own objective on held-out rows."""
    scores: tuple[RowsScore, ...] = ()

    def document(self) -> dict[str, Any]:
        held = None if self.held_out is None else self.held_out.document()
        rows = [score.document() for score in self.scores]
        return {
            "rows": rows,
            "held_out": held,
            "validation_loss": self.validation,
            "model": self.model,
            "data": self.data,
            **self.made,
        }


def evaluate_own(request: OwnEvaluationRequest, progress: Progress = Progress()) -> Iterator[OwnEvaluation]:
    """Held-out cross-entropy, then the rows; a result after every setting."""
    metric = None if request.metric is None else load_metric(request.metric)
    sampler = load_shared(request.checkpoint, request.device)
    task = own_task(sampler.task)
    if request.data is not None:
        task = sampler.task = replace(task, data=str(request.data))
    try:
        held = task.held_out_examples(request.n)
    except UsageError as error:
        raise UsageError(f"cannot read the training rows: {error}") from None
    sampler.batch = request.batch or min(1024, fitting_batch(sampler))
    settings = over_budgets(sampler, request.budgets, request.options)
    about = {"file": Path(task.data).name, "sha256": task.data_sha256(), "n": request.n, "seed": request.seed}
    about |= {"trained_on": len(task.split[0]), "held_out": len(task.split[1]), "metric": request.metric}
    result = OwnEvaluation(describe_model(sampler, request.checkpoint), about, made(sampler.device))
    if held is None:
        progress.note("no rows are held out (task.held_out=0, or fewer than 20 rows): nothing to compare with")
    else:
        progress.stage("held-out rows")
        measured = cross_entropy(sampler, held, request.seed)
        result = replace(result, held_out=measured, validation=validation_loss(sampler, request.seed))
    progress.stage("sampling", len(settings) * request.n)
    meter = Meter(progress)
    for score in row_scores(sampler, settings, request.n, request.seed, metric, meter, progress.cancelled):
        meter.before += request.n if score.kind == "samples" else 0
        yield (result := replace(result, scores=(*result.scores, score)))
