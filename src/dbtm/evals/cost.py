"""FLOPs and parameters of a network, counted from its sizes, to compare methods, looped depth and plain depth fairly.

Counted are the matrix products, 2 m n k for (m, n) times (n, k); norms, softmax, activations and short convolutions are
left out, and so is adaLN of a constant (it is folded into the matrices). The FLOPs of one sample are about its network
evaluations times `flops_per_evaluation`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from dbtm.config import ModelConfig, RunConfig, Shape
from dbtm.kernels.delta_ops import chunk_size
from dbtm.methods.base import method_of
from dbtm.nn import Backbone
from dbtm.nn.condition import FEATURES
from dbtm.nn.quality import QualityHead
from dbtm.sampling import Sampler


def parameters(network: nn.Module) -> int:
    """Parameters of a network with all its heads; weights shared by several loops count once."""
    return sum(p.numel() for p in network.parameters())


def map_flops(
    config: ModelConfig,
    shape: Shape,
    causal: bool = False,
    reads_tokens: bool = False,
    times: int = 0,
    per_token: bool = False,
) -> int:
    """One pass over one whole sequence. With L positions, V tokens, width D and feed-forward factor f:

        embedding   2 L V D for a state on the simplex, nothing for tokens, which are looked up (`reads_tokens`);
        2 L V D more for the previous round if the network is self-conditioned
        one block   4 f L D^2 (feed-forward), and either
                    8 L D^2 (q, k, v, output) + 4 L^2 D (scores, mixing), attention, or
                    10 L D^2 (q, k, v, gate, output) + 4 L D H (rates) + the scans of H heads, the delta rule
        head        2 L D V
        times       2 n (256 C + C^2) for each, and adaLN's 12 n C D per block and 4 n C D at the end, for a condition
                    of width C and n = L times per token, or n = 1 per sequence

    The blocks count once per application: depth x loops. Causal attention scores each position against itself and
    those before: 2 L (L + 1) D instead of 4 L^2 D. Masked products are not counted, though a kernel may compute them.
    So a pass over the sequence costs as much as generating it token by token with a cache.
    """
    L, V, D = shape.length, shape.vocab, config.width
    scores = 2 * L * (L + 1) * D if causal else 4 * L**2 * D
    mixer = {
        "attn": 8 * L * D**2 + scores,
        "gdn": 10 * L * D**2 + 4 * L * D * config.heads + config.heads * scan_flops(L, D // config.heads),
    }
    blocks = sum(mixer[kind] + 4 * config.ffn * L * D**2 for kind in config.mixers)
    embedding = 2 * L * V * D * ((not reads_tokens) + config.self_condition)
    return embedding + 2 * L * D * V + config.loops * blocks + condition_flops(config, shape, times, per_token)


def condition_flops(config: ModelConfig, shape: Shape, times: int, per_token: bool) -> int:
    """The extra cost of a network with a time input."""
    if not times:
        return 0
    n, C, D = shape.length if per_token else 1, config.cond_dim, config.width
    adaln = 12 * config.loops * config.depth + 4
    return 2 * n * times * (FEATURES * C + C * C) + adaln * n * C * D


def scan_flops(length: int, d: int) -> int:
    """One head's scans in both directions (`kernels.delta`), by chunks of C positions: five products of C x C x d, four
    of C x d x d, one of d x d x d for the state, and the triangular inverse, a third of a C x C x C product.
    """
    C = chunk_size(length, 4)
    chunks = -(-length // C)
    return 2 * chunks * (10 * C * C * d + 8 * C * d * d + 2 * d**3 + 2 * C**3 // 3)


def quality_flops(head: QualityHead, trunk_width: int, length: int) -> int:
    """The same count for a quality head: its projection, its layers (feed-forward factor 2) and its output."""
    L, D, Q = length, trunk_width, head.width
    layer = 8 * L * Q**2 + 4 * L**2 * Q + 8 * L * Q**2
    return 2 * L * D * Q + len(head.layers) * layer + 2 * L * Q


def cost(sampler: Sampler, loops: int = 0) -> dict[str, Any]:
    """Sizes, parameters, and FLOPs of one network evaluation of one sequence, with the network's own number of loops of
    its blocks or with `loops`.

    A causal network generates with a cache, one token per evaluation: its `flops_per_evaluation` are those per
    generated token, `flops_per_sequence` / L on average; a prompt, read at once, costs its share of the sequence.
    """
    network, shape = sampler.network, sampler.network.shape
    config = replace(network.config, loops=loops or getattr(sampler.options, "loops", 0) or network.config.loops)
    sizes = {name: getattr(config, name) for name in ("width", "depth", "loops", "heads")}
    sizes |= {"length": shape.length, "vocab": shape.vocab}
    sizes |= {"pattern": config.pattern} if config.backbone == "delta" else {}
    return {**sizes, "parameters": parameters(network), **_flops(network, config)}


def flops_of(sampler: Sampler, options: Mapping[str, Any]) -> float:
    """FLOPs of one network evaluation with these sampler options."""
    return cost(sampler, options.get("loops", 0))["flops_per_evaluation"]


def _flops(network: Backbone, config: ModelConfig) -> dict[str, float]:
    shape = network.shape
    causal = any(getattr(module, "causal", False) for module in network.modules())
    reads_tokens = len(network.embedding) > shape.vocab  # extra ids (a mask, a start) are not on the simplex
    whole = map_flops(config, shape, causal, reads_tokens, network.trunk.times, network.per_token)
    if causal:
        return {"flops_per_sequence": whole, "flops_per_evaluation": whole / shape.length}
    if not hasattr(network, "quality"):
        return {"flops_per_evaluation": whole}
    head = network.quality
    quality = quality_flops(head, config.width, shape.length) if isinstance(head, QualityHead) else 0
    return {"flops_map": whole, "flops_quality": quality, "flops_per_evaluation": whole + quality}


def cost_of_run(config: RunConfig) -> dict[str, Any]:
    """The same for a configuration: its network is built without memory or weights."""
    method = method_of(config)
    return cost(method.sampler(method.outline()))
