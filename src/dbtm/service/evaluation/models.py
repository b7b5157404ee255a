"""What the JSON of an evaluation says about the model that it measured."""

from collections.abc import Mapping
from typing import Any

from dbtm.checkpoint.loading import find
from dbtm.checkpoint.weights import digest
from dbtm.evals.cost import cost, parameters
from dbtm.evals.provenance import machine
from dbtm.sampling import Sampler


def weights(checkpoint: str) -> dict[str, str]:
    """The weights that a number is measured on."""
    return {"checkpoint": checkpoint, "sha256": digest(find(checkpoint))}


def describe_model(sampler: Sampler, checkpoint: str, options: Mapping[str, Any] = {}) -> dict[str, Any]:
    """The weights, the method, and the cost of an evaluation with these sampler options."""
    return {**weights(checkpoint), "method": sampler.method.name, **cost(sampler, options.get("loops", 0))}


def describe_origin(sampler: Sampler, checkpoint: str, seed: int) -> dict[str, Any]:
    """Where samples come from."""
    size = {"method": sampler.method.name, "parameters": parameters(sampler.network)}
    return {**weights(checkpoint), **size, "seed": seed, **machine(sampler.device)}
