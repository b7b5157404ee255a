"""The sampler: time to draw the prior, and time of a refinement round."""

from typing import Any

import torch

from dbtm.bench.timing import bandwidth, matrix_peak, milliseconds, peak_bytes
from dbtm.config import ModelConfig, RunConfig, Shape
from dbtm.core import rng
from dbtm.evals.cost import cost
from dbtm.methods.base import method_of
from dbtm.nn import Backbone
from dbtm.sampling import Sampler
from dbtm.sampling.prior import Prior, cholesky_factor
from dbtm.simplex import Noise


@torch.no_grad()
def measure_prior(
    vocab: int, width: int, batch: int, length: int, device: torch.device, repeats: int
) -> dict[str, Any]:
    """x0 W by the Cholesky factor of W^T W, computed once, against x0 drawn densely and multiplied."""
    with torch.device(device):
        model = Backbone(Shape(vocab, length), ModelConfig(width=width, depth=1, heads=1))
    if device.type == "cuda":
        model.compute_dtype = torch.bfloat16
    noise = Noise(rng.fold(0, torch.arange(batch)).to(device), length, vocab)
    prior = Prior(model)
    factor = {"factor": lambda: cholesky_factor(model.embedding)}
    calls = {"dense": lambda: noise.dense().to(model.dtype) @ model.embedding.to(model.dtype)}
    calls |= {"in chunks": lambda: model.embed_noise(noise), "cholesky": lambda: prior.draw(noise)}
    taken = milliseconds(calls, device, repeats)
    peak, rate = matrix_peak(device, model.dtype), bandwidth(device)
    return {
        "vocab": vocab,
        "width": width,
        "batch": batch,
        "length": length,
        "ms": taken | milliseconds(factor, device, 2),
        "floor_ms": prior_floors(batch * length, vocab, width, model.dtype.itemsize, peak, rate),
        "peak_gib": {name: peak_bytes(call, device) / 2**30 for name, call in calls.items()},
        "speed": taken["dense"] / taken["cholesky"],
        "speed_vs_chunks": taken["in chunks"] / taken["cholesky"],
    }


def prior_floors(rows: int, vocab: int, width: int, itemsize: int, peak: float, rate: float) -> dict[str, float]:
    """Lower bounds in milliseconds at the measured peaks: products of (rows, n) with (n, width), where n is the
    vocabulary or, with the factor, the width; dense draws are written and read once. Random numbers are not counted.
    """
    product, draw = 2e3 * rows * width / peak, 2e3 * rows * itemsize / rate
    result = draw / 2 * width
    return {
        "dense": max(vocab * product, vocab * draw + result),
        "in chunks": max(vocab * product, result),
        "cholesky": max(width * product, width * draw + result),
    }


def untrained(config: RunConfig, batch: int, device: torch.device) -> tuple[Sampler, dict[str, Any]]:
    """A sampler of a map without training, and options by which all rounds are used: no score of its reaches the
    threshold 1, so only the floor commits.
    """
    method = method_of(config)
    torch.manual_seed(0)
    network = method.build().to(device).eval().requires_grad_(False)
    if device.type == "cuda":
        network.compute_dtype = torch.bfloat16
    scorer = "quality" if getattr(network, "quality", None) is not None else "confidence"
    return method.sampler(network.fold(), batch=batch), {"scorer": scorer, "kappa": 1.0}


def measure_rounds(
    config: RunConfig, batch: int, device: torch.device, compiled: bool, repeats: int, nfe: int = 4
) -> dict[str, Any]:
    """Milliseconds per round of a batch, eager and compiled: the mean over all rounds; the last is not scored."""
    sampler, options = untrained(config, batch, device)
    taken = milliseconds({"eager": lambda: sampler.sample(batch, nfe=nfe, **options)}, device, repeats)
    if compiled:
        sampler.compile()
        taken |= milliseconds({"compiled": lambda: sampler.sample(batch, nfe=nfe, **options)}, device, repeats)
    flops = cost(sampler)["flops_per_evaluation"]
    return {
        "batch": batch,
        "nfe": nfe,
        "scorer": options["scorer"],
        "ms_per_round": {k: v / nfe for k, v in taken.items()},
        "floor_ms": 1e3 * batch * flops / matrix_peak(device, sampler.network.dtype),
    }
