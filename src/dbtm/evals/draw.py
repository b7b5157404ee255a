"""Drawing sets of text samples from a map, with everything written down that is needed to draw them again."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.evals.provenance import machine
from dbtm.evals.samples import SampleSet
from dbtm.evals.text import text_task
from dbtm.loading import find
from dbtm.sampling import Sampler, Trace
from dbtm.sampling.iterate import integrate, iterate

Progress = Callable[[int], None]


def resolve(sampler: Sampler, asked: dict[str, Any]) -> dict[str, Any]:
    """The settings that a draw depends on, with the checkpoint's own values for what was not asked for.

    `asked["sampler"]` is refine (renoise and remap), iterate (T^k) or integrate (Euler steps along T(x) - x up to
    `asked["horizon"]`). One round commits everything, so there threshold, scorer and penalty are left out, and commits
    without a scorer are one round; commits that are spread know no threshold, held distributions no penalty.
    """
    kind = asked.get("sampler", "refine")
    options = sampler.with_options(**_without_flow(asked))
    if kind == "refine" and options.commit and options.scorer == "none" and options.kappa <= 1:
        options = replace(options, nfe=1)  # all scores are 1
    settings: dict[str, Any] = {"sampler": kind, "nfe": options.nfe, "sigma": options.sigma}
    if kind == "integrate":
        return {**settings, "horizon": float(asked["horizon"])}
    if kind == "iterate":
        return settings
    names = ["temperature"]
    if options.nfe > 1:
        names += ["kappa"] if options.threshold is not None else []
        names += ["repetition_penalty"] if options.commit else []
        names += ["scorer", "commit", "fresh_noise"]
    return settings | {name: getattr(options, name) for name in names}


def draw(
    sampler: Sampler,
    settings: dict[str, Any],
    n: int,
    seed: int,
    origin: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> SampleSet:
    """n samples by resolved settings; a sample depends on the seed and its number, not on n."""
    task = text_task(sampler.task)
    start = time.perf_counter()
    if settings["sampler"] == "refine":
        trace = sampler.sample(n, seed=seed, progress=progress, **_without_flow(settings))
    else:
        trace = _flow(sampler, settings, n, seed, progress)
    seconds = time.perf_counter() - start
    texts = task.decode(trace.tokens)
    return SampleSet(trace.tokens, texts, "sample", settings, origin or {}, float(trace.nfe.mean()), seconds)


def _without_flow(settings: dict[str, Any]) -> dict[str, Any]:
    """Only what `Sampler.sample` knows."""
    return {name: value for name, value in settings.items() if name not in ("sampler", "horizon")}


def _flow(sampler: Sampler, settings: dict[str, Any], n: int, seed: int, progress: Progress | None) -> Trace:
    """The map applied again and again, or its field integrated, in batches."""
    traces = []
    for first in range(0, n, sampler.batch):
        rows = min(sampler.batch, n - first)
        given = sampler.given(np.zeros((rows, sampler.model.config.length), dtype=np.int64), None, first)
        if settings["sampler"] == "iterate":
            prior, _ = sampler.prior_and_passes()
            traces.append(iterate(sampler.model, given, settings["nfe"], settings["sigma"], seed, prior))
        elif settings["sampler"] == "integrate":
            horizon = settings["horizon"]
            traces.append(integrate(sampler.model, given, settings["nfe"], horizon, settings["sigma"], seed))
        else:
            raise UsageError(f"there is no sampler '{settings['sampler']}': refine, iterate and integrate are")
        if progress is not None:
            progress(first + rows)
    return Trace.concatenate(traces)


def fitting_batch(sampler: Sampler) -> int:
    """Samples side by side whose (B, L, V) noise takes 4 GiB on a GPU, or 256 MiB elsewhere."""
    config = sampler.model.config
    room = 1 << (32 if sampler.device.type == "cuda" else 28)
    return max(1, room // (4 * config.length * config.vocab))


def origin(sampler: Sampler, checkpoint: str, seed: int) -> dict[str, Any]:
    """Where samples come from."""
    return {
        "checkpoint": checkpoint,
        "sha256": sha256(find(checkpoint) / "ema.safetensors"),
        "parameters": sum(p.numel() for p in sampler.model.parameters()),
        "seed": seed,
        **machine(sampler.device),
    }
