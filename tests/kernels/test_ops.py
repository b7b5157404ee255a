"""The Triton operators under autograd and torch.compile, and the layouts of their inputs and outputs."""

import pytest
import torch

from dbtm.kernels import delta_ops, ops
from dbtm.kernels.dispatch import attention, force
from tests.kernels.conftest import DEVICE, needs_triton

pytestmark = needs_triton


def views(n: int, L: int = 7, d: int = 16):
    """n times q, k, v as views of (B, L, 3, H, d), the layout of the joint projection."""
    torch.manual_seed(0)
    return [x for _ in range(n) for x in torch.randn(2, L, 3, 3, d, device=DEVICE).permute(2, 0, 3, 1, 4)]


@pytest.mark.parametrize("softcap", [0.0, 5.0])
def test_operators_keep_their_contracts(softcap):
    """Schema, fake tensors (shapes and strides), autograd registration and AOT tracing, checked by PyTorch itself."""
    q, k, v, *tangents = views(2)
    inputs = [x.detach().requires_grad_() for x in (q, k, v)]
    torch.library.opcheck(ops.attention, (*inputs, softcap))
    torch.library.opcheck(ops.attention_dual, (*inputs, *tangents, softcap))
    o, lse = ops.attention(q, k, v, softcap)
    torch.library.opcheck(ops.attention_backward, (torch.randn_like(o), q, k, v, o, lse, softcap))


@pytest.mark.parametrize(("H", "dtype"), [(2, torch.float32), (1, torch.bfloat16)])
def test_operators_of_the_delta_rule_keep_theirs(H, dtype):
    """With strided inputs and both directions."""
    qkv, dqkv = (torch.randn(2, 20, 3, H, 16, device=DEVICE, dtype=dtype).permute(2, 0, 3, 1, 4) for _ in range(2))
    g, beta, dg, dbeta = torch.randn(4, 2, 20, H, device=DEVICE).sigmoid().transpose(2, 3)
    inputs = [x.detach().requires_grad_() for x in (qkv, -g, beta)]
    torch.library.opcheck(delta_ops.delta, (*inputs, [False, True]))
    torch.library.opcheck(delta_ops.delta_dual, (*inputs, dqkv, dg, dbeta, [False, True]))
    values = [x.detach() for x in inputs]
    o, *kept = delta_ops.delta(*values, [False, True])
    torch.library.opcheck(delta_ops.delta_backward, (torch.randn_like(o), *values, *kept, [False, True]))


def test_forward_mode_is_refused_rather_than_wrong():
    qkv = tuple(views(1))
    with force("triton"), pytest.raises(RuntimeError, match="jvp"):
        torch.func.jvp(lambda *x: attention(*x)[0], qkv, qkv)


def test_compiled_without_a_break_equals_eager():
    q, k, v, *tangents = views(2)

    def step(q, k, v):
        o, do = attention(q * 2, k, v, tuple(tangents), 5.0)
        return o.sin(), do * 3

    results = []
    for run in (step, torch.compile(step, backend="aot_eager", fullgraph=True)):
        inputs = [x.detach().requires_grad_() for x in (q, k, v)]
        with force("triton"):
            o, do = run(*inputs)
        results.append((o, do, *torch.autograd.grad(o.sum(), inputs)))
    for eager, compiled in zip(*results, strict=True):
        torch.testing.assert_close(eager, compiled)


def test_views_go_in_and_come_out_without_a_copy():
    from dbtm.kernels.triton_attention import dense_rows

    q, k, v, *tangents = views(2)
    assert not q.is_contiguous()
    assert all(dense_rows(x) is x for x in (q, k, v))
    o, do, _ = ops.attention_dual(q, k, v, *tangents, 0.0)
    for x in (o, do):  # the output projection reads heads side by side
        assert x.transpose(1, 2).flatten(2).data_ptr() == x.data_ptr()
    dense = ops.attention_dual(*(x.contiguous() for x in (q, k, v, *tangents)), 0.0)
    torch.testing.assert_close((o, do), dense[:2], rtol=0, atol=0)


def test_gradient_without_memory_of_its_own():
    """The gradient of a sum is one expanded number: none of its rows is dense."""
    q, k, v = (x.detach().requires_grad_() for x in views(1))
    with force("triton"):
        got = torch.autograd.grad(attention(q, k, v)[0].sum(), (q, k, v))
    with force("reference"):
        want = torch.autograd.grad(attention(q, k, v)[0].sum(), (q, k, v))
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_nothing_flows_through_a_tangent():
    tensors = [x.detach().requires_grad_() for x in views(2)]
    with force("triton"):
        o, do = attention(*tensors[:3], tuple(tensors[3:]))
    assert not do.requires_grad
    grads = torch.autograd.grad(o.sum(), tensors, allow_unused=True)
    assert all(g is not None for g in grads[:3])
    assert all(g is None for g in grads[3:])
