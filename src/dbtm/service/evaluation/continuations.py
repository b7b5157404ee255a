"""Continuations of held-out text by a checkpoint, beside the real ones."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.evals.continuations import ContinuationScore, Halves, halves_of, score
from dbtm.evals.drawing import resolve
from dbtm.evals.judges import load_judge
from dbtm.evals.provenance import made
from dbtm.evals.settings import over_budgets
from dbtm.sampling import Sampler
from dbtm.service.evaluation import Meter
from dbtm.service.evaluation.generated_text import load_text_model
from dbtm.service.evaluation.models import describe_origin
from dbtm.service.progress import Progress
from dbtm.tasks.text.sources import pieces
from dbtm.tasks.text.task import Text


@dataclass(frozen=True, kw_only=True)
class ContinuationRequest:
    """Texts of a file, one per line, whose second halves a checkpoint generates."""

    checkpoint: str
    texts: Path
    judge: str = "smollm2"
    n: int = 512
    seed: int = 0
    budgets: tuple[int, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    batch: int | None = None  # None: what fits
    device: str = "auto"


@dataclass(frozen=True)
class ContinuationEvaluation:
    """The numbers, and an example."""

    judge: dict[str, Any]
    model: dict[str, Any]
    texts: dict[str, Any]
    made: dict[str, Any]
    scores: tuple[ContinuationScore, ...] = ()
    examples: tuple[dict[str, str], ...] = ()
    """For the first text: its first half, and the second half of each set."""

    def document(self) -> dict[str, Any]:
        rows = [each.document() for each in self.scores]
        about = {"judge": self.judge, "model": self.model, "texts": self.texts, "examples": list(self.examples)}
        return {"rows": rows, **about, **self.made}


def evaluate_continuations(
    request: ContinuationRequest, progress: Progress = Progress()
) -> Iterator[ContinuationEvaluation]:
    """A result after each set: the real second halves first, then one per budget."""
    sampler = load_text_model(request.checkpoint, request.device, request.batch, None, progress)
    if not isinstance(sampler.task, Text):
        raise UsageError("continuations need a checkpoint that was trained on prepared text")
    settings = [resolve(sampler, each) for each in over_budgets(sampler, request.budgets, request.options)]
    halves = halves_of(sampler.task, _lines(request.texts), request.n)
    judge = load_judge(request.judge, request.device)
    progress.stage("judging the real second halves")
    real = [np.array(sampler.task.encode(each.second)) for each in halves]
    scores = [score(halves, [each.second for each in halves], real, judge, "real")]
    example = {"given": halves[0].first, "real": halves[0].second}
    result = ContinuationEvaluation(
        judge.describe(),
        describe_origin(sampler, request.checkpoint, request.seed),
        {"file": request.texts.name, "sha256": sha256(request.texts), "n": len(halves)},
        made(judge.device),
        tuple(scores),
        (example,),
    )
    yield result
    for each in settings:
        seconds, tokens, nfe, took = _continue(sampler, halves, each, request.seed, progress)
        progress.stage("judging continuations")
        scores.append(score(halves, seconds, tokens, judge, "samples", settings=each, nfe=nfe, seconds=took))
        label = f"{each['nfe']} NFE" if "nfe" in each else "samples"
        example = example | {label: seconds[0]}
        yield (result := replace(result, scores=tuple(scores), examples=(example,)))


def _lines(path: Path) -> Iterator[str]:
    """The texts of a file; a text that comes in pieces is longer than any sequence and is skipped."""
    inside = False
    for piece in pieces(str(path), tick=lambda _: None):
        if piece.ends and not inside:
            yield piece.text
        inside = not piece.ends


def _continue(
    sampler: Sampler, halves: list[Halves], settings: Mapping[str, Any], seed: int, progress: Progress
) -> tuple[list[str], list[np.ndarray], float, float]:
    """Texts, tokens, evaluations and seconds."""
    progress.stage("continuing", len(halves))
    tokens_NL, clean_NL = (np.stack([getattr(each, name) for each in halves]) for name in ("tokens_L", "clean_L"))
    start = time.perf_counter()
    trace = sampler.sample(
        tokens=tokens_NL,
        clean=clean_NL,
        seed=seed,
        progress=Meter(progress),
        cancelled=progress.cancelled,
        **settings,
    )
    took = time.perf_counter() - start
    cut = [each.cut(row) for each, row in zip(halves, trace.tokens, strict=True)]
    task = sampler.task
    assert isinstance(task, Text)
    return [task.text(row) for row in cut], cut, float(trace.nfe.mean()), took
