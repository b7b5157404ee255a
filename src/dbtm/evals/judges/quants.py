"""How GGUF stores weights: blocks of 32 or 256 with shared scales, turned back into float32.

A block of bytes holds `size` weights. In the formulas below d, m are half-precision numbers of the block, q the stored
integers, s the small integers that scale a part of a block:

    Q4_0  32   d (q - 8)             Q4_K  256  d s_j q - m z_j, parts of 32 with 6-bit s_j, z_j
    Q4_1  32   d q + m               Q6_K  256  d s_j (q - 32), parts of 16 with 8-bit s_j
    Q8_0  32   d q
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Format(NamedTuple):
    """One of GGUF's types of tensors."""

    name: str
    size: int
    """Weights in a block."""
    bytes: int
    """Bytes in a block."""
    decode: Callable[[np.ndarray], np.ndarray]
    """Blocks (N, bytes) of uint8 to weights (N, size) of float32."""


def _half(blocks: np.ndarray, at: int) -> np.ndarray:
    """The half-precision number at a place of every block, (N, 1) float32."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view(np.float16).astype(np.float32)


def _nibbles(bytes_NB: np.ndarray) -> np.ndarray:
    """All low halves, then all high halves, of every row's bytes: (N, 2 B)."""
    return np.concatenate([bytes_NB & 15, bytes_NB >> 4], axis=-1)


def _plain(dtype: str) -> Callable[[np.ndarray], np.ndarray]:
    return lambda blocks: np.ascontiguousarray(blocks).view(dtype).astype(np.float32)


def _bf16(blocks: np.ndarray) -> np.ndarray:
    """The upper half of a float32's bits."""
    return (np.ascontiguousarray(blocks).view("<u2").astype(np.uint32) << 16).view(np.float32)


def _q4_0(blocks: np.ndarray) -> np.ndarray:
    return _half(blocks, 0) * (_nibbles(blocks[:, 2:]).astype(np.float32) - 8)


def _q4_1(blocks: np.ndarray) -> np.ndarray:
    return _half(blocks, 0) * _nibbles(blocks[:, 4:]).astype(np.float32) + _half(blocks, 2)


def _q8_0(blocks: np.ndarray) -> np.ndarray:
    return _half(blocks, 0) * blocks[:, 2:].view(np.int8).astype(np.float32)


def _q4_k(blocks: np.ndarray) -> np.ndarray:
    """d, m, then eight pairs (s, z) of six bits in twelve bytes, then 128 bytes of nibbles."""
    low, mid, high = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    # Pairs 0-3 lie in the lower six bits of `low` and `mid`; pairs 4-7 in `high` and the upper two bits of those.
    s = np.concatenate([low & 63, (high & 15) | ((low >> 6) << 4)], axis=-1).astype(np.float32)
    z = np.concatenate([mid & 63, (high >> 4) | ((mid >> 6) << 4)], axis=-1).astype(np.float32)
    q = _nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32).astype(np.float32)
    weights = (_half(blocks, 0) * s)[..., None] * q - (_half(blocks, 2) * z)[..., None]
    return weights.reshape(-1, 256)


def _q6_k(blocks: np.ndarray) -> np.ndarray:
    """128 bytes of lower nibbles, 64 bytes with the upper two bits of four weights each, sixteen s, then d."""
    low = _nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    pairs = blocks[:, 128:192].reshape(-1, 2, 1, 32)
    high = (pairs >> np.array([0, 2, 4, 6], dtype=np.uint8)[:, None]) & 3
    q = (low | (high << 4)).astype(np.float32) - 32
    s = blocks[:, 192:208].view(np.int8).astype(np.float32)
    return ((_half(blocks, 208) * s)[..., None] * q.reshape(-1, 16, 16)).reshape(-1, 256)


FORMATS = {
    0: Format("F32", 1, 4, _plain("<f4")),
    1: Format("F16", 1, 2, _plain("<f2")),
    2: Format("Q4_0", 32, 18, _q4_0),
    3: Format("Q4_1", 32, 20, _q4_1),
    8: Format("Q8_0", 32, 34, _q8_0),
    12: Format("Q4_K", 256, 144, _q4_k),
    14: Format("Q6_K", 256, 210, _q6_k),
    30: Format("BF16", 1, 2, _bf16),
}

UNREAD = {
    6: "Q5_0",
    7: "Q5_1",
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    13: "Q5_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
}
"""Types that exist but are not read here, so that they can be refused by name."""
