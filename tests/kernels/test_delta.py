"""The gated delta rule: properties of the recurrence, its tangent, and the chunked form against it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import jvp

from dbtm.kernels import delta_reference
from dbtm.kernels.delta import gated_delta
from dbtm.kernels.delta_ops import state_pass, unit_lower_inverse
from dbtm.kernels.dispatch import force
from tests.kernels.conftest import DEVICE, needs_triton


@pytest.fixture(autouse=True)
def kernels_where_they_can_serve():
    with force("triton"):
        yield


def relative(got: Tensor, want: Tensor) -> float:
    return float((got.detach().double() - want).norm() / want.norm().clamp(min=1e-30))


def cosine(got: Tensor, want: Tensor) -> float:
    return float(F.cosine_similarity(got.double().flatten(), want.flatten(), dim=0))


def inputs(L: int, dk: int = 8, dv: int = 6, dtype=torch.float64, gates: str = "usual") -> list[Tensor]:
    """q, k, v, g, beta for two sequences of two heads, q and k of norm 1; gates at least float32, as in the layer."""
    torch.manual_seed(L + dk)
    q, k = F.normalize(torch.randn(2, 2, 2, L, dk, dtype=torch.float64), dim=-1)
    v, a, b = torch.randn(2, 2, L, dv), 3 * torch.randn(2, 2, L) - 3, torch.randn(2, 2, L)
    g, beta = -F.softplus(a), b.sigmoid()
    if gates == "strong":  # e^g is 0 in every dtype
        g = torch.full_like(g, -1e4)
    elif gates == "now and then":  # after -1e5 a float32 sum of gates has no digits for those that follow
        g[..., ::7] = -1e5
    elif gates == "none":
        g = torch.zeros_like(g)
    elif gates == "alike":  # nearly equal keys, written with beta = 1: the worst case of the inverse
        k = F.normalize(k[:, :, :1] + 0.01 * k, dim=-1)
        g, beta = 0.01 * g, torch.ones_like(beta)
    wide = torch.promote_types(dtype, torch.float32)
    return [x.to(DEVICE, t) for x, t in zip((q, k, v, g, beta), (dtype,) * 3 + (wide,) * 2)]


def rule(*tensors: Tensor, tangents=None, directions=(False,)) -> tuple[Tensor, Tensor | None]:
    """`gated_delta` of q, k, v, g, beta one by one."""
    given = [None if x is None else (tuple(x[:3]), tuple(x[3:])) for x in (tensors, tangents)]
    return gated_delta(*given[0], given[1], directions)


def directions_of(tensors: list[Tensor]) -> list[Tensor]:
    return [torch.randn_like(x) for x in tensors]


def expected(tensors: list[Tensor], tangents: list[Tensor], go: Tensor, reverse: bool) -> list[Tensor]:
    """o, do and the gradients: float64 autodiff of the recurrence on the same (rounded) inputs."""
    x, dx = ([t.double() for t in each] for each in (tensors, tangents))
    o, do = jvp(lambda *x: delta_reference.gated_delta(*x, reverse=reverse), tuple(x), tuple(dx))
    x = [t.clone().requires_grad_() for t in x]
    return [o, do, *torch.autograd.grad(delta_reference.gated_delta(*x, reverse=reverse), x, go.double())]


def computed(tensors: list[Tensor], tangents: list[Tensor], go: Tensor, reverse: bool) -> list[Tensor]:
    x = [t.clone().requires_grad_() for t in tensors]
    o, do = rule(*x, tangents=tangents, directions=(reverse,))
    alone, none = rule(*x, directions=(reverse,))
    assert none is None
    assert torch.equal(alone, o)
    assert o.dtype == do.dtype == tensors[2].dtype
    assert not do.requires_grad
    return [o[0].detach(), do[0], *torch.autograd.grad(o[0], x, go)]


@contextmanager
def launched() -> Iterator[list[str]]:
    """The names of the Triton launchers that ran."""
    from dbtm.kernels import triton_delta

    calls: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("forward", "backward"):
            plain = getattr(triton_delta, name)
            patch.setattr(triton_delta, name, lambda *x, n=name, f=plain: calls.append(n) or f(*x))
        yield calls


NAMES = ("o", "do", "gq", "gk", "gv", "gg", "gbeta")


def compare(tensors: list[Tensor], reverse: bool = False) -> dict[str, tuple[Tensor, Tensor]]:
    tangents, go = directions_of(tensors), torch.randn_like(tensors[2])
    arguments = (tensors, tangents, go, reverse)
    return dict(zip(NAMES, zip(computed(*arguments), expected(*arguments), strict=True), strict=True))


def assert_close_in_half_precision(found: dict[str, tuple[Tensor, Tensor]]) -> None:
    for name, (got, want) in found.items():
        assert cosine(got, want) >= 0.9999, name
        assert relative(got, want) <= 0.01, name


# -- the recurrence ----------------------------------------------------------------------------------------------------


def test_memory_recalls_overwrites_and_fades():
    """Orthogonal keys are recalled exactly; writing a key again replaces its value; beta moves the value part of the
    way; a decay shrinks all values.
    """
    k = torch.eye(4, dtype=torch.float64)[[0, 1, 0, 2]].expand(1, 1, 4, 4)
    v = torch.tensor([[1.0], [2.0], [5.0], [7.0]], dtype=torch.float64).expand(1, 1, 4, 1)
    ask = torch.eye(4, dtype=torch.float64)
    g, beta = torch.zeros(1, 1, 4).double(), torch.ones(1, 1, 4).double()
    answers = [delta_reference.gated_delta(q.expand(1, 1, 4, 4), k, v, g, beta)[0, 0, -1].item() for q in ask]
    assert answers == [5, 2, 7, 0]
    half = torch.full_like(beta, 0.5)
    assert delta_reference.gated_delta(ask[0].expand(1, 1, 4, 4), k, v, g, half)[0, 0, -1].item() == 0.5 * 0.5 + 0.5 * 5
    fade = g.clone()
    fade[..., -1] = torch.tensor(0.25).log()
    assert delta_reference.gated_delta(ask[1].expand(1, 1, 4, 4), k, v, fade, beta)[0, 0, -1].item() == pytest.approx(
        0.5
    )


@pytest.mark.parametrize("reverse", [False, True])
def test_tangent_of_the_recurrence(reverse):
    tensors = inputs(11)
    tangents = directions_of(tensors)
    o, do = delta_reference.gated_delta_tangent(tuple(tensors), tuple(tangents), reverse)
    want_o, want_do, *_ = expected(tensors, tangents, torch.ones_like(o), reverse)
    assert relative(o, want_o) <= 1e-14
    assert relative(do, want_do) <= 1e-12


def test_reverse_is_the_recurrence_on_the_flipped_sequence():
    tensors = inputs(9)
    flipped = delta_reference.gated_delta(*(x.flip(2) for x in tensors)).flip(2)
    assert torch.equal(delta_reference.gated_delta(*tensors, reverse=True), flipped)


# -- the chunked form --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("L", "dk", "dv"), [(1, 8, 6), (3, 8, 6), (63, 8, 6), (64, 4, 16), (65, 8, 6), (150, 16, 8)])
def test_chunks_equal_the_recurrence(L, dk, dv, reverse):
    """Lengths below a chunk, of one chunk, odd ones: value 1e-10, tangent and gradients 1e-9."""
    for name, (got, want) in compare(inputs(L, dk, dv), reverse).items():
        if want.norm() > 0:  # at L = 1 there is no state to decay
            assert relative(got, want) <= (1e-10 if name == "o" else 1e-9), name
        else:
            assert got.abs().max() <= 1e-14, name


def test_many_chunks_pass_their_state_in_groups():
    """34 chunks are more than two groups."""
    for name, (got, want) in compare([x[:1, :1] for x in inputs(34 * 64 - 5, 4, 4)]).items():
        assert relative(got, want) <= (1e-10 if name == "o" else 1e-9), name


@pytest.mark.parametrize("gates", ["strong", "now and then", "none", "alike"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_extreme_gates(gates, dtype):
    tolerance = 1e-10 if dtype == torch.float64 else 5e-5 if gates == "alike" else 1e-6
    with force("reference"):
        found = compare(inputs(150, 16, 16, dtype, gates))
    for name, (got, want) in found.items():
        assert got.isfinite().all(), name
        if want.norm() > 0:  # if no state survives a step, g has no gradient
            assert relative(got, want) <= tolerance, name


@pytest.mark.parametrize("d", [64, 128])
def test_half_precision(d):
    """bfloat16 inputs and results, float32 in between: a cosine of at least 0.9999, at the widest heads too."""
    with force("reference"):
        found = compare(inputs(130, d, d, torch.bfloat16))
    assert_close_in_half_precision(found)


def test_both_directions_in_one_call():
    tensors = inputs(70)
    x = [t.clone().requires_grad_() for t in tensors]
    tangents = tuple(directions_of(tensors))
    o, do = rule(*x, tangents=tangents, directions=(False, True))
    go = torch.randn_like(o)
    grads = torch.autograd.grad(o, x, go)
    want = [expected(tensors, list(tangents), go[i], bool(i)) for i in range(2)]
    for i in range(2):
        assert relative(o[i], want[i][0]) <= 1e-10
        assert relative(do[i], want[i][1]) <= 1e-9
    for got, forward, backward in zip(grads, want[0][2:], want[1][2:], strict=True):
        assert relative(got, forward + backward) <= 1e-9


@pytest.mark.parametrize("reverse", [False, True])
def test_nothing_leaks_from_the_end(reverse):
    """Neither the padding of the last chunk nor later positions of the scan change earlier ones."""
    tensors = inputs(100)
    read, unread = (slice(30, None), slice(0, 30)) if reverse else (slice(0, 70), slice(70, None))
    want, _ = rule(*(x[:, :, read] for x in tensors), directions=(reverse,))
    for x, other in zip(tensors, (1e3, 1e3, 1e3, -1e3, 1.0), strict=True):
        x[:, :, unread] = other
    got, _ = rule(*tensors, directions=(reverse,))
    assert relative(got[:, :, :, read], want) <= 1e-12


@pytest.mark.parametrize(("dk", "dv"), [(8, 6), pytest.param(16, 16, marks=needs_triton)])
def test_what_autograd_keeps_grows_like_the_length(dk, dv):
    def kept(L: int) -> int:
        sizes = []
        x = [t.requires_grad_() for t in inputs(L, dk, dv, dtype=torch.float32)]
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()), lambda _: None):
            rule(*x, directions=(False, True))
        return sum(sizes)

    assert kept(128) == 2 * kept(64)


@pytest.mark.parametrize(("dk", "dv"), [(8, 6), pytest.param(16, 16, marks=needs_triton)])
def test_tangents_are_constants_and_inputs_may_be(dk, dv):
    """No gradient through a tangent, none for an input that needs none; an expanded gradient is accepted."""
    tensors = inputs(20, dk, dv, torch.float32)
    tangents = [x.requires_grad_() for x in directions_of(tensors)]
    found = []
    for needed in (range(5), (1, 3)):
        x = [t.detach().requires_grad_(i in needed) for i, t in enumerate(tensors)]
        o, do = rule(*x, tangents=tangents)
        assert not do.requires_grad
        o.sum().backward()
        assert all((x[i].grad is not None) == (i in needed) for i in range(5))
        found.append(x)
    assert all(x.grad is None for x in tangents)
    for i in (1, 3):
        assert torch.equal(found[0][i].grad, found[1][i].grad)


@pytest.mark.parametrize(("dk", "dv"), [(8, 6), pytest.param(16, 16, marks=needs_triton)])
def test_forward_mode_is_refused_rather_than_wrong(dk, dv):
    tensors = tuple(inputs(5, dk, dv, torch.float32))
    with pytest.raises(RuntimeError, match="jvp"):
        jvp(lambda *x: rule(*x)[0], tensors, tensors)


def test_second_derivatives_are_refused_rather_than_wrong():
    """The plain form saves U, S and the inverse as constants; the kernels' operators have no second derivative."""
    tensors = [x.requires_grad_() for x in inputs(5)]
    (gq,) = torch.autograd.grad(rule(*tensors)[0].square().sum(), tensors[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gq.square().sum().backward()


@pytest.mark.parametrize(("dk", "dv"), [(8, 6), pytest.param(16, 16, marks=needs_triton)])
def test_the_compiler_sees_one_graph(dk, dv):
    """In the plain form and, if q, k and v have the same shape, in Triton's."""

    def call(*x):
        return rule(*x[:5], tangents=x[5:], directions=(False, True))

    tensors = [x[:1] for x in inputs(70, dk, dv, dtype=torch.float32)]
    tangents = directions_of(tensors)
    grads = []
    for function in (call, torch.compile(call, backend="aot_eager", fullgraph=True)):
        x = [t.clone().requires_grad_() for t in tensors]
        o, do = function(*x, *tangents)
        grads.append([o.detach(), do, *torch.autograd.grad(o.square().sum(), x)])
    for plain, compiled in zip(*grads, strict=True):
        torch.testing.assert_close(compiled, plain)


# -- its two operators -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [4, 8, 32, 64])
@pytest.mark.parametrize("alike", [False, True])
def test_inverse_against_substitution(C, alike):
    torch.manual_seed(C)
    N = torch.randn(3, C, C).tril(-1) if not alike else torch.ones(3, C, C).tril(-1)
    N = N.to(DEVICE) if alike else 0.3 * N.to(DEVICE)
    identity = torch.eye(C, dtype=torch.float64, device=DEVICE)
    want = torch.linalg.solve_triangular(identity + N.double(), identity.expand(3, C, C), upper=False)
    assert relative(unit_lower_inverse(N), want) <= 1e-5
    assert relative(unit_lower_inverse(N.double()), want) <= 1e-12


@pytest.mark.parametrize(("n", "d", "m"), [*((n, 4, 5) for n in (1, 2, 32, 33, 48, 49)), (3, 20, 70)])
def test_state_pass_against_its_definition(n, d, m):
    torch.manual_seed(n)
    P, Z = torch.randn(2, 3, n, d, d).double() * 0.8 * d**-0.5, torch.randn(2, 3, n, d, m).double()
    S, want = torch.zeros(2, 3, d, m).double(), []
    for c in range(n):
        want.append(S)
        S = P[:, :, c] @ S + Z[:, :, c]
    want = torch.stack(want, 2)
    torch.testing.assert_close(state_pass(P.to(DEVICE), Z.to(DEVICE)).cpu(), want, rtol=1e-12, atol=1e-12)
    got = state_pass(P.float().to(DEVICE), Z.float().to(DEVICE)).cpu()
    torch.testing.assert_close(got, want.float(), rtol=1e-5, atol=1e-5 * want.abs().max().item())


# -- in Triton ---------------------------------------------------------------------------------------------------------


@needs_triton
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("L", "d"), [(1, 16), (9, 8), (20, 16), (63, 16), (64, 32), (65, 20), (150, 64)])
def test_kernels_equal_the_recurrence(L, d, reverse):
    """Lengths below a chunk, of one chunk, odd ones, odd widths; float32 throughout."""
    with launched() as calls:
        found = compare(inputs(L, d, d, torch.float32), reverse)
    assert calls == ["forward", "forward", "backward"]
    for name, (got, want) in found.items():
        if want.norm() > 0:
            assert relative(got, want) <= 2e-6, name
        else:
            assert got.abs().max() <= 1e-14, name


@needs_triton
@pytest.mark.parametrize("gates", ["strong", "now and then", "none", "alike"])
def test_kernels_at_extreme_gates(gates):
    for name, (got, want) in compare(inputs(150, 16, 16, torch.float32, gates)).items():
        assert got.isfinite().all(), name
        if want.norm() > 0:
            assert relative(got, want) <= (5e-5 if gates == "alike" else 2e-6), name


@needs_triton
@pytest.mark.parametrize(
    ("L", "d", "dtype"), [(130, 64, torch.bfloat16), (20, 64, torch.bfloat16), (130, 32, torch.float16)]
)
@pytest.mark.parametrize("precision", ["highest", "high"])
def test_kernels_in_half_precision(L, d, dtype, precision):
    """For every setting of float32 products: bfloat16 is multiplied as bfloat16, float16 as float32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        found = compare(inputs(L, d, d, dtype), reverse=True)
    finally:
        torch.set_float32_matmul_precision(before)
    assert_close_in_half_precision(found)


@needs_triton
@pytest.mark.parametrize("gates", ["usual", "none"])
def test_roundings_do_not_add_up_over_many_chunks(gates):
    """bfloat16 over ten chunks, also without decay."""
    found = compare([x[:1, :1] for x in inputs(640, 64, 64, torch.bfloat16, gates)])
    assert_close_in_half_precision(found)


@needs_triton
@pytest.mark.parametrize("rate", [-9.75e-4, -2.5e-5])
def test_a_slow_decay_is_not_rounded(rate):
    """The first chunk's writes decay by 0.94 or 0.998 per chunk, and nothing else changes them: rounded to bfloat16,
    these factors would be off by the same amount in each of 16 chunks.
    """
    L, d = 17 * 64, 16
    q, k, v, g, beta = (x[:1, :1] for x in inputs(L, d, d, torch.bfloat16))
    first = torch.arange(d, device=DEVICE) < d // 2
    k = k * torch.where(torch.arange(L, device=DEVICE)[:, None] < 64, first, ~first)
    o, _ = rule(q * first, k, v, torch.full_like(g, rate), beta)
    want = delta_reference.gated_delta(*(x.double() for x in (q * first, k, v, torch.full_like(g, rate), beta)))
    assert relative(o[0, :, :, -64:], want[:, :, -64:]) <= 0.01


def as_in_the_layer(tensors: list[Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """q, k, v as one view of (B, L, 3, H, d), and the gates."""
    return torch.stack([x.transpose(1, 2) for x in tensors[:3]], 2).permute(2, 0, 3, 1, 4), (tensors[3], tensors[4])


@needs_triton
@pytest.mark.parametrize("tangents_as", [as_in_the_layer, lambda x: (torch.stack(x[:3]), tuple(x[3:]))])
def test_kernels_equal_the_plain_form_in_both_directions(tangents_as):
    """With tangents of the inputs' strides, and of others."""
    tensors, results = inputs(100, 16, 16, torch.float32), []
    tangents = directions_of(tensors)
    for backend in ("reference", "triton"):
        qkv, gates = as_in_the_layer(tensors)
        qkv, gates = qkv.requires_grad_(), tuple(x.detach().requires_grad_() for x in gates)
        with force(backend), launched() as calls:
            o, do = gated_delta(qkv, gates, tangents_as(tangents), directions=(False, True))
            results.append([o.detach(), do, *torch.autograd.grad(o.cos().sum(), (qkv, *gates))])
        assert bool(calls) == (backend == "triton")
    for plain, fused in zip(*results, strict=True):
        assert relative(fused, plain.double()) <= 2e-6


@needs_triton
def test_inputs_that_share_memory():
    """The same q, k, v for all sequences, one tensor for all three, overlapping windows; tangents of other strides."""
    torch.manual_seed(0)
    x = F.normalize(torch.randn(3, 2, 2, 40, 16), dim=-1).to(DEVICE)
    windows = x.as_strided((3, 2, 2, 20, 16), (2560, 160, 640, 16, 1))
    for qkv in (x[:, :1, :, :20].expand(3, 2, -1, -1, -1), x[0, :, :, :20].expand(3, -1, -1, -1, -1), windows):
        gates = tuple(inputs(20, 16, 16, torch.float32)[3:])
        tangents = (torch.randn(3, 2, 2, 20, 16, device=DEVICE), tuple(torch.randn_like(x) for x in gates))
        found = []
        for backend in ("reference", "triton"):
            with force(backend):
                found.append(gated_delta(qkv, gates, tangents))
        for plain, fused in zip(*found, strict=True):
            assert relative(fused, plain.double()) <= 2e-6


@needs_triton
def test_what_the_kernels_do_not_take_goes_to_the_plain_form():
    with launched() as calls:
        rule(*inputs(20, 80, 80, torch.float32))
        rule(*inputs(20, 16, 8, torch.float32))
        q, k, v, *gates = inputs(20, 16, 16, torch.float32)
        assert rule(q, k, v.bfloat16(), *gates)[0].dtype == torch.bfloat16
    assert not calls
