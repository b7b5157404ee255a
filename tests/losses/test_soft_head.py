"""The chunked head with soft targets equals the dense one, values and gradients."""

import torch

from dbtm.losses.reference import soft_ril_c, soft_target
from dbtm.losses.soft_head import SoftTarget, capped, chunked_soft_head, distribution_head

N, D, V = 11, 4, 7


def test_equals_the_dense_head():
    torch.manual_seed(0)
    student, teacher = (torch.nn.Linear(D, V).double() for _ in range(2))
    h = torch.randn(N, D, dtype=torch.float64, requires_grad=True)
    kept = torch.arange(N) % 4 == 1
    tokens, beta = torch.randint(0, V, (N,)), torch.rand(N, dtype=torch.float64) * (torch.arange(N) % 3 != 0)
    trunk = torch.randn(N, D, dtype=torch.float64)
    target = SoftTarget(trunk, tokens, kept, teacher.requires_grad_(False), temperature=0.7)
    p = soft_target(teacher(trunk), 0.7)
    p = torch.where(kept[:, None], torch.eye(V, dtype=torch.float64)[tokens], p)
    per_row = soft_ril_c(student(h), p, torch.ones(N, dtype=torch.bool))
    leaves = (h, *student.parameters())
    want = torch.autograd.grad(3 * (beta * per_row).sum(), leaves)
    some, every = beta.nonzero().squeeze(-1), torch.arange(N)
    for rows, chunk in ((some, 1), (some, 4), (some, 100), (every, 4)):
        loss, cross_entropy = chunked_soft_head(h, student, target, beta, rows, budget=chunk * V * 8 * 3)
        torch.testing.assert_close(loss, (beta * per_row).sum(), rtol=1e-12, atol=0)
        torch.testing.assert_close(cross_entropy[rows], per_row[rows].detach(), rtol=1e-12, atol=0)
        assert cross_entropy.count_nonzero() == len(rows)
        for g, w in zip(torch.autograd.grad(3 * loss, leaves), want, strict=True):
            torch.testing.assert_close(g, w, rtol=1e-10, atol=1e-12)


@torch.no_grad()
def _distributions():
    return torch.randn(N, V, dtype=torch.float64).softmax(-1)


def test_any_distributions_with_capped_logits():
    torch.manual_seed(1)
    head, cap = torch.nn.Linear(D, V).double(), 0.8
    h = torch.randn(N, D, dtype=torch.float64, requires_grad=True)
    p, beta, rows = _distributions(), torch.rand(N, dtype=torch.float64), torch.arange(N)
    per_row = -(p * (cap * torch.tanh(head(h) / cap)).log_softmax(-1)).sum(-1)
    leaves = (h, *head.parameters())
    want = torch.autograd.grad((beta * per_row).sum(), leaves)
    loss, cross_entropy = distribution_head(h, head, lambda index: p[index], beta, rows, cap, budget=3 * V * 8 * 3)
    torch.testing.assert_close(cross_entropy, per_row.detach(), rtol=1e-12, atol=0)
    for g, w in zip(torch.autograd.grad(loss, leaves), want, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-10, atol=1e-12)
    assert capped(torch.tensor([1e6]), cap) == cap


def test_divergences_with_an_adaptive_weight():
    torch.manual_seed(2)
    head, (c, r) = torch.nn.Linear(D, V).double(), (0.01, 0.5)
    h = torch.randn(N, D, dtype=torch.float64, requires_grad=True)
    p, beta, rows = _distributions(), torch.rand(N, dtype=torch.float64), torch.arange(N)
    p[3] = torch.eye(V, dtype=torch.float64)[2]  # a vertex: 0 log 0 = 0
    q = head(h).softmax(-1)
    weight = ((q - p).square().sum(-1) + c).pow(-r).detach()
    per_row = weight * torch.nn.functional.kl_div(q.log(), p, reduction="none").sum(-1)
    leaves = (h, *head.parameters())
    want = torch.autograd.grad((beta * per_row).sum(), leaves)
    loss, got = distribution_head(h, head, lambda i: p[i], beta, rows, divergence=True, adaptive=(c, r))
    torch.testing.assert_close(got, per_row.detach(), rtol=1e-12, atol=1e-14)
    for g, w in zip(torch.autograd.grad(loss, leaves), want, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-10, atol=1e-12)
