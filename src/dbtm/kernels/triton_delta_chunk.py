"""One chunk in the kernels of the delta rule: its addresses, loads and stores, products, and decays.

PRECISION selects the products: bfloat16, or float32 as "tf32", "tf32x3" or "ieee". Sums are always float32.
Intermediate results are bfloat16 or float32 accordingly. Gates, decays and inverses are always float32, and products
with an inverse use at least TF32.
"""

import torch
import triton
import triton.language as tl

from dbtm.kernels.triton_kernels import dot as wide_dot

SOLVE = tl.constexpr("ieee" if torch.version.hip else "tf32")  # most AMD chips have no TF32


@triton.jit
def places(L, HEADS, REVERSED, C: tl.constexpr):
    """This program's chunk number, its direction and head as one number, the positions of the chunk's rows, and which
    of them are inside the sequence.
    """
    part = tl.program_id(0).to(tl.int64)
    index = tl.program_id(1) * C + tl.arange(0, C)
    reverse = (REVERSED >> (tl.program_id(0) // HEADS)) & 1
    at = tl.where(reverse == 1, L - 1 - index, index).to(tl.int64)
    return part * tl.num_programs(1) + tl.program_id(1), part, at, index < L


@triton.jit
def input_at(part, at, L, H, HEADS, strides):
    """Offsets of the chunk's rows and of its gates in an input."""
    head = part % HEADS
    return head // H * strides[0] + head % H * strides[1] + at * strides[2], head * L + at


@triton.jit
def result_at(part, at, L, H, D: tl.constexpr, TENSORS: tl.constexpr):
    """Offsets of the chunk's rows in a result stored as (directions, B, L, TENSORS, H, d)."""
    return ((part // H * L + at) * TENSORS * H + part % H) * D


@triton.jit
def rows_of(ptr, rows, inside, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """Load the chunk's rows, (C, BLOCK_D)."""
    d = tl.arange(0, BLOCK_D)
    return tl.load(ptr + rows[:, None] + d[None, :], mask=inside[:, None] & (d[None, :] < D), other=0.0)


@triton.jit
def write_rows(ptr, x, rows, inside, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """Store the chunk's rows."""
    d = tl.arange(0, BLOCK_D)
    mask = inside[:, None] & (d[None, :] < D)
    tl.store(ptr + rows[:, None] + d[None, :], x.to(ptr.dtype.element_ty), mask=mask)


@triton.jit
def gates_of(ptr, gates, inside):
    """Load the chunk's entries of a gate, (C,)."""
    return tl.load(ptr + gates, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def block_of(ptr, chunk, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Load the chunk's block of a (..., n, ROWS, COLUMNS) tensor."""
    r, c = tl.arange(0, BLOCK_R)[:, None], tl.arange(0, BLOCK_C)[None, :]
    return tl.load(ptr + chunk * ROWS * COLUMNS + r * COLUMNS + c, mask=(r < ROWS) & (c < COLUMNS), other=0.0)


@triton.jit
def write_block(ptr, x, chunk, ROWS: tl.constexpr, COLUMNS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    """Store the chunk's block."""
    r, c = tl.arange(0, BLOCK_R)[:, None], tl.arange(0, BLOCK_C)[None, :]
    mask = (r < ROWS) & (c < COLUMNS)
    tl.store(ptr + chunk * ROWS * COLUMNS + r * COLUMNS + c, x.to(ptr.dtype.element_ty), mask=mask)


@triton.jit
def dot(a, b, PRECISION: tl.constexpr):
    if PRECISION == "bf16":
        y = wide_dot(a.to(tl.bfloat16), b.to(tl.bfloat16), "ieee")
    else:
        y = wide_dot(a.to(tl.float32), b.to(tl.float32), PRECISION)
    return y


@triton.jit
def solve(inverse, b, PRECISION: tl.constexpr):
    """A product with an inverse; the inverse is not rounded to bfloat16."""
    return dot(inverse, b, SOLVE if PRECISION == "bf16" else PRECISION)


@triton.jit
def running(g):
    """The cumulative sum of g in float64 (see `delta`), as a sum of two float32, and its last value."""
    gamma = tl.cumsum(g.to(tl.float64), 0)
    high = gamma.to(tl.float32)
    return high, (gamma - high.to(tl.float64)).to(tl.float32), tl.sum(g.to(tl.float64), 0)


@triton.jit
def to_last(high, low, last):
    """The difference of the last cumulative sum and each one, (C, 1)."""
    return (last - high.to(tl.float64) - low.to(tl.float64)).to(tl.float32)[:, None]


@triton.jit
def differences(high, low):
    """x_i - x_j, rounded once: the high parts of close numbers cancel without a rounding."""
    return (high[:, None] - high[None, :]) + (low[:, None] - low[None, :])


@triton.jit
def decays(g, C: tl.constexpr):
    """start (C, 1), end (C, 1), through and D (C, C) of `delta.Parts`."""
    i = tl.arange(0, C)
    high, low, last = running(g)
    D = tl.exp(tl.where(i[:, None] >= i[None, :], differences(high, low), -float("inf")))
    return tl.exp(high)[:, None], tl.exp(to_last(high, low, last)), tl.exp(last.to(tl.float32)), D


@triton.jit
def below(x, C: tl.constexpr):
    """The strictly lower triangle."""
    i = tl.arange(0, C)
    return tl.where(i[:, None] > i[None, :], x, 0.0)
