"""What GPUs and the links between them sustain.

The H200's matrix peak and bandwidth are those that `dbtm bench step` measured (results/bench-step-*.json). The other
GPUs are given the same share of their data sheets: 82 % of the dense bfloat16 peak, 87 % of the memory bandwidth. Links
are data-sheet numbers with the shares that NCCL's collectives usually reach; they are not measured.
"""

from dataclasses import dataclass

LINK_SHARE, NETWORK_SHARE = 0.75, 0.8
HOP_IN_NODE, HOP = 2e-6, 8e-6  # seconds that a message takes to the next GPU of a node, and to the next node


@dataclass(frozen=True)
class Gpu:
    """One kind of GPU in nodes of eight."""

    name: str
    memory: float
    """Bytes a process can use."""
    peak: float
    """FLOP/s of large bfloat16 products."""
    bandwidth: float
    """Bytes per second from and to its memory."""
    link: float
    """Bytes per second each way to the other GPUs of its node, by data sheet."""
    network: float
    """Bytes per second each way to other nodes, by data sheet."""
    per_node: int = 8

    def ring(self, n: int) -> float:
        """Bytes per second past each GPU in a ring of n; a node's network cards share the work."""
        in_node = LINK_SHARE * self.link
        return in_node if n <= self.per_node else min(in_node, NETWORK_SHARE * self.network * self.per_node)

    def latency(self, n: int) -> float:
        """Latency in seconds of a ring collective of n GPUs."""
        nodes = -(-n // self.per_node)
        return (min(n, self.per_node) - 1) * HOP_IN_NODE + (nodes - 1) * HOP


def _like_h200(name: str, gib: float, tflops: float, tb: float, link_gb: float, network_gb: float) -> Gpu:
    """A GPU by its data sheet: bfloat16 without sparsity, memory bandwidth, links each way."""
    peak, bandwidth = 808.5e12 / 989e12, 4.15 / 4.8
    return Gpu(name, gib * 2**30, peak * tflops * 1e12, bandwidth * tb * 1e12, link_gb * 1e9, network_gb * 1e9)


GPUS = {
    "a100": _like_h200("A100 80 GB", 79.1, 312, 2.04, 300, 25),
    "h100": _like_h200("H100 80 GB", 79.1, 989, 3.35, 450, 50),
    "h200": _like_h200("H200 141 GB", 139.8, 989, 4.8, 450, 50),
    "b200": _like_h200("B200 180 GB", 178.0, 2250, 8.0, 900, 50),
}
