"""Blocks of quantised weights, packed here bit by bit from known integers, come out as the formulas say."""

import numpy as np
import pytest

from dbtm.evals.judges.quants import FORMATS

N = 3
BY_NAME = {entry.name: entry for entry in FORMATS.values()}


def halves(rng, scale=1.0):
    """(N,) half-precision numbers, exactly representable."""
    return (scale * rng.normal(size=N)).astype(np.float16)


def check(name, blocks, wanted):
    entry = BY_NAME[name]
    assert blocks.shape == (N, entry.bytes)
    out = entry.decode(blocks)
    assert out.dtype == np.float32
    assert out.shape == (N, entry.size)
    np.testing.assert_allclose(out, wanted, rtol=1e-6, atol=1e-6)


def stack(*parts):
    """Columns of bytes side by side, from arrays of any dtype with N rows."""
    return np.concatenate([np.ascontiguousarray(p.reshape(N, -1)).view(np.uint8) for p in parts], axis=1)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def pack_nibbles(q):
    """First half of a row in the low four bits, second half in the high ones."""
    half = q.shape[1] // 2
    return (q[:, :half] | (q[:, half:] << 4)).astype(np.uint8)


def test_q4_0(rng):
    d, q = halves(rng), rng.integers(0, 16, (N, 32))
    check("Q4_0", stack(d, pack_nibbles(q)), d[:, None].astype(float) * (q - 8))


def test_q4_1(rng):
    d, m, q = halves(rng), halves(rng), rng.integers(0, 16, (N, 32))
    check("Q4_1", stack(d, m, pack_nibbles(q)), d[:, None].astype(float) * q + m[:, None])


def test_q8_0(rng):
    d, q = halves(rng), rng.integers(-128, 128, (N, 32))
    check("Q8_0", stack(d, q.astype(np.int8)), d[:, None].astype(float) * q)


def test_q4_k(rng):
    d, m = halves(rng), halves(rng)
    s, z = rng.integers(0, 64, (2, N, 8))
    q = rng.integers(0, 16, (N, 256))
    packed = np.zeros((N, 12), dtype=np.uint8)
    for j in range(4):  # six bits each; those of 4..7 are split in four and two
        packed[:, j] = s[:, j] | ((s[:, j + 4] >> 4) << 6)
        packed[:, j + 4] = z[:, j] | ((z[:, j + 4] >> 4) << 6)
        packed[:, j + 8] = (s[:, j + 4] & 15) | ((z[:, j + 4] & 15) << 4)
    nibbles = np.concatenate([pack_nibbles(q[:, at : at + 64]) for at in range(0, 256, 64)], axis=1)
    part = np.arange(256) // 32
    wanted = d[:, None].astype(float) * s[:, part] * q - m[:, None].astype(float) * z[:, part]
    check("Q4_K", stack(d, m, packed, nibbles), wanted)


def test_q6_k(rng):
    d, s, q = halves(rng), rng.integers(-128, 128, (N, 16)), rng.integers(0, 64, (N, 256))
    low, high = np.zeros((N, 128), dtype=np.uint8), np.zeros((N, 64), dtype=np.uint8)
    for i in range(256):  # weight i: half h, quarter c of it, place l
        h, c, l = i // 128, i % 128 // 32, i % 32
        low[:, 64 * h + 32 * (c % 2) + l] |= ((q[:, i] & 15) << (4 * (c // 2))).astype(np.uint8)
        high[:, 32 * h + l] |= ((q[:, i] >> 4) << (2 * c)).astype(np.uint8)
    wanted = d[:, None].astype(float) * s[:, np.arange(256) // 16] * (q - 32)
    check("Q6_K", stack(low, high, s.astype(np.int8), d), wanted)


def test_plain_formats(rng):
    x = rng.normal(size=(N, 1)).astype(np.float32)
    check("F32", stack(x), x)
    check("F16", stack(x.astype(np.float16)), x.astype(np.float16))
    upper = (x.view(np.uint32) >> 16).astype(np.uint16)
    check("BF16", stack(upper), (upper.astype(np.uint32) << 16).view(np.float32))
