"""The delta-rule mixer and maps with it: tangents and gradients against autodiff of the recurrence, in float64."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.func import jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

import dbtm
from dbtm.checkpoint import folder as checkpoint
from dbtm.config import ModelConfig, Shape, override
from dbtm.core.errors import UsageError
from dbtm.kernels import delta_reference
from dbtm.methods.dbtm import QualityConfig, TransportMap
from dbtm.nn import delta as module
from dbtm.nn.delta import DeltaMixer, silu, unit
from dbtm.nn.layers import Attention, ShortConvolution
from dbtm.recipes import recipe
from dbtm.train.loop import fit
from tests.conftest import random_map
from tests.nn.test_tangent import random_state, relative
from tests.train.test_resume import tiny_run


def recurrence(qkv, gates, tangents=None, directions=(False,)):
    """Only the value, position by position: works with any kind of autodiff."""
    return torch.stack([delta_reference.gated_delta(*qkv, *gates, reverse=r) for r in directions]), None


@pytest.fixture
def by_recurrence(monkeypatch):
    """Runs a function with the recurrence in place of the kernel."""

    def run(function, *arguments):
        with monkeypatch.context() as patch, sdpa_kernel(SDPBackend.MATH):
            patch.setattr(module, "gated_delta", recurrence)
            return function(*arguments)

    return run


def random_mixer(width=16, heads=2) -> DeltaMixer:
    torch.manual_seed(0)
    layer = DeltaMixer(width, heads)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return layer


@torch.no_grad()
@pytest.mark.usefixtures("double")
def test_the_mixer_is_its_formula():
    """Convolution, gates, both scans and their scales, position by position and head by head."""
    layer, x, L, H, d = random_mixer(), torch.randn(2, 6, 16), 6, 2, 8
    z, wide = x @ layer.gate.weight.T, x @ layer.qkv.weight.T
    taps = layer.convolution.weight[:, 0]
    mixed = torch.zeros_like(wide)
    for l in range(L):
        for tap, neighbour in enumerate((l - 2, l - 1, l, l + 1)):
            if 0 <= neighbour < L:
                mixed[:, l] += taps[tap] * wide[:, neighbour]
    q, k, v = (mixed * mixed.sigmoid()).view(2, L, 3, H, d).unbind(2)
    q, k = (y / (y.square().sum(-1, keepdim=True) + 1e-6).sqrt() for y in (q, k))
    rate, write = (x @ layer.rates.weight.T).view(2, L, 2, H).unbind(2)
    decay = torch.exp(-layer.decay_scale.exp() * torch.log1p(torch.exp(rate + layer.decay_bias)))
    y = torch.zeros(2, L, H, d)
    for scale, order in zip(layer.scale, (range(L), reversed(range(L))), strict=True):
        S = torch.zeros(2, H, d, d)
        for l in order:
            S = decay[:, l, :, None, None] * S
            error = v[:, l] - torch.einsum("bhk,bhkv->bhv", k[:, l], S)
            S = S + torch.einsum("bhk,bhv->bhkv", k[:, l], write[:, l, :, None].sigmoid() * error)
            o = torch.einsum("bhk,bhkv->bhv", q[:, l], S)
            y[:, l] += scale * o / (o.square().mean(-1, keepdim=True) + 1e-3).sqrt()
    want = (y.flatten(2) * z * z.sigmoid()) @ layer.out.weight.T
    assert relative(layer(x)[0], want) <= 1e-10


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("build", [lambda: silu, lambda: unit, lambda: ShortConvolution(16, 4, 0.5), random_mixer])
@pytest.mark.parametrize("L", [1, 5, 70])
def test_layers(build, L, by_recurrence):
    layer = build()
    torch.manual_seed(1)
    x, dx = torch.randn(2, 2, L, 16)
    y, dy = layer(x, dx)
    want_y, want_dy = by_recurrence(jvp, lambda v: layer(v)[0], (x,), (dx,))
    assert relative(y, want_y) <= 1e-10
    assert relative(dy, want_dy) <= 1e-9
    assert not dy.requires_grad
    value, none = layer(x)
    assert none is None
    assert torch.equal(value, y)


@pytest.mark.usefixtures("double")
def test_gradients_of_the_mixer(by_recurrence):
    layer = random_mixer()
    x = torch.randn(2, 70, 16, requires_grad=True)
    wanted = [x, *layer.parameters()]
    gy = torch.randn(2, 70, 16)
    got = torch.autograd.grad(layer(x, torch.randn_like(x))[0], wanted, gy)
    want = by_recurrence(lambda: torch.autograd.grad(layer(x)[0], wanted, gy))
    for a, b in zip(got, want, strict=True):
        assert relative(a, b) <= 1e-9


def test_gates_at_their_extremes():
    """For large logits too, e^g and beta stay in [0, 1], and value, tangent and gradients are finite."""
    layer = random_mixer()
    for size in (1e2, 1e4):
        x = (size * torch.randn(2, 70, 16)).requires_grad_()
        (g, beta), _ = layer.gates(x, None)
        assert (g <= 0).all()
        assert ((beta >= 0) & (beta <= 1)).all()
        y, dy = layer(x, torch.randn_like(x))
        assert y.isfinite().all()
        assert dy.isfinite().all()
        assert all(t.isfinite().all() for t in torch.autograd.grad(y.sum(), [x, *layer.parameters()]))


@pytest.mark.parametrize("seed", range(8))
def test_half_precision(seed):
    """At initialization, where the memory is near zero at the first positions of a scan."""
    torch.manual_seed(seed)
    layer = DeltaMixer(128, 2)
    x, dx = torch.randn(2, 2, 130, 128).bfloat16()
    y, dy = layer(x, dx)
    assert y.dtype == dy.dtype == torch.bfloat16
    want, dwant = layer.double()(x.double(), dx.double())
    for a, b in ((y, want), (dy, dwant)):
        assert F.cosine_similarity(a.double().flatten(), b.flatten(), dim=0) >= 0.9999


@pytest.mark.usefixtures("double")
def test_every_position_reads_every_other_and_knows_its_side():
    layer = random_mixer()
    x = torch.randn(1, 9, 16)
    jacobian = torch.autograd.functional.jacobian(lambda v: layer(v)[0], x).abs().sum((0, 2, 3, 5))
    assert (jacobian > 1e-8).all()
    assert relative(layer(x.flip(1))[0].flip(1), layer(x)[0]) > 0.1, "backwards equals forwards"


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(
    "changes",
    [{"pattern": "gdn,attn"}, {"pattern": "gdn", "loops": 2, "input_norm": True}, {"depth": 5, "dropout": 0.3}],
)
def test_whole_map(changes, by_recurrence):
    """Value and tangent of the logits for a state with prompts and context, in training mode if there is dropout."""
    model = random_map(**{"backbone": "delta", "dropout": 0.0, **changes}).train()
    state = random_state()
    h, dh = model.embed(state)
    torch.manual_seed(7)
    z, dz = model.logits(h, dh)

    def value(x):
        torch.manual_seed(7)  # the same dropout mask
        return model.logits(model.embed_dense(x)[0])[0]

    want_z, want_dz = by_recurrence(jvp, value, (state.dense(),), (state.velocity(),))
    assert relative(z, want_z) <= 1e-10
    assert relative(dz, want_dz) <= 1e-9


def test_training_and_the_checkpoint(tmp_path):
    """A run with every loss, stopped and resumed, loads as the trained map, and samples."""
    config = override(tiny_run(), ["model.backbone=delta", "model.pattern=gdn,attn", "method.distill.start=1"])
    for resume in (False, True):  # one step each: in the first, the zero head blocks all gradients of the blocks
        folder = fit(config, tmp_path / "run", resume, max_seconds=0)
    sampler = dbtm.load(folder)
    assert sampler.network.config == config.model
    weights = checkpoint.read_tensors(folder, "ema")
    assert any("convolution" in name for name in weights)
    assert all(torch.equal(weights[name], value.cpu()) for name, value in sampler.network.state_dict().items())
    start = DeltaMixer(16, 2)  # untrained: all scales are 1
    assert not torch.equal(weights["trunk.blocks.0.attention.scale"], start.scale.detach()), "the mixer was trained"
    assert sampler.sample(3, nfe=2).tokens.shape == (3, 6)


def test_parameters_match_the_paper():
    """171.9M with attention, 177.5M with the delta rule (app:language-exp-details): 5.6M more in nine blocks."""
    sizes = {}
    for backbone in ("attention", "delta"):
        with torch.device("meta"):
            model = TransportMap(Shape(50257, 1024), ModelConfig(backbone=backbone), QualityConfig())
        sizes[backbone] = sum(p.numel() for p in model.parameters()) / 1e6
    assert abs(sizes["delta"] - sizes["attention"] - (177.5 - 171.9)) <= 0.1
    assert abs(sizes["delta"] / 177.5 - 1) <= 0.002


def test_patterns():
    config = ModelConfig(width=16, heads=2, depth=6, backbone="delta")
    assert config.mixers == ("gdn", "gdn", "gdn", "attn", "gdn", "gdn")
    assert replace(config, pattern="attn,gdn").mixers == ("attn", "gdn") * 3
    assert replace(config, backbone="attention").mixers == ("attn",) * 6
    kinds = {"gdn": DeltaMixer, "attn": Attention}
    blocks = TransportMap(Shape(7, 9), config).trunk.blocks
    assert [type(block.attention) for block in blocks] == [kinds[kind] for kind in config.mixers]
    for wrong in ("", "gdn,lstm", "gdn attn"):
        with pytest.raises(UsageError, match=r"model\.pattern"):
            replace(config, pattern=wrong)
    assert replace(config, depth=3).mixers == ("gdn",) * 3  # the default is cut off
    with pytest.raises(UsageError, match=r"longer than the map, model\.depth=2"):
        replace(config, depth=2, pattern="gdn,gdn,attn")
    with pytest.raises(UsageError, match=r"model\.backbone=delta too"):
        replace(config, backbone="attention", pattern="gdn,attn")


@pytest.mark.parametrize("name", ["simplex", "markov", "sudoku-mini"])
def test_other_tasks_have_it_too(tmp_path, name):
    sizes = ["model.width=16", "model.depth=2", "model.heads=2", "train.steps=1", "train.batch=4", "optim.warmup=1"]
    quick = ["train.device=cpu", "train.compile=false", "train.evaluate_every=0"]
    quick += ["task.pool=20"] if name == "sudoku-mini" else []
    config = override(recipe(name), ["model.backbone=delta", "model.pattern=gdn,attn", *sizes, *quick])
    sampler = dbtm.load(fit(config, tmp_path / "run"))
    assert sampler.network.config.mixers == ("gdn", "attn")
    assert sampler.sample(2, nfe=2).tokens.shape == (2, config.task.length)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_asking_for_a_tangent_changes_no_gradient(dtype):
    """In bfloat16 too, where the value is rounded: a rounding under no_grad would cut off the gradient."""
    layer = random_mixer()
    x = torch.randn(2, 20, 16, dtype=dtype)
    grads = []
    for dx in (None, torch.randn_like(x)):
        loss = layer(x, dx)[0].float().square().sum()
        grads.append(torch.autograd.grad(loss, list(layer.parameters())))
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))
