"""The prior's noise in a Triton kernel: SplitMix64 and Box-Muller as in `dbtm.core.rng`, without temporaries."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from dbtm.kernels.triton_kernels import INLINE_PTX
from dbtm.simplex.noise import Noise


@triton.jit
def mix(z):
    """SplitMix64's finaliser, on unsigned words."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@triton.jit
def normals(key, word):
    """The pair of standard normals of a word of a key's stream."""
    z = mix(key + (word + 1).to(tl.uint64, bitcast=True) * 0x9E3779B97F4A7C15)
    u = ((z >> 32).to(tl.float32) + 0.5) * (2.0**-32)
    turn = (z & 0xFFFFFFFF).to(tl.uint32).to(tl.int32, bitcast=True)  # signed: angles from -pi to pi
    cos, sin = cos_sin(turn.to(tl.float32) * (6.283185307179586 * 2.0**-32))
    radius = tl.sqrt(-2.0 * tl.log(u))
    return radius * cos, radius * sin


@triton.jit
def cos_sin(angle):
    """cos and sin of angles from -pi to pi, where the hardware's are accurate to 1e-6: two instructions, not 100."""
    if INLINE_PTX:
        cos = tl.inline_asm_elementwise("cos.approx.f32 $0, $1;", "=f,f", [angle], tl.float32, is_pure=True, pack=1)
        sin = tl.inline_asm_elementwise("sin.approx.f32 $0, $1;", "=f,f", [angle], tl.float32, is_pure=True, pack=1)
    else:
        cos, sin = tl.cos(angle), tl.sin(angle)
    return cos, sin


@triton.jit
def draw_kernel(key_ptr, out_ptr, sigma, L, V, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    """BLOCK words of one row (b, l), two numbers each; a row of odd length shares a word with the next row."""
    row = tl.program_id(0).to(tl.int64)
    first = (row % L) * V  # the row's first entry among its sample's L V
    word = first // 2 + tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + row // L).to(tl.uint64, bitcast=True)
    even, odd = normals(key, word)
    column = 2 * word - first
    out_ptr += row * COLUMNS
    kind = out_ptr.dtype.element_ty
    inside = (column >= 0) & (column < COLUMNS)
    tl.store(out_ptr + column, tl.where(column < V, sigma * even, 0.0).to(kind), mask=inside)
    column += 1
    tl.store(out_ptr + column, tl.where(column < V, sigma * odd, 0.0).to(kind), mask=column < COLUMNS)


@triton.jit
def cost_kernel(key_ptr, tokens_ptr, target_ptr, out_ptr, sigma, B, V, L: tl.constexpr, BLOCK: tl.constexpr):
    """-sum_l x0_i[l, x1_j[l]] of one noise row i and BLOCK data rows j; tokens and target are (L, B)."""
    i = tl.program_id(0)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + i).to(tl.uint64, bitcast=True)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for l in range(L):
        token = tl.load(tokens_ptr + l * B + j, mask=j < B, other=0)
        counts = tl.load(target_ptr + l * B + j, mask=j < B, other=0)
        entry = l * V.to(tl.int64) + token
        even, odd = normals(key, entry // 2)
        total += tl.where(counts != 0, tl.where(entry % 2 == 0, even, odd), 0.0)
    tl.store(out_ptr + i.to(tl.int64) * B + j, -sigma * total, mask=j < B)


def draw(noise: Noise, dtype: torch.dtype, columns: int) -> Tensor:
    """x0, (B, L, columns), with zeros beyond the vocabulary."""
    out = torch.empty(len(noise), noise.length, columns, dtype=dtype, device=noise.key.device)
    block = min(1024, triton.next_power_of_2(columns // 2 + 1))
    grid = (len(noise) * noise.length, triton.cdiv(columns // 2 + 1, block))
    with torch.cuda.device_of(out):
        draw_kernel[grid](noise.key, out, noise.sigma, noise.length, noise.vocab, COLUMNS=columns, BLOCK=block)
    return out


def cost(noise: Noise, tokens_BL: Tensor, target_BL: Tensor) -> Tensor:
    """`simplex.ot_cost`, (B, B)."""
    B = len(noise)
    out = torch.empty(B, B, device=tokens_BL.device)
    tokens, target = tokens_BL.T.contiguous(), target_BL.T.to(torch.int8).contiguous()
    block = min(128, triton.next_power_of_2(B))
    with torch.cuda.device_of(out):
        cost_kernel[(B, triton.cdiv(B, block))](
            noise.key, tokens, target, out, noise.sigma, B, noise.vocab, L=noise.length, BLOCK=block
        )
    return out
