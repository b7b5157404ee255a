"""Attention value, tangent and gradient against float64 autodiff of a direct transcription."""

import math

import pytest
import torch
from torch.func import jvp

from dbtm.kernels import reference
from dbtm.kernels.dispatch import attention, choose


def plain(q, k, v, softcap):
    """One query at a time, straight from the definition."""
    rows = []
    for l in range(q.shape[-2]):
        s = (q[..., l : l + 1, :] * k).sum(-1) / math.sqrt(q.shape[-1])
        if softcap:
            s = softcap * torch.tanh(s / softcap)
        w = torch.exp(s - s.amax(-1, keepdim=True))
        rows.append((w[..., None] * v).sum(-2) / w.sum(-1, keepdim=True))
    return torch.stack(rows, -2)


@pytest.mark.parametrize("softcap", [0.0, 5.0])
@pytest.mark.parametrize(("L", "scale"), [(1, 1.0), (7, 1e-3), (13, 30.0)])
def test_value_tangent_gradient(softcap, L, scale):
    torch.manual_seed(0)
    q, k, v, dq, dk, dv = (torch.randn(2, 3, L, 8, dtype=torch.float64) for _ in range(6))
    q = q * scale
    want, dwant = jvp(lambda q, k, v: plain(q, k, v, softcap), (q, k, v), (dq, dk, dv))
    inputs = [t.requires_grad_() for t in (q, k, v)]
    got, dgot = attention(*inputs, (dq, dk, dv), softcap)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(dgot, dwant, rtol=1e-9, atol=1e-9 * max(1, scale))
    torch.testing.assert_close(
        reference.attention_tangent(q, k, v, dq, dk, dv, softcap)[0], want, rtol=1e-9, atol=1e-12
    )
    weight = torch.randn_like(got)
    got_grads = torch.autograd.grad((got * weight).sum(), inputs)
    want_grads = torch.autograd.grad((plain(*inputs, softcap) * weight).sum(), inputs)
    for g, w in zip(got_grads, want_grads, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-8, atol=1e-10)


def test_choice_says_why():
    assert choose(0.0)[0] == "sdpa"
    assert choose(50.0)[0] == "reference"
    assert all(reason for _, reason in (choose(0.0), choose(50.0)))
