"""FMLM on the reference problem: zero gradient at the exact map, its sampler's distribution, its teacher."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dbtm.checkpoint import folder as checkpoint
from dbtm.config import ModelConfig, RunConfig, TrainConfig, override
from dbtm.core.errors import UsageError
from dbtm.core.registry import METHODS
from dbtm.evals.training_cost import Pass, count_passes
from dbtm.methods.flow import fmlm
from dbtm.methods.flow.fmlm import FMLM
from dbtm.methods.flow.pairs import Pairs
from dbtm.recipes import recipe
from dbtm.tasks.toy import Markov
from dbtm.train.loop import Trainer, fit
from tests.methods.flow.exact import Exact, denoiser, two_time
from tests.methods.reference import ALL, SECOND, P, V, chi_square, examples, run_of, sampled

N = 5_000


def at(*t):
    return torch.tensor(t, dtype=torch.float64)


def exact(method, steps=40, clean=None, **more) -> Exact:
    def p(x, s, t):
        return two_time(x, method.clock.t(s), method.clock.t(t), clean, steps)

    return Exact(p, **more)


def test_no_gradient_at_the_exact_map_taught_by_the_exact_denoiser(monkeypatch):
    """Row by row, on the diagonal and off it; the clock's middle differs from the linear middle."""
    method = run_of(FMLM, logit_cap=0)
    method.network = exact(method, steps=1_000, rows=3)
    method.frozen["teacher"] = Exact(lambda x, tau: denoiser(x, method.clock.t(tau)), learn=False)
    pairs = Pairs(at(0.7, 0.1, 0.0), at(0.7, 0.6, 0.8), slice(0, 1), slice(1, None))
    monkeypatch.setattr(fmlm, "draw_pairs", lambda *_: pairs)
    (part,) = method.parts(examples(ALL[[1, 4, 8]]))
    part.loss.backward()
    assert method.network.free.grad.abs().max() < 1e-9
    method.frozen["teacher"] = Exact(lambda x, tau: denoiser(x, method.clock.t(tau) * 0.9), learn=False)
    method.network.zero_grad()
    next(method.parts(examples(ALL[[1, 4, 8]]))).loss.backward()
    assert method.network.free.grad[0].abs().max() > 1e-3  # the test would notice


@pytest.mark.parametrize("options", [{"nfe": 1}, {"nfe": 3}, {"nfe": 2, "churn": 1.0}])
def test_with_the_exact_map_every_number_of_steps_gives_the_law(options):
    method = run_of(FMLM, logit_cap=0)
    trace = sampled(method, exact(method, learn=False), N, **options)
    assert (trace.nfe == options["nfe"]).all()
    assert len(trace.rounds) == options["nfe"]
    assert chi_square(trace.tokens, P) > 1e-4


@pytest.mark.parametrize("form", ["published", "exact"])
def test_some_churn_leaves_the_law(form):
    method = run_of(FMLM, logit_cap=0)
    trace = sampled(method, exact(method, learn=False), N, nfe=3, churn=0.6, churn_form=form)
    frequencies = np.bincount(trace.tokens[:, 0] * V + trace.tokens[:, 1], minlength=9) / N
    assert 0.5 * np.abs(frequencies - P.flatten().numpy()).sum() < 0.02


def test_churn_draws_new_noise():
    method = run_of(FMLM, logit_cap=0)
    one, all_new = (sampled(method, exact(method, learn=False), 200, nfe=2, churn=c).tokens for c in (0.0, 1.0))
    assert (one != all_new).any(1).mean() > 0.1


def test_given_tokens_stay_and_the_rest_follows_them():
    method, clean = run_of(FMLM, logit_cap=0), torch.tensor([[False, True]]).expand(N, 2)
    network = exact(method, clean=clean, learn=False)
    trace = sampled(method, network, N, tokens=torch.full((N, 2), 1), clean=clean, nfe=2)
    assert (trace.tokens[:, 1] == 1).all()
    first = np.bincount(trace.tokens[:, 0], minlength=V) / N
    np.testing.assert_allclose(first, P[:, 1] / SECOND[1], atol=0.02)


# -- the teacher -------------------------------------------------------------------------------------------------------


def run(method, folder="", **settings):
    cls = METHODS.get(method)
    return RunConfig(
        recipe="test",
        task=Markov(vocab=4, length=5),
        model=ModelConfig(width=16, depth=1, heads=2, dropout=0.1),
        method=cls.Config(**settings),
        sample=cls.Options(),
        train=TrainConfig(steps=6, batch=8, micro_batch=4, checkpoint_every=3, device="cpu", init=str(folder)),
        optim=replace(recipe("markov").optim, warmup=1),
    )


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    return fit(run("flm"), tmp_path_factory.mktemp("flm"))


def test_the_teacher_is_frozen_and_the_student_starts_as_it(teacher, tmp_path):
    trainer = Trainer(run("fmlm", teacher), tmp_path)
    weights = checkpoint.read_tensors(teacher, "ema")
    frozen = trainer.method.frozen["teacher"]
    student = trainer.model.state_dict()
    for name, value in weights.items():
        assert torch.equal(frozen.state_dict()[name], value)
        assert torch.equal(student[name], value)
    assert not any(p.requires_grad for p in frozen.parameters())
    assert torch.equal(trainer.ema.model.state_dict()["head.weight"], weights["head.weight"])
    h, t = torch.randn(2, 5, 16), torch.tensor([0.2, 0.9])
    trainer.model.eval()
    torch.testing.assert_close(trainer.model.hidden(h, times=(t, t))[0], frozen.hidden(h, times=(t,))[0])
    fresh = Trainer(run("fmlm", teacher, student="random"), tmp_path / "random")
    assert not torch.equal(fresh.model.state_dict()["embedding"], weights["embedding"])


def test_a_killed_run_goes_on_bit_for_bit(teacher, tmp_path):
    whole = fit(run("fmlm", teacher), tmp_path / "whole")
    half = run("fmlm", teacher)
    fit(replace(half, train=replace(half.train, steps=3)), tmp_path / "half")
    resumed = fit(run("fmlm", teacher), tmp_path / "half", resume=True)
    for name in ("model", "ema", "optim", "teacher"):
        for key, value in checkpoint.read_tensors(whole, name).items():
            assert torch.equal(checkpoint.read_tensors(resumed, name)[key], value), (name, key)


def test_a_missing_or_wrong_teacher_is_one_line(teacher, tmp_path):
    with pytest.raises(UsageError, match="'fmlm' needs a trained teacher"):
        Trainer(run("fmlm"), tmp_path / "a")
    other = fit(run("mdlm"), tmp_path / "mdlm")
    with pytest.raises(UsageError, match="needs a teacher trained by 'flm': the checkpoint is of 'mdlm'"):
        Trainer(run("fmlm", other), tmp_path / "b")
    with pytest.raises(UsageError, match=r"the teacher was trained with method.logit_cap=30.0"):
        Trainer(run("fmlm", teacher, logit_cap=0.0), tmp_path / "c")
    wide = run("fmlm", teacher)
    with pytest.raises(UsageError, match=r"another model.width"):
        Trainer(replace(wide, model=replace(wide.model, width=32)), tmp_path / "d")


def test_without_a_teacher_the_data_teaches(tmp_path):
    folder = fit(run("fmlm", diagonal="data"), tmp_path)
    assert "teacher.safetensors" not in {p.name for p in folder.iterdir()}


def test_a_step_costs_four_and_a_half_forward_passes():
    config = recipe("markov").by("fmlm")
    assert count_passes(config) == {Pass("map", gradient=True): 64, Pass("map", gradient=False): 64 + 32}
    alone = override(config, ["method.diagonal=data"])
    assert count_passes(alone)[Pass("map", gradient=False)] == 64
