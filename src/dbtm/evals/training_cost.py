"""Training cost: FLOPs per optimizer step, counted from the network passes of a method's objective.

A pass over one sequence costs F = `map_flops` forward, and 2 F more backward. A tangent costs as much as the value,
with the attention scores counted twice (the product rule), and twice that again backward if it has a gradient. Passes
without a gradient (a teacher, a target) and a quality head are counted too. Every pass counts a head over the whole
sequence, even if a method reads only a part. The optimizer, the EMA, noise, norms and activations are not counted.

The passes are counted by running `parts` once on a few rows with a tiny network of the same kind, as the number of
passes and rows does not depend on widths.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from dbtm.config import RunConfig
from dbtm.core import rng
from dbtm.evals.cost import map_flops, quality_flops
from dbtm.methods.base import Examples, Method, method_of
from dbtm.nn import Backbone
from dbtm.nn.quality import QualityHead

ROWS = 64  # for counting passes: enough for shares of a batch as small as 1/32
MOST_PHASES = 8  # phases that are counted; those between two of them cost the same as the earlier one


class Pass(NamedTuple):
    """A kind of network pass."""

    module: str  # "map" or "quality"
    gradient: bool
    tangent: bool = False
    tangent_gradient: bool = False


def training_flops(config: RunConfig, step: int = 0) -> float:
    """FLOPs of optimizer step `step` of a run, over its whole batch."""
    return _per_row(config, step) * config.train.batch


def run_flops(config: RunConfig, steps: int | None = None) -> float:
    """FLOPs of the first `steps` steps of a run, by default of all, summed over phases."""
    n = config.train.steps if steps is None else steps
    method = method_of(config)
    lengths: Counter[tuple[int, ...]] = Counter()
    first: dict[tuple[int, ...], int] = {}
    for step in range(n):
        phase = method.phase(step)
        lengths[phase] += 1
        first.setdefault(phase, step)
    names = list(first)
    every = -(-len(names) // MOST_PHASES)
    total, cost = 0.0, 0.0
    for number, name in enumerate(names):
        if number % every == 0:
            cost = _per_row(config, first[name])
        total += lengths[name] * cost
    return total * config.train.batch


def _per_row(config: RunConfig, step: int) -> float:
    phase = method_of(config).phase(step)
    known = _known(config.task, config.model, config.method, config.train.batch, phase)
    if not known:
        known.append(_count_per_row(config, step))
    return known[0]


@lru_cache(maxsize=1024)
def _known(*what: Any) -> list[float]:
    """The cache key of a cost: all that it depends on, without the seed and the length of the run."""
    return []


def _count_per_row(config: RunConfig, step: int) -> float:
    network = method_of(config).outline()
    forward, with_tangent = pass_flops(network, method_of(config).loops_at(step))
    quality = getattr(network, "quality", None)
    read = quality_flops(quality, network.config.width, network.shape.length) if isinstance(quality, QualityHead) else 0
    total = 0.0
    for kind, rows in count_passes(config, step).items():
        value = forward if kind.module == "map" else read
        total += rows * value * (3 if kind.gradient else 1)
        if kind.tangent:
            total += rows * (with_tangent - forward) * (3 if kind.tangent_gradient else 1)
    return total / min(ROWS, config.train.batch)


def pass_flops(network: Backbone, loops: int | None = None) -> tuple[float, float]:
    """FLOPs of a forward pass over one sequence: the value alone, and value with tangent."""
    config, shape = replace(network.config, loops=loops or network.config.loops), network.shape
    causal = any(getattr(module, "causal", False) for module in network.modules())
    reads_tokens = len(network.embedding) > shape.vocab
    value = map_flops(config, shape, causal, reads_tokens, network.trunk.times, network.per_token)
    L, D = shape.length, config.width
    scores = 2 * L * (L + 1) * D if causal else 4 * L**2 * D
    return value, 2 * value + config.loops * config.mixers.count("attn") * scores


def count_passes(config: RunConfig, step: int = 0) -> Counter[Pass]:
    """{kind of pass: rows} in one step of a batch of at most `ROWS` rows."""
    counts: Counter[Pass] = Counter()
    for part in count_parts(config, step):
        for kind, rows in part:
            counts[kind] += rows
    return counts


def count_parts(config: RunConfig, step: int = 0) -> list[list[tuple[Pass, int]]]:
    """The same per part of the objective, each pass separately: (kind, rows). Passes after the last part are in a last,
    usually empty, list.
    """
    rows = min(ROWS, config.train.batch)
    # float32 on a CPU, whatever the run's precision
    train = replace(config.train, batch=rows, micro_batch=0, device="cpu", precision="fp32", compile=False, graph=False)
    model = replace(config.model, width=64, depth=1, heads=1, loops=1, backbone="attention", conv_width=0, dropout=0.0)
    method = method_of(replace(config, train=train, model=model)).start()
    method.network.train()
    examples = method.prepare(_examples(method, rows, step))
    parts: list[list[tuple[Pass, int]]] = [[]]
    with torch.random.fork_rng(), _watched(method, lambda kind, rows: parts[-1].append((kind, rows))):
        torch.manual_seed(0)
        for part in method.parts(examples):
            part.loss.backward()
            parts.append([])
    return parts


def _examples(method: Method, rows: int, step: int) -> Examples:
    index = np.arange(rows)
    batch = method.config.task.batch(index)
    prompt = np.zeros(batch.tokens.shape, dtype=bool) if batch.prompt is None else np.array(batch.prompt)
    tokens = torch.from_numpy(np.array(batch.tokens, dtype=np.int64))
    number_B = torch.from_numpy(index)
    return Examples(tokens, torch.from_numpy(prompt), rng.fold(0, step, number_B), step, place=number_B)


@contextmanager
def _watched(method: Method, saw: Callable[[Pass, int], None]) -> Iterator[None]:
    """A context in which every pass of the method's networks is reported, with its kind and rows."""

    def saw_map(module: nn.Module, inputs: Any, output: tuple[Tensor, Tensor | None]) -> None:
        value, tangent = output[0], output[1]
        forward_mode = forward_ad.unpack_dual(value).tangent  # for methods that differentiate through a derivative
        has_tangent = tangent is not None or forward_mode is not None
        own = (tangent is not None and tangent.requires_grad) or (forward_mode is not None and value.requires_grad)
        saw(Pass("map", value.requires_grad, has_tangent, own), len(value))

    def saw_quality(module: nn.Module, inputs: Any, output: Tensor) -> None:
        saw(Pass("quality", output.requires_grad), len(output))

    hooks = []
    for network in (method.network, *method.frozen.values()):
        hooks.append(network.trunk.register_forward_hook(saw_map))
        quality = getattr(network, "quality", None)
        if isinstance(quality, QualityHead):
            hooks.append(quality.register_forward_hook(saw_quality))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
