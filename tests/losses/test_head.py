"""The chunked head equals the dense head with the written-out losses: values, constants per row and gradients."""

import pytest
import torch

from dbtm.losses import head, reference
from dbtm.losses.head import Adaptive, chunked_head, rows_per_chunk

N, D, V = 23, 6, 11


def draw(dtype=torch.float64, n=N, scale=1.0):
    """h, dh, W, b, tokens, and weights such that some rows have one term, some both and some none."""
    torch.manual_seed(0)
    h, dh = torch.randn(n, D, dtype=dtype), torch.randn(n, D, dtype=dtype)
    W, b = scale * torch.randn(V, D, dtype=dtype), torch.randn(V, dtype=dtype)
    tokens = torch.randint(0, V, (n,))
    alpha = torch.rand(n, dtype=dtype) * (torch.arange(n) % 3 != 0)
    beta = torch.rand(n, dtype=dtype) * (torch.arange(n) % 4 > 1)
    leaves = [x.requires_grad_() for x in (h, W, b)]
    return leaves, dh, tokens, alpha, beta


def dense(leaves, dh, tokens, alpha, beta, adaptive):
    h, W, b = leaves
    logits = h @ W.T + b
    transport = torch.zeros(len(h), dtype=h.dtype)
    if dh is not None:
        transport = reference.transport(logits, dh @ W.detach().T, adaptive.c, adaptive.r)
    endpoint = reference.endpoint(logits, tokens, adaptive.endpoint_c, adaptive.endpoint_r)
    return (alpha * transport + beta * endpoint).sum(), transport, endpoint, logits.softmax(-1)


def budget(rows: int, tangent: bool = True) -> int:
    return rows * V * 8 * (3 if tangent else 2)


@pytest.mark.parametrize("rows_at_once", [1, 4, 5, 100])
@pytest.mark.parametrize("tangent", [True, False])
@pytest.mark.parametrize("adaptive", [Adaptive(), Adaptive(0.3, 0.0, 0.7, 0.0), Adaptive(1e-3, 1.0, 2.0, 0.8)])
def test_equals_the_dense_head(adaptive, tangent, rows_at_once):
    leaves, dh, tokens, alpha, beta = draw()
    dh = dh if tangent else None
    want, transport, endpoint, T = dense(leaves, dh, tokens, alpha, beta, adaptive)
    h, W, b = leaves
    got = chunked_head(h, dh, W, b, tokens, alpha, beta, adaptive, budget=budget(rows_at_once, tangent))
    exact = {"rtol": 1e-10, "atol": 1e-12}
    torch.testing.assert_close(got.loss, want, **exact)
    visited = (beta != 0) | ((alpha != 0) & tangent)
    assert 0 < visited.sum() < N
    T = T.detach()
    for read, expect, skipped in (
        (got.transport, transport, 0),
        (got.endpoint, endpoint, 0),
        (got.argmax, T.argmax(-1), -1),
        (got.confidence, T.amax(-1), 0),
        (got.right, T.gather(-1, tokens[:, None])[:, 0], 0),
    ):
        assert not read.requires_grad
        torch.testing.assert_close(read[visited], expect[visited].detach(), **exact)
        assert (read[~visited] == skipped).all()
    # the incoming gradient of the loss is not 1
    for g, w in zip(torch.autograd.grad(got.loss * 3, leaves), torch.autograd.grad(want * 3, leaves), strict=True):
        torch.testing.assert_close(g, w, **exact)
        assert w.abs().max() > 0


def test_no_row_has_a_weight():
    (h, W, b), dh, tokens, alpha, beta = draw()
    got = chunked_head(h, dh, W, b, tokens, alpha * 0, beta * 0)
    assert got.loss == 0
    assert (got.argmax == -1).all()
    assert all((g == 0).all() for g in torch.autograd.grad(got.loss, (h, W, b)))


def test_rows_read_without_a_weight():
    """Given rows are visited even with weight 0, so that a rollout can read the scores of positions without a loss."""
    leaves, dh, tokens, alpha, beta = draw()
    h, W, b = leaves
    want, *_, T = dense(leaves, dh, tokens, alpha, beta, Adaptive())
    got = chunked_head(h, dh, W, b, tokens, alpha, beta, rows=torch.arange(N), budget=budget(7))
    torch.testing.assert_close(got.loss, want)
    torch.testing.assert_close(got.confidence, T.amax(-1).detach())
    for g, w in zip(torch.autograd.grad(got.loss, leaves), torch.autograd.grad(want, leaves), strict=True):
        torch.testing.assert_close(g, w)


def test_no_gradient_is_computed_where_none_is_asked_for(monkeypatch):
    (h, W, b), dh, tokens, alpha, beta = draw()
    asked = []
    plain = head.row_terms
    monkeypatch.setattr(head, "row_terms", lambda *args: asked.append(args[-1]) or plain(*args))
    with torch.no_grad():
        assert not chunked_head(h, dh, W, b, tokens, alpha, beta).loss.requires_grad
    assert asked == [False]


def test_bfloat16_states_with_float32_weights():
    """Rounded products, wide sums: as close to float64 as the rounding of the logits' gradient allows."""
    (h, W, b), dh, tokens, alpha, beta = draw()
    narrow = [x.detach().to(torch.bfloat16) for x in (h, W, dh)]
    leaves = [x.double().requires_grad_() for x in (*narrow[:2], b.detach().float())]
    want, *_ = dense(leaves, narrow[2].double(), tokens, alpha, beta, Adaptive())
    want_grads = torch.autograd.grad(want, leaves)
    h, W, b = narrow[0].requires_grad_(), narrow[1].float().requires_grad_(), b.detach().float().requires_grad_()
    got = chunked_head(h, narrow[2], W, b, tokens, alpha, beta, budget=V * 4 * 3 * 5)
    assert got.loss.dtype == torch.float32
    torch.testing.assert_close(got.loss.double(), want, rtol=1e-5, atol=0)
    for leaf, g, w in zip((h, W, b), torch.autograd.grad(got.loss, (h, W, b)), want_grads, strict=True):
        assert g.dtype == leaf.dtype
        assert (g.double() - w).norm() <= 0.005 * w.norm()


def test_chunk_sizes():
    assert rows_per_chunk(50257, torch.bfloat16, True, 2**30) == 1664  # 13 x 128 rows of 3 x 4 x 50257 bytes
    assert rows_per_chunk(50257, torch.float64, False, 1) == 1
    assert rows_per_chunk(50257, torch.bfloat16, True) == 1536  # MIN_CHUNK_ROWS exceed BUDGET
    assert rows_per_chunk(8192, torch.bfloat16, True) == 2688  # 2^28 bytes


@pytest.mark.parametrize("tangent", [True, False])
def test_operator_keeps_its_contract(tangent):
    """Schema, fake tensors, autograd registration and AOT tracing, checked by PyTorch itself; and no graph break."""
    leaves, dh, tokens, alpha, beta = draw()
    h, W, b = leaves
    dh = dh if tangent else None
    torch.library.opcheck(head.head_sweep, (h, dh, W, b, tokens, alpha, beta, None, [1.0, 0.5, 1.0, 0.5], 5, True))

    def step(h, W, b):
        return chunked_head(h.sin(), dh, W, b, tokens, alpha, beta).loss * 2

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(*leaves), step(*leaves))
    torch.testing.assert_close(
        torch.autograd.grad(compiled(*leaves), leaves), torch.autograd.grad(step(*leaves), leaves)
    )
