"""Blocks of quantised weights, packed here bit by bit from known integers, come out of a file as the formulas say.

A block holds 32 or 256 weights. d, m are half-precision numbers of the block, q the stored integers, s and z the small
integers that scale a part of a block:

    Q4_0  32   d (q - 8)             Q4_K  256  d s_j q - m z_j, parts of 32 with 6-bit s_j, z_j
    Q4_1  32   d q + m               Q5_K  256  the same with q of five bits
    Q5_0  32   d (q - 16)            Q6_K  256  d s_j (q - 32), parts of 16 with 8-bit s_j
    Q5_1  32   d q + m               Q8_0  32   d q
"""

import numpy as np
import pytest

from dbtm.evals.judges.gguf_reader import GGUF
from tests.evals.judges.gguf_writer import Blocks, write

N = 3
NUMBERS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q4_K": 12, "Q5_K": 13}
NUMBERS |= {"Q6_K": 14, "BF16": 30}


@pytest.fixture
def check(tmp_path):
    """Whether a file with these blocks, one a row, has the wanted weights."""

    def compare(name, blocks, wanted):
        path = write(tmp_path / "a.gguf", {}, {"w": (Blocks(wanted.shape, blocks.tobytes()), NUMBERS[name])})
        out = GGUF(path).tensor("w")
        assert out.dtype == np.float32
        assert out.flags.writeable, "a copy, not the mapped file"
        np.testing.assert_allclose(out, wanted, rtol=1e-6, atol=1e-6)

    return compare


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def halves(rng, scale=1.0):
    """(N,) half-precision numbers, exactly representable."""
    return (scale * rng.normal(size=N)).astype(np.float16)


def stack(*parts):
    """Columns of bytes side by side, from arrays of any dtype with N rows."""
    return np.concatenate([np.ascontiguousarray(p.reshape(N, -1)).view(np.uint8) for p in parts], axis=1)


def pack_nibbles(q):
    """First half of a row in the low four bits, second half in the high ones."""
    half = q.shape[1] // 2
    return (q[:, :half] | (q[:, half:] << 4)).astype(np.uint8)


def test_q4_0(rng, check):
    d, q = halves(rng), rng.integers(0, 16, (N, 32))
    check("Q4_0", stack(d, pack_nibbles(q)), d[:, None].astype(float) * (q - 8))


def test_q4_1(rng, check):
    d, m, q = halves(rng), halves(rng), rng.integers(0, 16, (N, 32))
    check("Q4_1", stack(d, m, pack_nibbles(q)), d[:, None].astype(float) * q + m[:, None])


def test_q8_0(rng, check):
    d, q = halves(rng), rng.integers(-128, 128, (N, 32))
    check("Q8_0", stack(d, q.astype(np.int8)), d[:, None].astype(float) * q)


@pytest.mark.parametrize("name", ["Q5_0", "Q5_1"])
def test_q5(rng, check, name):
    """The fifth bits of a block's 32 weights are the bits of one integer."""
    d, m, q = halves(rng), halves(rng), rng.integers(0, 32, (N, 32))
    fifth = ((q >> 4) << np.arange(32)).sum(1).astype(np.uint32)
    middle, shift = ([], -16 * d[:, None].astype(float)) if name == "Q5_0" else ([m], m[:, None])
    check(name, stack(d, *middle, fifth, pack_nibbles(q & 15)), d[:, None].astype(float) * q + shift)


@pytest.mark.parametrize("name", ["Q4_K", "Q5_K"])
def test_q4_k_and_q5_k(rng, check, name):
    d, m = halves(rng), halves(rng)
    s, z = rng.integers(0, 64, (2, N, 8))
    q = rng.integers(0, 16 if name == "Q4_K" else 32, (N, 256))
    packed = np.zeros((N, 12), dtype=np.uint8)
    for j in range(4):  # six bits each; those of 4..7 are split in four and two
        packed[:, j] = s[:, j] | ((s[:, j + 4] >> 4) << 6)
        packed[:, j + 4] = z[:, j] | ((z[:, j + 4] >> 4) << 6)
        packed[:, j + 8] = (s[:, j + 4] & 15) | ((z[:, j + 4] & 15) << 4)
    nibbles = np.concatenate([pack_nibbles(q[:, at : at + 64] & 15) for at in range(0, 256, 64)], axis=1)
    part = np.arange(256) // 32
    fifth = ((q >> 4).reshape(N, 8, 32) << np.arange(8)[:, None]).sum(1).astype(np.uint8)  # bit j is part j's
    wanted = d[:, None].astype(float) * s[:, part] * q - m[:, None].astype(float) * z[:, part]
    check(name, stack(d, m, packed, *([fifth] if name == "Q5_K" else []), nibbles), wanted)


def test_q6_k(rng, check):
    d, s, q = halves(rng), rng.integers(-128, 128, (N, 16)), rng.integers(0, 64, (N, 256))
    low, high = np.zeros((N, 128), dtype=np.uint8), np.zeros((N, 64), dtype=np.uint8)
    for i in range(256):  # weight i: half h, quarter c of it, place l
        h, c, l = i // 128, i % 128 // 32, i % 32
        low[:, 64 * h + 32 * (c % 2) + l] |= ((q[:, i] & 15) << (4 * (c // 2))).astype(np.uint8)
        high[:, 32 * h + l] |= ((q[:, i] >> 4) << (2 * c)).astype(np.uint8)
    wanted = d[:, None].astype(float) * s[:, np.arange(256) // 16] * (q - 32)
    check("Q6_K", stack(low, high, s.astype(np.int8), d), wanted)


def test_plain_formats(rng, check):
    x = rng.normal(size=(N, 1)).astype(np.float32)
    check("F32", stack(x), x)
    check("F16", stack(x.astype(np.float16)), x.astype(np.float16))
    upper = (x.view(np.uint32) >> 16).astype(np.uint16)
    check("BF16", stack(upper), (upper.astype(np.uint32) << 16).view(np.float32))
