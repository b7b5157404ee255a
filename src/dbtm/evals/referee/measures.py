"""Metrics of samples, by task: one number per set of samples, with its 95 % interval over the samples.

    markov     total variation of adjacent pairs from the chain's, averaged over positions; lower is better
    sudoku     share of held-out puzzles whose every cell is right
    text       generative perplexity under a judge, with entropy; also at the entropy of real text
    gsm8k      share of held-out problems whose program returns the answer
    own        total variation of adjacent pairs (of single tokens for a large vocabulary), pooled over positions, from
    those of the data; lower is better

A share has Wilson's interval. A total variation is half of sum_c s_c (p_hat_c - p_c) with the signs s_c of the
differences, and so the mean of one value per sample: its interval is that mean's (the delta method, signs held).
Even samples of the truth do not have distance 0: their distance at the same n is measured as the `floor`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.evals.cost import cost
from dbtm.evals.drawing import fitting_batch
from dbtm.evals.estimates import Estimate, mean
from dbtm.evals.intervals import wilson
from dbtm.evals.perplexity import measure as measure_text
from dbtm.evals.perplexity import references
from dbtm.evals.programs import solve
from dbtm.evals.samples import SampleSet
from dbtm.evals.sweep.frontier import Point, frontier, perplexity_at
from dbtm.sampling import Sampler, Trace
from dbtm.sandbox import Sandbox

TEMPERATURES = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1)
"""Temperatures of text samples, to compare at the entropy of real text."""
MOST_PAIRS = 2048  # largest vocabulary whose pairs are counted


@dataclass(frozen=True)
class Metric:
    """The metric of a task."""

    name: str
    title: str
    lower_is_better: bool
    share: bool = False
    """A proportion, between 0 and 1."""

    def better(self, one: float, other: float) -> bool:
        return one < other if self.lower_is_better else one > other


METRICS = {
    "markov": Metric("total_variation", "total variation of adjacent pairs", True),
    "sudoku": Metric("solved", "share of puzzles solved", False, share=True),
    "text": Metric("perplexity", "generative perplexity", True),
    "gsm8k": Metric("correct", "share of problems solved", False, share=True),
    "own": Metric("total_variation", "total variation of adjacent pairs", True),
}


@dataclass(frozen=True)
class Settings:
    """Settings of drawing and judging samples, the same for all methods."""

    n: int
    judge: Any = None  # of text
    seed: int = 0
    cancelled: Callable[[], bool] | None = None
    progress: Callable[[int], None] | None = None


@dataclass(frozen=True)
class Row:
    """One method and seed at one budget of network evaluations."""

    asked: int | None
    """Network evaluations; None: a method without a budget, which uses as many as it needs."""
    quality: Estimate
    n: int
    used: float
    """Evaluations on average: complete samples stop early."""
    most: int
    flops_per_sample: float
    seconds_per_sample: float
    batch: int
    more: dict[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in ("asked", "n", "used", "most", "batch")}
        costs = {name: getattr(self, name) for name in ("flops_per_sample", "seconds_per_sample")}
        return {**values, **costs, **self.quality.document("value"), **self.more}


def metric_of(task: Any) -> Metric:
    if task.name not in METRICS:
        raise UsageError(f"the referee has no metric for the task '{task.name}': use {', '.join(METRICS)}")
    return METRICS[task.name]


def budgets(sampler: Sampler, wanted: Sequence[int]) -> list[int | None]:
    """The budgets of a method."""
    return [*wanted] if sampler.has_budget else [None]


def measure(sampler: Sampler, asked: int | None, settings: Settings) -> Row:
    """Draw at this exact budget, and judge."""
    sampler = _in_batches(sampler)
    drawn = _Drawn(sampler, asked, settings)
    assert sampler.task is not None
    quality, more = _MEASURES[sampler.task.name](drawn, settings)
    nfe_B = drawn.nfe_B
    if asked is not None and nfe_B.max() > asked:
        raise UsageError(
            f"'{sampler.method.name}' used {nfe_B.max()} network evaluations with a budget of {asked}: its sampler "
            "exceeds its budget"
        )
    return Row(
        asked=asked,
        quality=quality,
        n=more.pop("n", len(nfe_B)),
        used=float(nfe_B.mean()),
        most=int(nfe_B.max()),
        flops_per_sample=sample_flops(sampler, drawn.options, float(nfe_B.mean())),
        seconds_per_sample=drawn.seconds / len(nfe_B),
        batch=sampler.batch,
        more=more,
    )


def sample_flops(sampler: Sampler, options: dict[str, Any], used: float) -> float:
    """FLOPs of one sample with `used` evaluations; generation with a cache costs one pass over the sequence."""
    found = cost(sampler)
    if "flops_per_sequence" in found:
        return found["flops_per_sequence"]
    reads_quality = getattr(sampler.with_options(**options), "scorer", "") == "quality"
    whole = found["flops_per_evaluation"]
    return used * (whole if reads_quality else found.get("flops_map", whole))


class _Drawn:
    """Draws with one sampler at one budget, timed and counted."""

    def __init__(self, sampler: Sampler, asked: int | None, settings: Settings):
        self.sampler, self.settings = sampler, settings
        self.options: dict[str, Any] = {} if asked is None else {"nfe": asked}
        self.seconds, self.nfe_B = 0.0, np.zeros(0, dtype=np.int64)

    def draw(self, **what: Any) -> Trace:
        """Samples; their cost is that of the first draw."""
        start = time.perf_counter()
        asked = {"seed": self.settings.seed, **self.options, **what}
        trace = self.sampler.sample(**asked, progress=self.settings.progress, cancelled=self.settings.cancelled)
        if not len(self.nfe_B):
            self.seconds, self.nfe_B = time.perf_counter() - start, trace.nfe
        return trace


def _in_batches(sampler: Sampler) -> Sampler:
    size = max(1, min(sampler.batch, fitting_batch(sampler)))
    return Sampler(sampler.method, sampler.network, sampler.options, sampler.task, size)


# -- the tasks ---------------------------------------------------------------------------------------------------------


def place_distance(tokens_BL: np.ndarray, truth_C: np.ndarray, vocab: int) -> Estimate:
    """Total variation of adjacent pairs from `truth_C` (V^2,), averaged over positions."""
    pair_BP = tokens_BL[:, :-1] * vocab + tokens_BL[:, 1:]
    value_B = np.zeros(len(tokens_BL))
    for pair_B in pair_BP.T:
        value_B += _influence(pair_B, truth_C)
    return mean(value_B / pair_BP.shape[1])


def _influence(cell_B: np.ndarray, truth_C: np.ndarray) -> np.ndarray:
    """One value per sample, whose mean is the total variation of the samples' frequencies from the truth."""
    share_C = np.bincount(cell_B, minlength=len(truth_C)) / len(cell_B)
    sign_C = np.sign(share_C - truth_C)
    return 0.5 * (sign_C[cell_B] - (sign_C * truth_C).sum())


def _markov(drawn: _Drawn, settings: Settings) -> tuple[Estimate, dict[str, Any]]:
    task: Any = drawn.sampler.task
    truth_C = task.pairs.ravel()
    quality = place_distance(drawn.draw(n=settings.n).tokens, truth_C, task.vocab)
    floor = place_distance(task.held_out_examples(settings.n).tokens, truth_C, task.vocab)
    return quality, {"floor": floor.value, "independent": task.independent_bound}


def _sudoku(drawn: _Drawn, settings: Settings) -> tuple[Estimate, dict[str, Any]]:
    task: Any = drawn.sampler.task
    puzzles, solutions = _of_size(task, settings.n).held_out
    solved = int(task.solved(drawn.draw(**task.given(puzzles)).tokens, solutions).sum())
    return _share(solved, len(puzzles)), {"clues": task.evaluate_clues}


def _of_size(task: Any, n: int) -> Any:
    """The task with n held-out examples; the same object, with its caches, if it has that many."""
    return task if task.evaluate_n == n else replace(task, evaluate_n=n)


def _share(successes: int, total: int) -> Estimate:
    return Estimate(successes / total, *wilson(successes, total))


def _gsm8k(drawn: _Drawn, settings: Settings) -> tuple[Estimate, dict[str, Any]]:
    task: Any = drawn.sampler.task
    examples = _of_size(task, settings.n).held_out
    given, _ = task.given([example.question for example in examples])
    drawn.draw(**given)  # timed without the sandbox
    with Sandbox() as sandbox:
        score, _ = solve(drawn.sampler, examples, sandbox, seed=settings.seed, **drawn.options)
    return _share(score.correct, score.total), {"failures": score.failures, "n": score.total}


def _text(drawn: _Drawn, settings: Settings) -> tuple[Estimate, dict[str, Any]]:
    """Perplexity at the sampler's temperature and, if it has one, at real text's entropy, over temperatures."""
    task: Any = drawn.sampler.task
    if settings.judge is None:
        raise UsageError("text needs a judge of perplexity")

    def scored(**options: Any) -> Any:
        tokens = drawn.draw(n=settings.n, **options).tokens
        return measure_text(SampleSet(tokens, task.decode(tokens), "sample"), settings.judge)

    own = scored()
    points = [Point(own.entropy.value, own.perplexity.value)]
    has_temperature = hasattr(drawn.sampler.options, "temperature")
    for temperature in TEMPERATURES if has_temperature else ():
        other = scored(temperature=temperature)
        points.append(Point(other.entropy.value, other.perplexity.value))
    real = measure_text(references(task, settings.n)[0], None).entropy.value
    curve = [[point.entropy, point.perplexity] for point in sorted(points)]
    return own.perplexity, {
        **own.entropy.document("entropy"),
        "real_entropy": real,
        "matched_perplexity": perplexity_at(real, frontier(points)),
        "points": curve,
        "judge": own.judge,
    }


def _own(drawn: _Drawn, settings: Settings) -> tuple[Estimate, dict[str, Any]]:
    """Against the training data; prompts are those of held-out rows, repeated if there are few. The floor is that of
    equally many random training rows.
    """
    task: Any = drawn.sampler.task
    data_NL = np.asarray(task.training_rows()[:100_000], dtype=np.int64)
    held = task.held_out_examples(settings.n) or task.batch(np.arange(settings.n))
    rows = np.resize(np.arange(len(held.tokens)), settings.n)
    given = {"tokens": held.tokens[rows], "clean": np.array(held.prompt)[rows]} if task.prompt else {"n": settings.n}
    tokens = drawn.draw(**given).tokens
    data = _cells(data_NL, task.vocab)
    cells = task.vocab if data.shape == data_NL.shape else task.vocab**2
    truth_C = np.bincount(data.ravel(), minlength=cells) / data.size
    again = data_NL[np.random.default_rng(settings.seed).integers(0, len(data_NL), settings.n)]
    floor = pooled_distance(_cells(again, task.vocab), truth_C)
    return pooled_distance(_cells(tokens, task.vocab), truth_C), {"floor": floor.value}


def _cells(tokens_BL: np.ndarray, vocab: int) -> np.ndarray:
    """The counted items as numbers (B, P): adjacent pairs, or single tokens of a large vocabulary."""
    pairs = vocab <= MOST_PAIRS and tokens_BL.shape[1] > 1
    return tokens_BL[:, :-1] * vocab + tokens_BL[:, 1:] if pairs else tokens_BL


def pooled_distance(cell_BP: np.ndarray, truth_C: np.ndarray) -> Estimate:
    """Total variation pooled over positions."""
    share_C = np.bincount(cell_BP.ravel(), minlength=len(truth_C)) / cell_BP.size
    sign_C = np.sign(share_C - truth_C)
    return mean(0.5 * (sign_C[cell_BP].mean(-1) - (sign_C * truth_C).sum()))


_MEASURES: dict[str, Callable[[_Drawn, Settings], tuple[Estimate, dict[str, Any]]]] = {
    "markov": _markov,
    "sudoku": _sudoku,
    "text": _text,
    "gsm8k": _gsm8k,
    "own": _own,
}
