"""Draws sets of text samples, and records all that is needed to draw them again."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from dbtm.evals.perplexity import text_task
from dbtm.evals.samples import SampleSet
from dbtm.sampling import Sampler


def resolve(sampler: Sampler, options: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a draw, with the checkpoint's values for those not given."""
    return sampler.with_options(**options).shown()


def draw_samples(
    sampler: Sampler,
    settings: Mapping[str, Any],
    n: int,
    seed: int,
    origin: dict[str, Any] | None = None,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> SampleSet:
    """n samples with resolved settings; a sample depends on the seed and its number, not on n."""
    task = text_task(sampler.task)
    start = time.perf_counter()
    trace = sampler.sample(n, seed=seed, progress=progress, cancelled=cancelled, **settings)
    seconds = time.perf_counter() - start
    texts = task.decode(trace.tokens)
    return SampleSet(trace.tokens, texts, "sample", dict(settings), origin or {}, float(trace.nfe.mean()), seconds)


def fitting_batch(sampler: Sampler) -> int:
    """Samples per batch whose (B, L, V) noise or logits take 4 GiB on a GPU, or 256 MiB elsewhere."""
    shape = sampler.network.shape
    room = 1 << (32 if sampler.device.type == "cuda" else 28)
    return max(1, room // (4 * shape.length * shape.vocab))
