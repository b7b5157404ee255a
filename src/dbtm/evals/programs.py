"""Accuracy on word problems: a model's programs are run in the sandbox and their results are compared."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.evals.intervals import wilson
from dbtm.evals.settings import described
from dbtm.sampling import Sampler
from dbtm.sandbox import KINDS, Outcome, Sandbox
from dbtm.tasks.base import Task
from dbtm.tasks.gsm8k.answers import verdict
from dbtm.tasks.gsm8k.data import Example
from dbtm.tasks.gsm8k.task import Gsm8k

FAILURES = ("wrong", *KINDS, "long")
"""Kinds of failure: a wrong number, no number (dbtm.sandbox), or a question that leaves no room."""

Progress = Callable[[int], None]


@dataclass(frozen=True)
class ProgramScore:
    """One set of programs: a model's at one sampler setting, or given ones, without settings."""

    correct: int
    total: int
    failures: dict[str, int]
    """Number of failures by kind."""
    run_seconds: float
    """Seconds to run the programs."""
    settings: dict[str, Any] | None = None
    """The sampler's settings (`settings.described`)."""
    mean_nfe: float | None = None
    sample_seconds: float | None = None
    """Seconds to generate the programs."""

    def document(self) -> dict[str, Any]:
        """The row for the JSON, with the rate, its 95 % interval and the throughputs."""
        low, high = wilson(self.correct, self.total)
        derived = {
            "rate": self.correct / self.total,
            "low": low,
            "high": high,
            "programs_run_per_second": self.total / self.run_seconds,
        }
        if self.sample_seconds is not None:
            derived["programs_sampled_per_second"] = self.total / self.sample_seconds
        values = {name: value for name, value in asdict(self).items() if value is not None and name != "settings"}
        return (self.settings or {}) | values | derived


@dataclass(frozen=True)
class ProblemResult:
    """One problem: its program and the outcome."""

    example: Example
    program: str
    outcome: Outcome
    verdict: str

    def document(self) -> dict[str, Any]:
        """The line of the per-problem file."""
        return {
            "question": self.example.question,
            "program": self.program,
            "answer": self.example.answer,
            "value": self.outcome.value,
            "output": self.outcome.output,
            "verdict": self.verdict,
            "detail": self.outcome.detail,
        }


def judge(
    examples: Sequence[Example], programs: Sequence[str], sandbox: Sandbox, progress: Progress | None = None
) -> list[ProblemResult]:
    """Run every program and compare its result."""
    results = []
    for example, program, outcome in zip(examples, programs, sandbox.map(programs), strict=True):
        assert example.answer is not None
        results.append(ProblemResult(example, program, outcome, verdict(outcome, example.answer)))
        if progress is not None:
            progress(len(results))
    return results


def given_programs(
    examples: Sequence[Example], sandbox: Sandbox, progress: Progress | None = None
) -> tuple[ProgramScore, list[ProblemResult]]:
    """The examples' own programs: a test of the harness itself."""
    start = time.perf_counter()
    results = judge(examples, [example.code for example in examples], sandbox, progress)
    return ProgramScore(**_counts(results), run_seconds=time.perf_counter() - start), results


def solve(
    sampler: Sampler,
    examples: Sequence[Example],
    sandbox: Sandbox,
    /,  # 'sampler' is also an option
    *,
    seed: int = 0,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
    **options: Any,
) -> tuple[ProgramScore, list[ProblemResult]]:
    """A model's programs at one setting. `progress` counts sampled programs, then run ones."""
    task = gsm8k_task(sampler.task)
    chosen = described(sampler, options)
    given, fits_B = task.given([example.question for example in examples])
    start = time.perf_counter()
    tokens_BL, mean_nfe = np.empty((0, task.length), dtype=np.int64), 0.0
    if fits_B.any():
        trace = sampler.sample(**given, seed=seed, progress=progress, cancelled=cancelled, **options)
        tokens_BL, mean_nfe = trace.tokens, float(trace.nfe.mean())
    sampled = time.perf_counter()
    programs = task.programs(tokens_BL, given["clean"])
    tried = [example for example, fits in zip(examples, fits_B) if fits]
    done = iter(judge(tried, programs, sandbox, None if progress is None else lambda n: progress(len(examples) + n)))
    too_long = Outcome("long", detail=f"the question fills all {task.length} tokens")
    results = [
        next(done) if fits else ProblemResult(example, "", too_long, "long") for example, fits in zip(examples, fits_B)
    ]
    score = ProgramScore(
        **_counts(results),
        run_seconds=time.perf_counter() - sampled,
        settings=chosen,
        mean_nfe=mean_nfe,
        sample_seconds=sampled - start,
    )
    return score, results


def solve_at(
    sampler: Sampler,
    examples: Sequence[Example],
    sandbox: Sandbox,
    settings: Sequence[Mapping[str, Any]],
    *,
    seed: int = 0,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Iterator[tuple[ProgramScore, list[ProblemResult]]]:
    """One score per sampler setting. One evaluation runs before timing, as the first includes allocation and kernel
    selection.
    """
    first, _ = gsm8k_task(sampler.task).given([each.question for each in examples[: sampler.processes]])
    if len(first["tokens"]):
        sampler.sample(**first, cancelled=cancelled, **settings[0])
    for options in settings:
        yield solve(sampler, examples, sandbox, seed=seed, progress=progress, cancelled=cancelled, **options)


def gsm8k_task(task: Task | None) -> Gsm8k:
    """The task of a checkpoint; an error if it is not word problems."""
    if not isinstance(task, Gsm8k):
        raise UsageError(f"this checkpoint was trained on '{task.name if task else 'nothing'}', not on gsm8k")
    return task


def _counts(results: Sequence[ProblemResult]) -> dict[str, Any]:
    counts = Counter(result.verdict for result in results)
    return {
        "correct": counts["correct"],
        "total": len(results),
        "failures": {kind: counts[kind] for kind in FAILURES},
    }
