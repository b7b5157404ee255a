"""Generative perplexity, entropy and repetition of a checkpoint's text, beside real and shuffled text."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dbtm.checkpoint.loading import PACKAGED, find
from dbtm.core.errors import UsageError
from dbtm.evals.drawing import draw_samples, fitting_batch, resolve
from dbtm.evals.judges import load_judge
from dbtm.evals.judges.base import Judge
from dbtm.evals.perplexity import Blocks, TextScore, measure, other_text, references, text_task
from dbtm.evals.provenance import made
from dbtm.evals.samples import SampleSet, key, read_sets
from dbtm.evals.settings import over_budgets
from dbtm.sampling import Sampler
from dbtm.service.evaluation import Meter
from dbtm.service.evaluation.models import describe_origin
from dbtm.service.evaluation.together import load_shared
from dbtm.service.progress import Progress
from dbtm.tasks.folder import MANIFEST
from dbtm.tasks.text.task import Text

FEWEST = 100  # texts from which a distribution is estimated


@dataclass(frozen=True, kw_only=True)
class TextEvaluationRequest:
    """Samples of a checkpoint or of a file, for a judge."""

    checkpoint: str | None = None
    samples: Path | None = None  # a file of samples, instead of a checkpoint
    judge: str | None = "smollm2"  # None: no perplexity
    n: int = 1024  # samples per setting, and blocks of real text
    seed: int = 0
    budgets: tuple[int, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    references: bool = True  # measure real and shuffled text too
    matches: bool = False  # look for runs of the samples in the training text
    data: Path | None = None  # new path of the prepared text
    batch: int | None = None  # None: what fits
    device: str = "auto"


@dataclass(frozen=True)
class TextEvaluation:
    """Sets of samples, and their numbers."""

    judge: dict[str, Any] | None  # as it describes itself
    made: dict[str, Any]
    sets: tuple[SampleSet, ...] = ()
    scores: tuple[TextScore, ...] = ()

    def document(self) -> dict[str, Any]:
        """The JSON: the judge, the samples and their source, and the machine."""
        origins = [each.origin for each in self.sets]
        different = [each for i, each in enumerate(origins) if each and each not in origins[:i]]
        return {
            "rows": [score.document() for score in self.scores],
            "judge": self.judge,
            "samples": different,
            **self.made,
        }


def evaluate_text(request: TextEvaluationRequest, progress: Progress = Progress()) -> Iterator[TextEvaluation]:
    """Generative perplexity, entropy and repetition; a result when all sets are drawn, and after each judged set."""
    if (request.checkpoint is None) == (request.samples is None):
        raise UsageError("give either a checkpoint or a file of samples")
    sampler, settings = None, list[dict[str, Any]]()
    if request.checkpoint is not None:
        sampler = load_text_model(request.checkpoint, request.device, request.batch, request.data, progress)
        wanted = [resolve(sampler, each) for each in over_budgets(sampler, request.budgets, request.options)]
        settings = list({key(each): each for each in wanted}.values())  # equal settings are drawn once
    corpus = _training_text(sampler) if request.matches else None
    sets = tuple(read_sets(request.samples)) if request.samples is not None else ()
    judge = None if request.judge is None else load_judge(request.judge, request.device)
    machine = torch.device("cpu") if judge is None else judge.device
    result = TextEvaluation(None if judge is None else judge.describe(), made(machine))
    if sampler is not None and request.checkpoint is not None:
        sets = tuple(_draw(request, request.checkpoint, sampler, settings, progress))
    yield (result := replace(result, sets=sets))
    real_ND, other_ND = _real_features(request, sampler, sets, judge, progress)
    for number, each in enumerate(sets, 1):
        if judge is not None:
            progress.stage(f"judging set {number} of {len(sets)}")
        compared = other_ND if each.kind == "real" else real_ND
        score = measure(each, judge, Meter(progress), compared, corpus)
        yield (result := replace(result, scores=(*result.scores, score)))


def _training_text(sampler: Sampler | None) -> Blocks:
    """The training text in which runs of the samples are searched."""
    if sampler is None or not isinstance(sampler.task, Text):
        raise UsageError("matches with the training text need a checkpoint that was trained on prepared text")
    return sampler.task.train


def _real_features(
    request: TextEvaluationRequest,
    sampler: Sampler | None,
    sets: Sequence[SampleSet],
    judge: Judge | None,
    progress: Progress,
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The judge's features of the real text in the sets, and of as much other real text."""
    real = next((each for each in sets if each.kind == "real"), None)
    if judge is None or real is None or len(real.texts) < FEWEST:
        return None, None
    progress.stage("the judge reads real text")
    other = None if sampler is None else other_text(text_task(sampler.task), request.n)
    return judge.features(real.texts), None if other is None else judge.features(other.texts)


def _draw(
    request: TextEvaluationRequest,
    checkpoint: str,
    sampler: Sampler,
    settings: list[dict[str, Any]],
    progress: Progress,
) -> Iterator[SampleSet]:
    """A set per setting, and the references last."""
    compared: list[SampleSet] = []
    if request.references and request.data is None and find(checkpoint).parent == PACKAGED:
        progress.note("the packaged model comes without its text: real text is left out of the table")
    elif request.references:
        compared = references(text_task(sampler.task), request.n)
    origin = describe_origin(sampler, checkpoint, request.seed)
    progress.stage("drawing samples", len(settings) * request.n)
    meter = Meter(progress)
    for each in settings:
        yield draw_samples(sampler, each, request.n, request.seed, origin, meter, progress.cancelled)
        meter.before += request.n
    yield from compared


def load_text_model(checkpoint: str, device: str, batch: int | None, data: Path | None, progress: Progress) -> Sampler:
    """The sampler of a checkpoint trained on text; `data` is the new path of the text."""
    sampler = load_shared(checkpoint, device)
    text_task(sampler.task)
    move_data(sampler, checkpoint, data, progress)
    sampler.batch = batch or fitting_batch(sampler)
    return sampler


def move_data(sampler: Sampler, checkpoint: str, data: Path | None, progress: Progress) -> None:
    """Read the task's text from `data`, if given; warn if the checkpoint was not trained on this text."""
    if data is not None:
        if not isinstance(sampler.task, Text):
            raise UsageError("only a checkpoint that was trained on prepared text takes other data: leave it out")
        sampler.task = sampler.task.at(str(data))
    task = sampler.task
    if not isinstance(task, Text):
        return
    state = find(checkpoint) / "state.json"
    trained_on = json.loads(state.read_text()).get("data") if state.is_file() else None
    if trained_on and Path(task.data, MANIFEST).is_file() and trained_on != task.data_sha256():
        progress.note(f"{checkpoint} was not trained on {task.data}: it may have seen the text held out there")
