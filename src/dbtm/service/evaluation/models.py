"""What the JSON of an evaluation says about the model that it measured."""

from typing import Any

from dbtm.checkpoint.loading import find
from dbtm.checkpoint.weights import digest
from dbtm.evals.cost import cost, parameters
from dbtm.evals.provenance import machine
from dbtm.sampling import Sampler


def weights(checkpoint: str) -> dict[str, str]:
    """Which weights a number is about."""
    return {"checkpoint": checkpoint, "sha256": digest(find(checkpoint))}


def describe_model(sampler: Sampler, checkpoint: str) -> dict[str, Any]:
    """Its weights, its method, and what it costs."""
    return {**weights(checkpoint), "method": sampler.method.name, **cost(sampler)}


def describe_origin(sampler: Sampler, checkpoint: str, seed: int) -> dict[str, Any]:
    """Where samples come from."""
    size = {"method": sampler.method.name, "parameters": parameters(sampler.network)}
    return {**weights(checkpoint), **size, "seed": seed, **machine(sampler.device)}
