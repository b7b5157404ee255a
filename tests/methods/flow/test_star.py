"""The analogue of FMLM*: self-conditioning, the iterated teacher, and the student without self-conditioning."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from dbtm.checkpoint import folder as checkpoint
from dbtm.core.errors import UsageError
from dbtm.evals.training_cost import Pass, count_passes
from dbtm.methods.base import backward
from dbtm.methods.flow import fmlm
from dbtm.methods.flow.pairs import Pairs
from dbtm.methods.flow.readout import Readout
from dbtm.methods.flow.star import FMLMStar
from dbtm.recipes import recipe
from dbtm.train.loop import Trainer, fit
from tests.methods.flow.exact import Exact, denoiser, two_time
from tests.methods.flow.test_fmlm import run
from tests.methods.reference import ALL, L, V, examples, run_of
from tests.methods.test_denominator import batch, method_of


def at(*t):
    return torch.tensor(t, dtype=torch.float64)


@pytest.mark.usefixtures("double")
def test_the_slot_holds_the_mean_of_its_table_and_the_gradient_reaches_the_table_alone():
    method = method_of("flm-self")
    network, readout = method.network, Readout(method.network, 2.0)
    trunk = torch.randn(3, 5, 8, requires_grad=True)
    got, weight = readout.recalled(trunk), torch.randn(3, 5, 8)
    p = (2 * torch.tanh(network.head(trunk)[0] / 2)).softmax(-1).detach()
    torch.testing.assert_close(got, p @ network.recall)
    want = torch.autograd.grad((weight * (p @ network.recall)).sum(), network.recall)[0]
    (weight * got).sum().backward()
    torch.testing.assert_close(network.recall.grad, want)
    assert trunk.grad is None
    assert network.head.weight.grad is None


@pytest.mark.usefixtures("double")
def test_every_second_row_reads_a_first_prediction():
    method, whole = method_of("flm-self"), batch()
    tau, h = method.times(whole), torch.randn(6, 5, 8)
    change = method.conditioned(h, tau, whole) - h
    assert change[::2].abs().max() == 0
    first = method.network.hidden(h, times=(tau,))[0]
    want = Readout(method.network, method.settings.logit_cap).recalled(first)
    torch.testing.assert_close(change[1::2], want[1::2])
    backward(method, whole)
    assert method.network.recall.grad.abs().max() > 0


def test_an_untrained_slot_changes_nothing():
    method = replace_table(method_of("flm-self"), 0.0)
    h = torch.randn(6, 5, 8)
    assert torch.equal(method.conditioned(h, method.times(batch()).float(), batch()), h)


def replace_table(method, value):
    method.network.float()
    with torch.no_grad():
        method.network.recall.fill_(value)
    return method


def test_a_sampler_hands_its_prediction_to_the_next_step(monkeypatch):
    method = method_of("flm-self")
    network, seen = method.network.float().eval(), []
    plain = network.hidden
    monkeypatch.setattr(network, "hidden", lambda h, **more: (seen.append(h), plain(h, **more))[1])
    with torch.no_grad():
        method.sampler(network).sample(2, nfe=2)
        with_slot = seen[1]
        table, network.recall = network.recall, torch.nn.Parameter(torch.zeros_like(network.recall))
        seen.clear()
        method.sampler(network).sample(2, nfe=2)
        network.recall = table
        p = (30 * torch.tanh(network.head(plain(seen[0], times=(torch.zeros(2),))[0])[0] / 30)).softmax(-1)
    torch.testing.assert_close(with_slot - seen[1], p @ table, atol=1e-5, rtol=1e-4)


class Contraction(Exact):
    """A teacher with logits c + A D for its last prediction D: D -> softmax(c + A D) converges to one fixed point."""

    def __init__(self, c, factor):
        super().__init__(None, learn=False)
        self.c, self.recall, self.factor = c, torch.eye(V, dtype=torch.float64), factor

    def hidden(self, h, times=(), **_):
        self.calls += 1
        return self.c + self.factor * h, None


def test_the_teacher_approaches_the_fixed_point_of_its_slot():
    method = run_of(FMLMStar, logit_cap=0, iterations=4)
    c, factor = torch.tensor([0.3, -0.2, 0.9], dtype=torch.float64), 0.4
    teacher = method.frozen["teacher"] = Contraction(c, factor)
    teacher.embed = lambda state, noise=None: (torch.zeros(1, L, V, dtype=torch.float64), None)
    state = SimpleNamespace(rows=lambda rows: None)
    p = method.taught(state, Pairs(at(0.5), at(0.5), slice(0, None), slice(0, 0)))(torch.arange(L))
    solution = torch.full((V,), 1 / V, dtype=torch.float64)
    for _ in range(200):
        solution = (c + factor * solution).softmax(-1)
    start = (solution - c.softmax(-1)).abs().max()
    assert teacher.calls == 5
    assert (p - solution).abs().max() <= start * factor**4
    assert start > 1e-3


def test_no_gradient_at_the_exact_map_taught_by_an_exact_denoiser_that_ignores_its_slot(monkeypatch):
    method = run_of(FMLMStar, logit_cap=0)
    method.network = Exact(lambda x, s, t: two_time(x, method.clock.t(s), method.clock.t(t), steps=1_000), rows=2)
    teacher = method.frozen["teacher"] = Exact(lambda x, tau: denoiser(x, method.clock.t(tau)), learn=False)
    teacher.recall = torch.zeros(V, V, dtype=torch.float64)
    pairs = Pairs(at(0.7, 0.1), at(0.7, 0.6), slice(0, 1), slice(1, None))
    monkeypatch.setattr(fmlm, "draw_pairs", lambda *_: pairs)
    (part,) = method.parts(examples(ALL[[1, 4]]))
    part.loss.backward()
    assert method.network.free.grad.abs().max() < 1e-9
    assert teacher.calls == 4


def test_the_student_has_no_slot_and_starts_from_the_teacher(tmp_path):
    teacher = fit(run("flm-self"), tmp_path / "teacher")
    trainer = Trainer(run("fmlm-star", teacher), tmp_path / "student")
    weights = checkpoint.read_tensors(teacher, "ema")
    assert "recall" in weights
    assert "recall" not in trainer.model.state_dict()
    assert torch.equal(trainer.model.state_dict()["head.weight"], weights["head.weight"])
    assert torch.equal(trainer.method.frozen["teacher"].state_dict()["recall"], weights["recall"])
    plain = fit(run("flm"), tmp_path / "plain")
    with pytest.raises(UsageError, match="needs a teacher trained by 'flm-self'"):
        Trainer(run("fmlm-star", plain), tmp_path / "wrong")
    wrong = run("fmlm-star", teacher)
    with pytest.raises(UsageError, match=r"method.iterations"):
        replace(wrong, method=replace(wrong.method, iterations=0))


def test_costs():
    assert count_passes(recipe("markov").by("flm-self")) == {
        Pass("map", gradient=True): 64,
        Pass("map", gradient=False): 32,
    }
    star = count_passes(recipe("markov").by("fmlm-star"))
    assert star == {Pass("map", gradient=True): 64, Pass("map", gradient=False): 64 + 4 * 32}
