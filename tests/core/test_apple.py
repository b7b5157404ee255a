"""Training, sampling and evaluation on a stand-in for Apple's GPU, which has no float64 (`tests.core.apple`)."""

import sys

import numpy as np
import pytest
import torch

from dbtm.checkpoint.loading import load
from dbtm.core.errors import UsageError
from dbtm.core.registry import METHODS
from dbtm.evals.likelihood import likelihoods
from dbtm.methods import BUILT_IN
from dbtm.nn.layers import rotary_angles
from dbtm.service.evaluation.own_rows import OwnEvaluationRequest, evaluate_own
from dbtm.service.training import TrainRequest, train
from dbtm.service.tuning import tune
from tests.core.apple import apple_gpu
from tests.service.conftest import TINY

ON_MPS = (*TINY, "train.device=mps", "train.steps=2", "train.checkpoint_every=2")
CHANGES = dict.fromkeys(("mdlm-sdtt", "duo-dcd"), ("method.rounds=3", "method.round_steps=1"))
CHANGES |= dict.fromkeys(("mdlm-di4c", "duo-di4c"), ("method.latents=3", "method.small_share=0.5"))
WITHOUT = {"s-flm", "cfm"}  # the first refuses the device; PyTorch's forward mode (cfm) crashes on the stand-in

pytestmark = pytest.mark.filterwarnings("ignore:.*meta:UserWarning")


@pytest.fixture
def apple(monkeypatch):
    monkeypatch.setattr("dbtm.evals.quick.SAMPLES", 20)
    monkeypatch.setattr("dbtm.tasks.toy._independent_bound", lambda *_: 0.0)  # slow, and not on the device
    with apple_gpu(monkeypatch):
        yield torch.device("mps")


# -- the stand-in ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x.double(),
        lambda x: torch.zeros(2, dtype=torch.float64, device=x.device),
        lambda x: torch.zeros_like(x, dtype=torch.float64),
        lambda x: x.sum(dtype=torch.float64),
        lambda x: x.cpu().double().to("mps"),
        lambda x: torch.from_numpy(np.ones(2)).to(x.device),
    ],
)
def test_the_stand_in_has_no_float64(apple, wrong):
    with pytest.raises(AssertionError, match="float64"):
        wrong(torch.ones(2, device=apple))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x + torch.ones(2),
        lambda x: x + torch.ones((), dtype=torch.float64),
        lambda x: x.gather(-1, torch.zeros(2, dtype=torch.int64)),
        lambda x: torch.stack((x, torch.ones(2))),
    ],
)
def test_the_stand_in_refuses_operands_on_two_devices(apple, wrong):
    with pytest.raises(AssertionError, match="on mps and on the CPU"):
        wrong(torch.ones(2, device=apple))


def test_the_stand_in_refuses_a_copy_that_does_not_wait(apple):
    with pytest.raises(AssertionError, match="reads its source"):
        torch.ones(2).to(apple, non_blocking=True)


def test_the_stand_in_computes(apple):
    layer = torch.nn.Linear(3, 2).to("mps")
    layer(torch.ones(4, 3, device="mps")).sum().backward()
    assert layer.weight.grad.device == apple
    assert layer.weight.grad.tolist() == [[4.0] * 3] * 2
    with pytest.raises(TypeError):
        layer.weight.detach().numpy()


# -- the package on it -------------------------------------------------------------------------------------------------


def test_rotary_angles(apple):
    cos, _ = rotary_angles(4, 8, apple, torch.float32)
    assert cos.device == apple
    assert torch.equal(cos.cpu(), rotary_angles(4, 8, torch.device("cpu"), torch.float32)[0])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The run of a method on the Markov chain with its quick evaluation, created on request."""
    made = {}

    def of(method):
        if method not in made:
            teacher = METHODS.get(method).teacher
            out, init = tmp_path_factory.mktemp(method), of(teacher) if teacher else None
            changes = (*ON_MPS, *CHANGES.get(method, ()))
            made[method] = train(TrainRequest("markov", method, changes, out=out, init=init))
        return made[method]

    return of


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name not in WITHOUT])
def test_a_method_trains_and_samples(name, runs, apple):
    """At temperature 0 most tokens equal those of the same weights on the CPU; mps has float32 uniform numbers."""
    run = runs(name)
    there, here = load(run, "mps"), load(run, "cpu")
    assert (there.device, here.device) == (apple, torch.device("cpu"))
    budget = {"nfe": 2} if there.has_budget else {}
    there.sample(2, trace=True, temperature=1.0, **budget)
    if "top_p" in there.options.__dataclass_fields__:
        there.sample(2, temperature=1.0, top_p=0.8, **budget)
    tokens = [each.sample(10, temperature=0.0, **budget).tokens for each in (there, here)]
    assert (tokens[0] == tokens[1]).mean() > 0.9
    rows = here.task.batch(np.arange(4))
    try:
        nll = [likelihoods(each, rows).nll_B for each in (there, here)]
    except UsageError:
        assert "has no likelihood" in str(sys.exc_info()[1])
        return
    torch.testing.assert_close(*nll, rtol=1e-3, atol=0)


def test_a_method_in_float64_says_so(tmp_path, apple):
    with pytest.raises(UsageError, match="computes in float64, which this device lacks"):
        train(TrainRequest("markov", "s-flm", ON_MPS, out=tmp_path))


def test_own_rows_from_training_to_evaluation(tmp_path, apple):
    """`dbtm train own` with its quick evaluation, the plans of its rounds, `sample` and `eval own`."""
    np.save(tmp_path / "own.npy", np.random.default_rng(0).integers(0, 5, (60, 6)))
    changes = (*ON_MPS, "train.evaluate_every=2")
    run = train(TrainRequest("own", None, changes, out=tmp_path / "run", data=tmp_path / "own.npy"))
    assert tune(run, device="mps").options.plan_by_nfe
    there = load(run, "mps")
    for temperature in (0.0, 1.0):
        for scorer in ("spread", "confidence"):
            assert there.sample(3, temperature=temperature, scorer=scorer, nfe=3, trace=True).tokens.shape == (3, 6)
    scores = [
        list(evaluate_own(OwnEvaluationRequest(checkpoint=str(run), n=20, budgets=(2,), device=device)))[-1].held_out
        for device in ("mps", "cpu")
    ]
    assert scores[0].nats_per_token.value == pytest.approx(scores[1].nats_per_token.value, rel=1e-3)
