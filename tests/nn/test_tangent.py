"""Every layer's tangent, and the whole map's, against torch.func.jvp in float64 (relative error <= 1e-9)."""

import pytest
import torch
import torch.nn.functional as F
from torch.func import jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from dbtm.nn.dit import DiT, Head
from dbtm.nn.layers import (
    Attention,
    Dropout,
    FeedForward,
    LayerNorm,
    Linear,
    ShortConvolution,
    gelu,
    rms_norm,
    rotary_angles,
)
from dbtm.simplex.interpolant import State, interpolate
from tests.conftest import random_map

pytestmark = pytest.mark.usefixtures("double")


def relative(got, want) -> float:
    return ((got - want).norm() / want.norm()).item()


def forward_mode(function, x, dx):
    """torch.func.jvp, with the attention backend that supports forward mode."""
    with sdpa_kernel(SDPBackend.MATH):
        return jvp(function, (x,), (dx,))


def check(layer, x, dx, tolerance=1e-9):
    """layer(x, dx) against forward-mode autodiff of its value."""
    y, dy = layer(x, dx)
    want_y, want_dy = forward_mode(lambda v: layer(v)[0], x, dx)
    assert relative(y, want_y) <= tolerance
    assert relative(dy, want_dy) <= tolerance
    assert not dy.requires_grad
    assert layer(x)[1] is None


@pytest.mark.parametrize(
    "build",
    [
        lambda: Linear(16, 24),
        lambda: Linear(16, 24, bias=True),
        lambda: LayerNorm(16),
        lambda: rms_norm,
        lambda: gelu,
        lambda: FeedForward(16, 4),
        lambda: Head(16, 11),
        lambda: Dropout(0.5).eval(),
    ],
)
def test_layers(build):
    torch.manual_seed(0)
    layer = build()
    if isinstance(layer, torch.nn.Module):
        for p in layer.parameters():
            torch.nn.init.normal_(p)
    check(layer, torch.randn(2, 5, 16), torch.randn(2, 5, 16))


@pytest.mark.parametrize("softcap", [0.0, 2.0])
@pytest.mark.parametrize("rotary", [False, True])
def test_attention(softcap, rotary):
    torch.manual_seed(1)
    layer = Attention(16, 2, softcap)
    torch.nn.init.normal_(layer.qkv.weight)
    angles = rotary_angles(5, 8, torch.device("cpu"), torch.float64) if rotary else None
    check(lambda x, dx=None: layer(x, dx, angles), torch.randn(2, 5, 16), torch.randn(2, 5, 16))


@pytest.mark.parametrize("mixer", ["attn", "gdn"])
def test_constants_around_a_branch_are_folded_into_its_matrices(mixer):
    """A block against its definition: x + gate * branch(w norm(x) (1 + scale) + shift), both branches; and folded."""
    torch.manual_seed(2)
    trunk = DiT(16, 1, 2, cond_dim=3, gate_init=0.5, mixers=(mixer,))
    (block,) = trunk.blocks
    with torch.no_grad():
        for parameter in block.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = block.modulation(trunk.constant).chunk(6)
    x = torch.randn(2, 5, 16)

    def branch(layer, x, shift, scale, gate, norm):
        normed = torch.nn.functional.layer_norm(x, (16,), norm.weight)
        return x + (0.5 + gate) * layer(normed * (1 + scale) + shift)[0]

    want = branch(block.attention, x, shift_1, scale_1, gate_1, block.norm_1)
    want = branch(block.feed_forward, want, shift_2, scale_2, gate_2, block.norm_2)
    got, _ = block(x, None, trunk.constant, None, x.dtype)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    leaves = list(block.parameters())
    pairs = (torch.autograd.grad(y.square().sum(), leaves, allow_unused=True) for y in (got, want))
    for g, w in zip(*pairs, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-9, atol=1e-11)
    if mixer == "attn":  # torch.func.jvp does not support the other mixer
        check(lambda x, dx=None: block(x, dx, trunk.constant, None, x.dtype), x, torch.randn(2, 5, 16))
    with torch.no_grad():
        block.keep_folded(trunk.constant, x.dtype)
        torch.testing.assert_close(block(x, None, trunk.constant, None, x.dtype)[0], want, rtol=1e-12, atol=1e-12)


def test_dropout_uses_one_mask():
    torch.manual_seed(3)
    layer = Dropout(0.4).train()
    x = torch.randn(4, 100)
    y, dy = layer(x, 3 * x)
    assert torch.equal(dy, 3 * y) or relative(dy, 3 * y) < 1e-15
    assert 0.2 < (y == 0).double().mean() < 0.6
    torch.testing.assert_close(y[y != 0], x[y != 0] / 0.6)


@pytest.mark.parametrize("taps", [1, 4, 5])
def test_short_convolution_against_torchs(taps):
    """One filter per channel, centred on the position itself; without noise it is the identity."""
    layer, x = ShortConvolution(6, taps, 0.3, own=1.0), torch.randn(2, 9, 6)
    padded = F.pad(x.mT, (taps // 2, (taps - 1) // 2))
    want = F.conv1d(padded, layer.weight.permute(2, 1, 0), groups=6).mT
    assert relative(layer(x)[0], want) <= 1e-12
    assert torch.equal(ShortConvolution(6, taps, 0.0, own=1.0)(x)[0], x)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"softcap": 1.5},
        {"softcap": 0.0, "loops": 3},
        {"input_norm": True, "position_axes": (9, 4)},
        {"dropout": 0.3},
        {"conv_width": 5, "softcap": 0.0},
    ],
)
def test_whole_map(changes):
    """Value and tangent of the logits for a state with prompts and context, in training mode if there is dropout."""
    model = random_map(**{"dropout": 0.0, **changes})
    if model.position_ids.numel():
        model.position_ids.copy_(torch.randint(0, 4, model.position_ids.shape))
    model.train()
    state = random_state()
    x, dx = state.dense(), state.velocity()
    h, dh = model.embed(state)
    torch.manual_seed(7)
    z, dz = model.logits(h, dh)

    def value(x):
        torch.manual_seed(7)  # the same dropout mask
        return model.logits(model.embed_dense(x)[0])[0]

    want_z, want_dz = forward_mode(value, x, dx)
    assert relative(z, want_z) <= 1e-12
    assert relative(dz, want_dz) <= 1e-9


def random_state(B=3, L=9, V=7) -> State:
    torch.manual_seed(5)
    tokens, noise = torch.randint(0, V, (B, L)), torch.randn(B, L, V)
    clean = torch.rand(B, L) < 0.4
    clean[:, :2] = True  # a prompt
    return interpolate(tokens, noise, clean, torch.rand(B, 1).expand(B, L), a=2.0)


def test_state_in_parts_equals_dense_path():
    model = random_map(dropout=0.0)
    state = random_state()
    parts = model.logits(*model.embed(state))
    dense = model.logits(*model.embed_dense(state.dense(), state.velocity()))
    assert relative(parts[0], dense[0]) <= 1e-12
    assert relative(parts[1], dense[1]) <= 1e-12
    assert torch.equal(model.embed(state)[0][state.clean], model.embedding[state.tokens[state.clean]])


@pytest.mark.parametrize(
    "changes",
    [{}, {"dropout": 0.3}, {"backbone": "delta", "dropout": 0.3}, {"loops": 2, "input_norm": True}, {"conv_width": 3}],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_asking_for_a_tangent_changes_no_gradient(changes, dtype):
    """With a tangent, parameters still receive the gradient of the value only, in any dtype."""
    model, state = random_map(**{"dropout": 0.0, "quality": None, **changes}).train(), random_state()
    model.compute_dtype = dtype
    gradients = []
    for rate in (state.rate, None):
        model.zero_grad()
        torch.manual_seed(7)  # the same dropout mask
        logits, _ = model.logits(*model.embed(State(state.tokens, state.alpha, state.noise, rate)))
        logits.square().sum().backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    for with_tangent, without in zip(*gradients, strict=True):
        assert torch.equal(with_tangent, without)
