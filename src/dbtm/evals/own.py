"""Metrics of generated rows: the user's metric, entropy, and the share of copied training rows."""

import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.evals.diversity import entropies, unique_share
from dbtm.evals.estimates import Estimate, mean, ratio_of_sums, share
from dbtm.evals.likelihood import likelihoods
from dbtm.evals.settings import described
from dbtm.methods.base import Method
from dbtm.sampling import Sampler
from dbtm.tasks.base import Batch
from dbtm.tasks.own import Own

Metric = Callable[[list[Any]], Mapping[str, Estimate]]


@dataclass(frozen=True)
class RowsScore:
    """Metrics of rows: samples at one setting, or held-out rows."""

    kind: str
    """samples, or held out."""
    settings: dict[str, Any]
    n: int
    metric: dict[str, Estimate]
    entropy: Estimate
    """Entropy of a row's token frequencies, in nats, averaged."""
    copies: Estimate
    """Share of rows that occur in the training data, token for token."""
    distinct: float
    """Different rows over all rows."""
    mean_nfe: float | None = None
    seconds: float | None = None

    def document(self) -> dict[str, Any]:
        estimates = {**self.metric, "entropy": self.entropy, "copies": self.copies}
        numbers = {k: v for name, each in estimates.items() for k, v in each.document(name).items()}
        used = {"mean_nfe": self.mean_nfe, "seconds": self.seconds, "distinct": self.distinct}
        return {"kind": self.kind, "n": self.n, **numbers, **used, "settings": self.settings}


@dataclass(frozen=True)
class HeldOutCE:
    """Nats per token of held-out rows, and the kind of cross-entropy."""

    kind: str
    nats_per_token: Estimate
    n: int

    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, "n": self.n, **self.nats_per_token.document("nats_per_token")}


# -- a metric of the user's --------------------------------------------------------------------------------------------


def load_metric(words: str) -> Metric:
    """Load `file.py:function`; the user's file is run. The function is called with a list of rows."""
    path, colon, name = words.rpartition(":")
    if not colon or not name.isidentifier() or not path:
        raise UsageError(f"a metric is given as file.py:function, not '{words}'")
    if not Path(path).is_file():
        raise UsageError(f"the metric's file {path} does not exist")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"{path} has no function '{name}'")
    return lambda rows: _estimates(name, function(rows), len(rows))


def _estimates(name: str, found: Any, rows: int) -> dict[str, Estimate]:
    """A number, one per row, or a dictionary of these."""
    if isinstance(found, Mapping):
        return {key: each for k, value in found.items() for key, each in _estimates(str(k), value, rows).items()}
    try:
        values = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty((0, 0))
    if values.ndim == 0 and found is not None:
        return {name: Estimate(float(values))}
    if values.shape != (rows,):
        raise UsageError(f"the metric '{name}' must return a number, one number per row, or a dictionary of these")
    return {name: share(values) if np.isin(values, (0, 1)).all() else mean(values)}


def as_users_rows(task: Own, tokens_BL: np.ndarray) -> list[Any]:
    """Rows as in the user's file: strings of characters, lists of symbols, or lists of integers."""
    if task.symbols is None:
        return [row.tolist() for row in tokens_BL]
    if task.characters:
        return ["".join(task.symbols[int(t)] for t in row) for row in tokens_BL]
    return [[word for word in (task.symbols[int(t)] for t in row) if word] for row in tokens_BL]


# -- measuring ---------------------------------------------------------------------------------------------------------


def own_task(task: Any) -> Own:
    if not isinstance(task, Own):
        raise UsageError(f"the checkpoint was trained on '{getattr(task, 'name', 'nothing')}', not on rows of your own")
    return task


def cross_entropy(sampler: Sampler, examples: Batch, seed: int = 0) -> HeldOutCE | None:
    """The negative log-likelihood of held-out rows if the method has one, else its denoising cross-entropy."""
    method = sampler.method
    assert isinstance(method, Method)
    if type(method).nll is not Method.nll:
        each = likelihoods(sampler, examples, seed)
        kind = "negative log-likelihood" + ("" if each.exact else ", upper bound")
    elif type(method).denoising is not Method.denoising:
        each = likelihoods(sampler, examples, seed, measure="denoising")
        kind = "denoising cross-entropy, no likelihood"
    else:
        return None
    return HeldOutCE(kind, ratio_of_sums(each.nll_B.numpy(), each.tokens_B.numpy()), len(each.nll_B))


def row_scores(
    sampler: Sampler,
    settings: Sequence[Mapping[str, Any]],
    n: int,
    seed: int = 0,
    metric: Metric | None = None,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Iterator[RowsScore]:
    """The held-out rows first, if there are any, then samples at each setting, with held-out rows' prompts if the task
    has prompts.
    """
    task = own_task(sampler.task)
    trained = {row.tobytes() for row in np.ascontiguousarray(task.training_rows(), dtype=np.int64)}
    held = task.held_out_examples(n)
    if held is not None:
        yield _score("held out", {}, task, held.tokens, trained, metric)
    given: dict[str, Any] = {"n": n}
    if task.prompt:
        rows = held if held is not None else task.batch(np.arange(n))
        given = {"tokens": rows.tokens, "clean": rows.prompt}
    for each in settings:
        start = time.perf_counter()
        trace = sampler.sample(**given, seed=seed, progress=progress, cancelled=cancelled, **each)
        seconds = time.perf_counter() - start
        about = described(sampler, each)
        yield _score("samples", about, task, trace.tokens, trained, metric, float(trace.nfe.mean()), seconds)


def _score(
    kind: str,
    settings: dict[str, Any],
    task: Own,
    tokens_BL: np.ndarray,
    trained: set[bytes],
    metric: Metric | None,
    nfe: float | None = None,
    seconds: float | None = None,
) -> RowsScore:
    rows_BL = np.ascontiguousarray(tokens_BL, dtype=np.int64)
    copied_B = np.array([row.tobytes() in trained for row in rows_BL], dtype=np.float64)
    values = dict(metric(as_users_rows(task, rows_BL))) if metric is not None else {}
    unique = unique_share(rows_BL)
    return RowsScore(
        kind, settings, len(rows_BL), values, mean(entropies(rows_BL)), share(copied_B), unique, nfe, seconds
    )
