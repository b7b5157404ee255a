"""Attention value, tangent and gradient of every backend against float64 autodiff of a direct transcription."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.func import jvp

from dbtm.kernels import reference
from dbtm.kernels.dispatch import attention, force
from tests.kernels.conftest import DEVICE, needs_triton


def backends(*softcaps: float):
    """(backend, softcap) for all that support it: PyTorch's fused attention has no softcap."""
    cases = [
        (backend, c) for backend in ("reference", "sdpa", "triton") for c in softcaps if backend != "sdpa" or c == 0
    ]
    return [pytest.param(*case, marks=needs_triton if case[0] == "triton" else ()) for case in cases]


def plain(q: Tensor, k: Tensor, v: Tensor, softcap: float) -> Tensor:
    """One query at a time, by the definition."""
    rows = []
    for l in range(q.shape[-2]):
        s = (q[..., l : l + 1, :] * k).sum(-1) / math.sqrt(q.shape[-1])
        if softcap:
            s = softcap * torch.tanh(s / softcap)
        w = torch.exp(s - s.amax(-1, keepdim=True))
        rows.append((w[..., None] * v).sum(-2) / w.sum(-1, keepdim=True))
    return torch.stack(rows, -2)


@dataclass
class Results:
    o: Tensor
    do: Tensor
    gq: Tensor
    gk: Tensor
    gv: Tensor

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return iter(vars(self).items())


def inputs(L: int, d: int, dtype: torch.dtype, scale: float = 1.0, shift: float = 0.0) -> list[Tensor]:
    """q, k, v, dq, dk, dv and go in the layout of the model: views of (B, L, 3, H, d). Logits grow with `scale`;
    `shift` is common to all keys and all their tangents.
    """
    torch.manual_seed(L * d)
    heads = 3 if L < 10 else 1  # many programs are slow in the interpreter
    qkv, dqkv, go = (torch.randn(1, L, n, heads, d).permute(2, 0, 3, 1, 4) for n in (3, 3, 1))
    qkv[0] *= scale
    qkv[1] += shift
    dqkv[1] += shift
    return [x.to(DEVICE, dtype) for x in (*qkv, *dqkv, *go)]


def expected(tensors: list[Tensor], softcap: float) -> Results:
    """float64 of the same (rounded) inputs, by the transcription."""
    *qkv_and_tangents, go = (x.double() for x in tensors)
    qkv, tangents = qkv_and_tangents[:3], qkv_and_tangents[3:]
    o, do = jvp(lambda q, k, v: plain(q, k, v, softcap), tuple(qkv), tuple(tangents))
    qkv = [x.requires_grad_() for x in qkv]
    return Results(o, do, *torch.autograd.grad((plain(*qkv, softcap) * go).sum(), qkv))


def computed(backend: str, tensors: list[Tensor], softcap: float) -> Results:
    q, k, v, *tangents, go = tensors
    qkv = [x.detach().requires_grad_() for x in (q, k, v)]
    with force(backend):
        o, do = attention(*qkv, tuple(tangents), softcap)
        value_alone, _ = attention(*qkv, None, softcap)
    assert close(value_alone.detach(), o.detach().double(), TOLERANCE[q.dtype])
    assert o.dtype == do.dtype == q.dtype
    assert not do.requires_grad
    return Results(o.detach(), do, *torch.autograd.grad(o, qkv, go))


def close(got: Tensor, want: Tensor, tolerance: float) -> bool:
    """Relative distance at most `tolerance`; at half precision, a cosine of 0.99999 and a relative distance of 1 %.

    (Triton's interpreter truncates to bfloat16, while a GPU rounds: this shortens vectors but keeps their direction.)
    """
    got = got.double()
    if not want.any():  # gq and gk at L = 1 are zero, up to rounding in PyTorch's attention
        return float(got.abs().max()) <= max(1e-6, tolerance)
    floor = 0.1 * math.sqrt(want.numel())  # for values that are zero up to rounding: gq and gk at L = 1
    error = float((got - want).norm()) / max(float(want.norm()), floor)
    if tolerance > 1e-4 and want.norm() > 1e-3 * floor:
        return error <= 0.01 and float(got.flatten() @ want.flatten() / (got.norm() * want.norm())) >= 0.99999
    return error <= tolerance


TOLERANCE = {torch.float64: 1e-12, torch.float32: 3e-6, torch.float16: 0.0045, torch.bfloat16: 0.0045}


@pytest.mark.parametrize(
    ("L", "d", "dtype"),
    [
        (1, 16, torch.float32),
        (7, 128, torch.float32),
        (33, 48, torch.float32),
        (64, 64, torch.float32),
        (1, 128, torch.bfloat16),
        (7, 32, torch.float16),
        (33, 16, torch.float16),
        (128, 64, torch.bfloat16),
        (180, 64, torch.bfloat16),
        (180, 48, torch.bfloat16),
        (180, 128, torch.bfloat16),
        (7, 8, torch.float64),  # not supported by the kernels: dispatch uses another backend even if forced
        (180, 32, torch.float64),
    ],
)
@pytest.mark.parametrize(("backend", "softcap"), backends(0.0, 5.0))
def test_value_tangent_gradient(backend, softcap, L, d, dtype):
    tensors = inputs(L, d, dtype)
    want = expected(tensors, softcap)
    for name, got in computed(backend, tensors, softcap):
        assert close(got, getattr(want, name), TOLERANCE[dtype]), name


@pytest.mark.parametrize("scale", [1e-3, 30.0, 1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("backend", "softcap"), backends(0.0, 20.0))
def test_tiny_and_huge_logits(backend, softcap, dtype, scale):
    """Up to weights of exactly 0 and 1, where do = dv of one key: no overflow, no cancellation to noise."""
    tensors = inputs(33, 32, dtype, scale)
    got, want = computed(backend, tensors, softcap), expected(tensors, softcap)
    names = ["o", "do"]
    if dtype == torch.float32 and (softcap or scale < 1e3):
        # at half precision go . o carries the rounding of o into peaked rows, as in PyTorch's backward; and if all
        # weights are 0 and 1, gq and gk are pure rounding
        names += ["gq", "gk", "gv"]
    for name in names:  # the rounding errors of logits are proportional to the products q . k
        tolerance = 1e-6 * max(1.0, scale) if dtype == torch.float32 else TOLERANCE[dtype]
        assert close(getattr(got, name), getattr(want, name), tolerance), name
    assert all(tensor.isfinite().all() for _, tensor in got)


@pytest.mark.parametrize(("backend", "softcap"), backends(0.0, 50.0))
def test_tangent_does_not_see_what_all_keys_share(backend, softcap):
    """A common part of all ds does not change do, and in bfloat16 it does not drown the rest."""
    tensors = inputs(90, 64, torch.bfloat16, shift=5.0)
    got, want = computed(backend, tensors, softcap), expected(tensors, softcap)
    assert close(got.o, want.o, TOLERANCE[torch.bfloat16])
    assert close(got.do, want.do, TOLERANCE[torch.bfloat16])


def test_reference_value_beside_its_tangent():
    q, k, v, dq, dk, dv, _ = inputs(7, 8, torch.float64)
    o, _ = reference.attention_tangent(q, k, v, dq, dk, dv, 5.0)
    torch.testing.assert_close(o, plain(q, k, v, 5.0))
