"""Bytes per device, by part.

Activations are a line in the sizes, fitted to the twelve measured peaks of results/bench-step-*.json (bfloat16,
compiled blocks; benchmarks/plan.py fits it again): per token and row alive, BLOCK bytes per channel per block and
EDGE bytes per channel outside the blocks.
"""

import torch

from dbtm.losses.head import rows_per_chunk
from dbtm.service.planning.work import Passes, Work

BLOCK, EDGE = 33.8, 77.2
RESIDUAL = 4  # bytes per channel that a recomputed block keeps: its input, float32
WEIGHT = 4  # bytes: weights, gradients, averages and optimizer state are float32


def step_memory(work: Work, kind: Passes, rows: int, recompute: bool) -> dict[str, float]:
    """Bytes of a pass over this many rows, besides the state of the run."""
    model, shape = work.config.model, work.config.shape
    wide = 2 if work.config.train.precision == "fp32" else 1
    width = rows * kind.alive * shape.length * model.width
    depth = model.depth * model.loops
    blocks = RESIDUAL * depth + BLOCK * wide if recompute else BLOCK * wide * depth
    V, D = shape.vocab, model.width
    chunk = min(rows_per_chunk(V, torch.bfloat16, kind.tangent), int(rows * shape.length) or 1)
    head = chunk * V * 4 + 6 * V * D  # a chunk's logits; W's gradient and its narrow copy
    return {"activations": width * (blocks + EDGE * wide), "head": head}


def state_memory(work: Work, shards: int, frozen: int) -> dict[str, float]:
    """Weights, gradients, averages and optimizer state on one of `shards` devices; `gathered` are the weights that are
    whole on each device during a step (those outside the blocks, and two blocks).
    """
    P, edge = work.parameters, work.edge
    orthogonal = sum(rows * columns * count for (rows, columns), count in work.matrices.items())
    out = {
        "weights": WEIGHT * P / shards,
        "gradients": WEIGHT * P / shards,
        "optimizer": WEIGHT * (2 * (P - orthogonal) + orthogonal) / shards,
        "average": WEIGHT * P / shards,
    }
    if frozen:
        out["frozen"] = frozen * WEIGHT * P / shards
    if shards > 1:
        block = work.blocks / max(1, work.config.model.depth)
        out["gathered"] = WEIGHT * ((2 + frozen) * edge + 3 * block)
    return out
