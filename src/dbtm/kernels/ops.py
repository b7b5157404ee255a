"""The Triton attention as PyTorch operators, `torch.ops.dbtm.*`, for autograd and torch.compile.

They are opaque custom operators (`torch.library.custom_op`) rather than `triton_op`s. A compiler would fuse nothing
into attention, so an opaque node with declared shapes costs nothing. `triton_op` needs compiled kernels, which the
interpreter does not have, so the tests on a CPU would run different code than a GPU. A custom operator also hides the
import of Triton from the compiler: this module imports without Triton.
"""

import torch
from torch import Tensor


@torch.library.custom_op("dbtm::attention", mutates_args=())
def attention(q: Tensor, k: Tensor, v: Tensor, softcap: float) -> tuple[Tensor, Tensor]:
    """Value o and base-2 log-sum-exp (B, H, L) of attention over (B, H, L, d)."""
    from dbtm.kernels import triton_attention

    o, _, lse = triton_attention.forward(q, k, v, None, softcap)
    return o, lse


@torch.library.custom_op("dbtm::attention_dual", mutates_args=())
def attention_dual(
    q: Tensor, k: Tensor, v: Tensor, dq: Tensor, dk: Tensor, dv: Tensor, softcap: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Value o, tangent do and log-sum-exp, in one pass. Only o is differentiable, and only with respect to q, k, v."""
    from dbtm.kernels import triton_attention

    o, do, lse = triton_attention.forward(q, k, v, (dq, dk, dv), softcap)
    assert do is not None
    return o, do, lse


@torch.library.custom_op("dbtm::attention_backward", mutates_args=())
def attention_backward(
    go: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, softcap: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The value's gradients of q, k, v."""
    from dbtm.kernels import triton_attention

    return triton_attention.backward(go, q, k, v, o, lse, softcap)


def like_heads(x: Tensor) -> Tensor:
    """An empty (B, H, L, d) tensor, stored as (B, L, H, d): the output projection flattens it without a copy."""
    B, H, L, d = x.shape
    return x.new_empty(B, L, H, d).transpose(1, 2)


@attention.register_fake
def _(q, k, v, softcap):
    return like_heads(q), q.new_empty(q.shape[:-1], dtype=torch.float32)


@attention_dual.register_fake
def _(q, k, v, dq, dk, dv, softcap):
    return like_heads(q), like_heads(q), q.new_empty(q.shape[:-1], dtype=torch.float32)


@attention_backward.register_fake
def _(go, q, k, v, o, lse, softcap):
    return like_heads(q), like_heads(k), like_heads(v)


def _save(ctx, inputs, output):
    (q, k, v, *others), (o, *constants) = inputs, output
    ctx.mark_non_differentiable(*constants)
    ctx.set_materialize_grads(False)  # of the constants
    ctx.save_for_backward(q, k, v, o, constants[-1])
    ctx.softcap, ctx.other_inputs = others[-1], len(others)


def _backward(ctx, go, *_):
    """A tangent is a constant of the loss (inside a stop-gradient), so both operators share the value's backward."""
    if go is None:
        return (None,) * (3 + ctx.other_inputs)
    return *attention_backward(go, *ctx.saved_tensors, ctx.softcap), *([None] * ctx.other_inputs)


attention.register_autograd(_backward, setup_context=_save)
attention_dual.register_autograd(_backward, setup_context=_save)
