"""Keyed randomness: every number is a pure function of a key and a counter.

A key is one 64-bit integer per sample, folded from (seed, stream, step, sample index ...), so noise does not depend on
batch size, rank count, resume or device. The generator is SplitMix64 (a counter passed through a 64-bit mixer), written
in int64 tensor arithmetic, which wraps around like unsigned arithmetic.
"""

import math

import torch
from torch import Tensor


def _signed(value: int) -> int:
    """The 64-bit pattern `value` as a signed integer, for an int64 tensor."""
    return value - (1 << 64) if value >= 1 << 63 else value


_GOLDEN = _signed(0x9E3779B97F4A7C15)
_MIX_1 = _signed(0xBF58476D1CE4E5B9)
_MIX_2 = _signed(0x94D049BB133111EB)


def _shift_right(z: Tensor, bits: int) -> Tensor:
    """Logical right shift: torch's >> on int64 copies the sign bit, the mask removes the copies."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def mix(z: Tensor) -> Tensor:
    """SplitMix64's finaliser: a bijection of 64-bit integers in which every output bit depends on every input bit."""
    z = (z ^ _shift_right(z, 30)) * _MIX_1
    z = (z ^ _shift_right(z, 27)) * _MIX_2
    return z ^ _shift_right(z, 31)


def _words(value: Tensor | int) -> Tensor:
    """64-bit words; the lowest 64 bits of a Python integer."""
    return torch.as_tensor(_signed(value % (1 << 64)) if isinstance(value, int) else value, dtype=torch.int64)


def fold(key: Tensor | int, *values: Tensor | int) -> Tensor:
    """Fold values into a key, in order; tensors broadcast: `fold(seed, step, index_B)` gives key_B."""
    out = _words(key)
    for value in map(_words, values):
        out = mix(mix(out.to(value.device) if out.dim() == 0 else out) + _GOLDEN * (value + 1))
    return out


def bits(key_B: Tensor, n: int) -> Tensor:
    """n random 64-bit integers per key, (B, n)."""
    counter = torch.arange(1, n + 1, device=key_B.device)
    return mix(key_B[:, None] + _GOLDEN * counter)


def uniform(key_B: Tensor, *shape: int) -> Tensor:
    """float64 uniforms on (0, 1), (B, *shape); never exactly 0 or 1. On a device without float64 (mps), float32."""
    if key_B.device.type == "mps":
        return uniform(key_B.cpu(), *shape).float().clamp(2.0**-24, 1 - 2.0**-24).to(key_B.device)
    z = _shift_right(bits(key_B, math.prod(shape)), 12)
    return ((z.to(torch.float64) + 0.5) * 2.0**-52).view(-1, *shape)


def normal(key_B: Tensor, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Standard normals, (B, *shape), two by Box-Muller from each 64-bit word (32 bits each: tails reach 6.7 sigma)."""
    n = math.prod(shape)
    radius, angle = _polar(bits(key_B, (n + 1) // 2), dtype)
    pairs = torch.stack((radius * torch.cos(angle), radius * torch.sin(angle)), dim=-1)
    return pairs.flatten(1)[:, :n].to(dtype).view(-1, *shape)


def normal_at(key: Tensor, entry: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Single values of `normal`: entry n of its flattened row, without the others; key and entry broadcast."""
    radius, angle = _polar(mix(key + _GOLDEN * (entry // 2 + 1)), dtype)
    return (radius * torch.where(entry % 2 == 0, torch.cos(angle), torch.sin(angle))).to(dtype)


def _polar(z: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Radius and angle of a pair of normals from a 64-bit word."""
    work = torch.float64 if dtype == torch.float64 else torch.float32
    u = (_shift_right(z, 32).to(work) + 0.5) * 2.0**-32
    angle = (z & 0xFFFFFFFF).to(work) * (2.0 * math.pi * 2.0**-32)
    return torch.sqrt(-2.0 * torch.log(u)), angle
