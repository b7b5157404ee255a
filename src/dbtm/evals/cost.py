"""What a map costs, counted from its sizes alone, so that looped depth and plain depth are compared fairly."""

from typing import Any

import torch

from dbtm.config import ModelConfig
from dbtm.kernels.delta_ops import chunk_size
from dbtm.nn import TransportMap


def parameters(config: ModelConfig) -> int:
    """Parameters of the map and its quality head; weights shared by several loops count once."""
    with torch.device("meta"):
        return sum(p.numel() for p in TransportMap(config).parameters())


def map_flops(config: ModelConfig) -> int:
    """Floating-point operations of one evaluation of the map on one sequence, quality head left out.

    Counted are the matrix products, 2 m n k for (m, n) times (n, k); norms, softmax and activations are left out (under
    2 %), and adaLN's constants, which are folded into the matrices before. With L positions, V tokens, width D and
    feed-forward factor f:

        embedding   2 L V D, and as much again for the round before where the map is self-conditioned
        one block   4 f L D^2 (feed-forward), and either
                    8 L D^2 (q, k, v, output) + 4 L^2 D (scores, mixing), attention, or
                    10 L D^2 (q, k, v, gate, output) + 4 L D H (rates) + the scans of H heads, the delta rule
        head        2 L D V

    The blocks count once for every time they are applied: depth x loops.
    """
    L, V, D = config.length, config.vocab, config.width
    mixer = {
        "attn": 8 * L * D**2 + 4 * L**2 * D,
        "gdn": 10 * L * D**2 + 4 * L * D * config.heads + config.heads * scan_flops(L, D // config.heads),
    }
    blocks = sum(mixer[kind] + 4 * config.ffn * L * D**2 for kind in config.mixers)
    embedding = 2 * L * V * D * (2 if config.self_condition else 1)
    return embedding + 2 * L * D * V + config.loops * blocks


def scan_flops(length: int, d: int) -> int:
    """One head's scans in both directions (`kernels.delta`), by chunks of C positions: five products of C x C x d, four
    of C x d x d, one of d x d x d for the state, and the triangular inverse, a third of a C x C x C product.
    """
    C = chunk_size(length, 4)
    chunks = -(-length // C)
    return 2 * chunks * (10 * C * C * d + 8 * C * d * d + 2 * d**3 + 2 * C**3 // 3)


def quality_flops(config: ModelConfig) -> int:
    """The same count for the quality head: its projection, its layers (feed-forward factor 2) and its output."""
    if not config.quality:
        return 0
    L, D, Q = config.length, config.width, config.quality_width
    layer = 8 * L * Q**2 + 4 * L**2 * Q + 8 * L * Q**2
    return 2 * L * D * Q + config.quality_depth * layer + 2 * L * Q


def cost(config: ModelConfig) -> dict[str, Any]:
    """Sizes, parameters, and FLOPs of one network evaluation of one sequence."""
    sizes = {name: getattr(config, name) for name in ("width", "depth", "loops", "heads", "length", "vocab")}
    sizes |= {"pattern": config.pattern} if config.backbone == "delta" else {}
    flops = {"flops_map": map_flops(config), "flops_quality": quality_flops(config)}
    return {**sizes, "parameters": parameters(config), **flops, "flops_per_evaluation": sum(flops.values())}
