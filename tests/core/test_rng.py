import numpy as np
import torch
from scipy import stats

from dbtm.core import rng

MASK = 2**64 - 1


def splitmix_reference(key: int, n: int) -> list[int]:
    """SplitMix64 in Python integers, from its published definition."""
    out, state = [], key & MASK
    for _ in range(n):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        out.append(z ^ (z >> 31))
    return out


def test_bits_are_splitmix64():
    keys = [0, 1, -1, 2**63 - 1, -(2**63), 1234567]
    got = rng.bits(torch.tensor(keys), 5).numpy().astype(np.uint64)
    assert got.tolist() == [splitmix_reference(k, 5) for k in keys]


def test_known_splitmix_output():
    # the first outputs of SplitMix64 from state 0, published with its reference implementation
    assert rng.bits(torch.tensor([0]), 2)[0].numpy().astype(np.uint64).tolist() == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
    ]


def test_seeds_of_any_size():
    """Only the lowest 64 bits of Python integers are used."""
    for seed in (2**63, 2**64 - 1, -(2**63) - 1, 10**30):
        wrapped = seed % 2**64
        signed = wrapped - 2**64 if wrapped >= 2**63 else wrapped
        assert rng.fold(seed, 1, 2) == rng.fold(torch.tensor(signed), 1, 2)
        assert rng.fold(5, seed) == rng.fold(5, signed)
    assert rng.fold(2**63) != rng.fold(2**63 - 1)


def test_a_row_depends_on_its_key_alone():
    key = rng.fold(3, 5, torch.arange(10))
    whole = rng.normal(key, 4, 7)
    assert torch.equal(whole[3:5], rng.normal(key[3:5], 4, 7))
    assert len({k.item() for k in key}) == 10
    assert rng.fold(3, 5, torch.tensor([0]))[0] != rng.fold(5, 3, torch.tensor([0]))[0]


def test_normal_is_normal_and_uniform_is_uniform():
    key = rng.fold(11, torch.arange(200))
    z = rng.normal(key, 501).flatten().double().numpy()  # odd: the last pair is cut
    assert stats.kstest(z, "norm").pvalue > 1e-3
    u = rng.uniform(key, 500)
    assert stats.kstest(u.flatten().numpy(), "uniform").pvalue > 1e-3
    assert u.min() > 0
    assert u.max() < 1
    rows = np.corrcoef(rng.normal(key[:20], 5000).double().numpy())
    assert np.abs(rows - np.eye(20)).max() < 0.07  # 5 sigma: rows are independent
