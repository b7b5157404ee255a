import pytest
import torch

from dbtm.config import OptimConfig
from dbtm.recipes import recipe
from dbtm.train.ema import EMA
from dbtm.train.optim import build_optimizers, load_state_tensors, schedule, set_learning_rate, state_tensors
from tests.conftest import random_map


def test_schedules():
    config = OptimConfig(warmup=10, schedule="constant")
    assert [schedule(s, 100, config) for s in (0, 4, 9, 50, 99)] == pytest.approx([0.1, 0.5, 1, 1, 1])
    config = OptimConfig(warmup=10, schedule="wsd", decay_fraction=0.4)
    assert [schedule(s, 100, config) for s in (30, 60, 80, 99)] == pytest.approx([1, 1, 0.5, 1 / 40])


def test_warm_up_is_linear_and_then_the_rate_is_constant():
    """tab:hyperparameters, "constant LR with linear warmup", for the steps of each of the paper's recipes."""
    for name, warmup in (("lm1b", 10_000), ("owt", 10_000), ("sudoku-paper", 30_000), ("tinygsm", 50_000)):
        run = recipe(name)
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=run.optim.lr)
        optimizer.param_groups[0]["peak_lr"] = run.optim.lr
        rates = []
        for step in (0, warmup // 2 - 1, warmup - 1, warmup, run.train.steps - 1):
            set_learning_rate([optimizer], schedule(step, run.train.steps, run.optim))
            rates.append(optimizer.param_groups[0]["lr"])
        assert rates == pytest.approx([3e-4 / warmup, 1.5e-4, 3e-4, 3e-4, 3e-4], rel=1e-12)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_adamw_is_the_recursion(decay):
    """m, v, their bias corrections and decoupled weight decay, written out for every parameter and four steps."""
    config = OptimConfig(lr=1e-2, betas=(0.8, 0.95), eps=1e-4, weight_decay=decay)
    model = random_map().double()
    (optimizer,) = build_optimizers(model, config, fused=False)
    want = {name: p.detach().clone() for name, p in model.named_parameters()}
    m, v = ({name: torch.zeros_like(p) for name, p in want.items()} for _ in range(2))
    for t in range(1, 5):
        for name, parameter in model.named_parameters():
            torch.manual_seed(t)
            g = torch.randn_like(parameter)
            parameter.grad = g.clone()
            m[name] = 0.8 * m[name] + 0.2 * g
            v[name] = 0.95 * v[name] + 0.05 * g**2
            direction = (m[name] / (1 - 0.8**t)) / ((v[name] / (1 - 0.95**t)).sqrt() + 1e-4)
            want[name] = want[name] - 1e-2 * decay * want[name] - 1e-2 * direction
        optimizer.step()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.detach(), want[name], rtol=1e-10, atol=1e-12, msg=name)


def test_muon_takes_the_block_matrices_only():
    model = random_map()
    adam, muon = build_optimizers(model, OptimConfig(name="muon"), fused=False)
    names = {id(p): n for n, p in model.named_parameters()}
    matrices = {names[id(p)] for g in muon.param_groups for p in g["params"]}
    rest = {names[id(p)] for g in adam.param_groups for p in g["params"]}
    assert "trunk.blocks.0.attention.qkv.weight" in matrices
    assert {"embedding", "head.weight", "trunk.blocks.0.modulation.weight", "trunk.constant"} <= rest
    assert matrices | rest == set(names.values())
    assert not matrices & rest


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_optimizer_state_round_trip(name):
    def fresh():
        model = random_map(quality=None)
        return model, build_optimizers(model, OptimConfig(name=name), fused=False)

    def steps(model, optimizers, n):
        for i in range(n):
            torch.manual_seed(i)
            loss = sum((p * torch.randn_like(p)).sum() for p in model.parameters())
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()

    model, optimizers = fresh()
    steps(model, optimizers, 3)
    saved, weights = state_tensors(optimizers, model), {k: v.clone() for k, v in model.state_dict().items()}
    saved = {k: v.clone() for k, v in saved.items()}
    steps(model, optimizers, 2)
    other, other_optimizers = fresh()
    other.load_state_dict(weights)
    load_state_tensors(other_optimizers, other, saved)
    steps(other, other_optimizers, 2)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_learning_rate_is_a_factor_of_the_peak():
    optimizers = build_optimizers(random_map(), OptimConfig(name="muon", lr=1e-3, muon_lr=0.02), fused=False)
    set_learning_rate(optimizers, 0.5)
    set_learning_rate(optimizers, 0.25)
    assert [g["lr"] for o in optimizers for g in o.param_groups] == pytest.approx([2.5e-4, 5e-3])


@pytest.mark.parametrize("warmup", [True, False])
def test_ema_is_the_recursion(warmup):
    """For every parameter of the map and the quality head."""
    model = random_map()
    ema = EMA(model, 0.9, warmup)
    want = {name: p.detach().clone() for name, p in model.named_parameters()}
    for step in range(1, 30):
        with torch.no_grad():
            for i, p in enumerate(model.parameters()):
                p += 1.0 + i
        ema.update(model, step)
        decay = min(0.9, (1 + step) / (10 + step)) if warmup else 0.9
        want = {name: decay * want[name] + (1 - decay) * p.detach() for name, p in model.named_parameters()}
    assert any(name.startswith("quality.") for name in want)
    for name, average in ema.model.named_parameters():
        torch.testing.assert_close(average, want[name], msg=name)
