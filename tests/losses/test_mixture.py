"""A mixture of products: chunked terms against dense ones, and Joint - Fact where it is known."""

import math

import pytest
import torch
from torch import nn

from dbtm.losses import mixture

N, K, V, D, T = 6, 4, 5, 3, 2
SEQUENCE = torch.tensor([0, 0, 0, 1, 1, 1])


@pytest.fixture
def made():
    torch.manual_seed(0)
    trunk = torch.randn(N, K, D, dtype=torch.float64, requires_grad=True)
    head = nn.Linear(D, V, dtype=torch.float64)
    tokens = torch.randint(V, (N, T))
    first, second = (torch.randn(N, V, dtype=torch.float64).softmax(-1) for _ in range(2))
    return trunk, head, tokens, first, second


def test_reads_in_chunks_equal_dense_ones_and_so_do_gradients(made, monkeypatch):
    trunk, head, tokens, first, second = made
    monkeypatch.setattr(mixture, "BUDGET", 4 * K * V * 4)  # four positions at once
    reads = mixture.read_mixture(trunk, head, tokens, lambda at: (first[at], second[at]), each=True)
    p = head(trunk).softmax(-1)
    m = p.mean(1)
    at = torch.stack([p[:, :, :].gather(-1, tokens[:, None, j : j + 1].expand(-1, K, 1))[..., 0] for j in range(T)], -1)
    want = (
        at.log(),
        m.gather(-1, tokens).log(),
        (first * (first / m).log()).sum(-1),
        (first[:, None] * (first[:, None] / p).log()).sum(-1).mean(1),
        (second * (second / m).log()).sum(-1),
    )
    for got, expected in zip(reads, want, strict=True):
        torch.testing.assert_close(got, expected)

    def gradients(values):
        loss = sum((i + 1) * value.sin().sum() for i, value in enumerate(values))
        return torch.autograd.grad(loss, (trunk, head.weight, head.bias))

    for got, expected in zip(gradients(reads), gradients(want), strict=True):
        torch.testing.assert_close(got, expected, atol=1e-12, rtol=0)


def test_joint_and_fact_by_hand(made):
    trunk, head, tokens, first, _ = made
    reads = mixture.read_mixture(trunk, head, tokens, lambda at: (first[at], None), each=False)
    excess = mixture.joint_minus_fact(reads.at_nKT, reads.fact_nT, SEQUENCE, 2)
    p = head(trunk).softmax(-1)
    for b in range(2):
        for j in range(T):
            rows = [l for l in range(N) if SEQUENCE[l] == b]
            joint = torch.stack([torch.stack([p[l, k, tokens[l, j]] for l in rows]).prod() for k in range(K)]).mean()
            fact = torch.stack([p[l, :, tokens[l, j]].mean() for l in rows]).prod()
            torch.testing.assert_close(excess[b, j], (joint / fact).log())
    assert (reads.to_second_n == 0).all()
    assert (reads.to_each_n == 0).all()


def test_a_network_that_ignores_its_latent_has_no_excess(made):
    trunk, head, tokens, first, _ = made
    same = trunk[:, :1].expand(N, K, D)
    reads = mixture.read_mixture(same, head, tokens, lambda at: (first[at], None), each=True)
    excess = mixture.joint_minus_fact(reads.at_nKT, reads.fact_nT, SEQUENCE, 2)
    assert excess.abs().max() < 1e-12
    torch.testing.assert_close(reads.to_each_n, reads.to_mean_n)


def test_targets_with_zeros_are_finite():
    target = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    log_p = torch.tensor([[0.25, 0.75]], dtype=torch.float64).log()
    assert mixture.divergence(target, log_p).item() == pytest.approx(math.log(4))
