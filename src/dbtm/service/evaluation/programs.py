"""Accuracy of a checkpoint's programs, or of given ones, on word problems; run in the sandbox."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.evals import programs
from dbtm.evals.drawing import fitting_batch
from dbtm.evals.programs import ProblemResult, ProgramScore
from dbtm.evals.provenance import made
from dbtm.evals.settings import over_budgets
from dbtm.sampling import Sampler
from dbtm.sandbox import Sandbox
from dbtm.service.evaluation import Meter
from dbtm.service.evaluation.models import describe_model
from dbtm.service.evaluation.together import load_shared
from dbtm.service.progress import Progress
from dbtm.tasks.gsm8k.data import Example, read
from dbtm.tasks.gsm8k.synthetic import held_out

SYNTHETIC = 500  # problems, if neither a file nor a number is given


@dataclass(frozen=True, kw_only=True)
class ProgramsEvaluationRequest:
    """Word problems for a checkpoint; without one, the programs of a file are run."""

    checkpoint: str | None = None
    programs: Path | None = None  # JSON lines with code and answer, instead of a checkpoint
    data: Path | None = None  # JSON lines with question and answer; None: held-out synthetic problems
    n: int | None = None  # None: all, or 500 synthetic ones
    seed: int = 0  # of the sampler, and of synthetic problems
    budgets: tuple[int, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    tokenizer: str | None = None  # its new path
    batch: int | None = None  # None: what fits
    workers: int | None = None  # programs run in parallel; None: one per core
    device: str = "auto"


@dataclass(frozen=True)
class ProgramsEvaluation:
    """Problems solved per setting."""

    data: dict[str, Any]
    made: dict[str, Any]
    sandbox: tuple[str, ...]  # means by which programs are confined
    sandbox_without: tuple[str, ...]  # means that this system lacks
    model: dict[str, Any] | None = None  # None: programs of a file
    scores: tuple[ProgramScore, ...] = ()
    problems: tuple[tuple[ProblemResult, ...], ...] = ()  # per score

    def document(self) -> dict[str, Any]:
        """The JSON: the rows of a model or, for given programs, the counts themselves."""
        rows = [score.document() for score in self.scores]
        counts = rows[0] if self.model is None else {"rows": rows, "model": self.model}
        confined = {"sandbox": list(self.sandbox), "sandbox_without": list(self.sandbox_without)}
        return {**counts, "data": self.data, **self.made, **confined}

    def lines(self) -> Iterator[dict[str, Any]]:
        """Every problem at every setting, for a file of JSON lines."""
        for score, problems in zip(self.scores, self.problems, strict=True):
            budget = {"nfe": score.settings["nfe"]} if score.settings and "nfe" in score.settings else {}
            for i, problem in enumerate(problems):
                yield {"index": i, **budget, **problem.document()}


def evaluate_programs(
    request: ProgramsEvaluationRequest, progress: Progress = Progress()
) -> Iterator[ProgramsEvaluation]:
    """Accuracy with intervals and kinds of failure; a result after every setting."""
    if (request.checkpoint is None) == (request.programs is None):
        raise UsageError("give either a checkpoint or a file of programs")
    sampler, settings, model = None, list[dict[str, Any]](), None
    if request.checkpoint is not None:
        sampler = _programs_model(request.checkpoint, request.device, request.batch, request.tokenizer)
        settings = over_budgets(sampler, request.budgets, request.options)
        model = describe_model(sampler, request.checkpoint)
    examples, data = _problems(request)
    device = torch.device("cpu") if sampler is None else sampler.device
    with Sandbox(workers=request.workers) as sandbox:
        result = ProgramsEvaluation(data, made(device), tuple(sandbox.means), tuple(sandbox.missing), model)
        if sandbox.missing:
            progress.note(sandbox.weakness)
        for score, problems in _program_scores(request, sampler, settings, examples, sandbox, progress):
            scores, each = (*result.scores, score), (*result.problems, tuple(problems))
            yield (result := replace(result, scores=scores, problems=each))


def _programs_model(checkpoint: str, device: str, batch: int | None, tokenizer: str | None) -> Sampler:
    sampler = load_shared(checkpoint, device)
    task = programs.gsm8k_task(sampler.task)
    if tokenizer is not None:
        task = sampler.task = replace(task, tokenizer=tokenizer)
    sampler.batch = batch or fitting_batch(sampler)
    _ = task.layout  # fails at once if the tokenizer is missing
    return sampler


def _problems(request: ProgramsEvaluationRequest) -> tuple[list[Example], dict[str, Any]]:
    """The problems, and their description in the JSON."""
    path, wanted = (request.programs, "code") if request.programs is not None else (request.data, "question")
    seed = {} if request.checkpoint is None else {"seed": request.seed}
    if path is None:
        examples = held_out(request.n or SYNTHETIC, request.seed)
        return examples, {"synthetic": "held out", "n": len(examples), **seed}
    examples = list(islice(read(path, wanted, "answer"), request.n))
    return examples, {"file": path.name, "sha256": sha256(path), "n": len(examples), **seed}


def _program_scores(
    request: ProgramsEvaluationRequest,
    sampler: Sampler | None,
    settings: list[dict[str, Any]],
    examples: list[Example],
    sandbox: Sandbox,
    progress: Progress,
) -> Iterator[tuple[ProgramScore, list[ProblemResult]]]:
    if sampler is None:
        progress.stage(f"running {len(examples)} programs", len(examples))
        yield programs.given_programs(examples, sandbox, Meter(progress))
        return
    each, meter = 2 * len(examples), Meter(progress)  # each program counts twice: generated, and run
    progress.stage(f"solving {len(examples)} problems", len(settings) * each)
    for scored in programs.solve_at(
        sampler, examples, sandbox, settings, seed=request.seed, progress=meter, cancelled=progress.cancelled
    ):
        meter.before += each
        yield scored
