"""Replayed steps equal plain ones: here the recording is a plain call on the recorded tensors (a GPU is not needed)."""

from dataclasses import replace

import pytest
import torch

from dbtm import rng
from dbtm.config import DistillConfig, LossConfig, RilConfig
from dbtm.errors import UsageError
from dbtm.graphs import WARM_UP
from dbtm.methods.base import Examples, backward
from dbtm.methods.dbtm import DBTM
from dbtm.train.graph import GraphedBackward
from tests.train.test_resume import tiny_run

STEPS, START = 12, 5


def config():
    return tiny_run(
        loss=LossConfig(),
        ril=RilConfig(weight=1.0, depths=(2,), start=START),
        distill=DistillConfig(),
    )


def examples(step: int, method: DBTM) -> Examples:
    torch.manual_seed(step)
    prompt = torch.arange(6).expand(4, 6) < step % 3
    return method.prepare(raw(step, prompt))


def raw(step: int, prompt: torch.Tensor) -> Examples:
    return Examples(torch.randint(0, 5, (4, 6)), prompt, rng.fold(1, step, torch.arange(4)), step, dropout_seed=step)


def run(call, method):
    """Terms and gradients of every step, gradients kept in place as the trainer does for a graph."""
    out, model = [], method.model
    for step in range(STEPS):
        torch.manual_seed(step)
        terms = {name: value.clone() for name, value in call(examples(step, method)).items()}
        out.append((terms, [None if p.grad is None else p.grad.clone() for p in model.parameters()]))
        model.zero_grad(set_to_none=False)
    return out


def test_replayed_steps_equal_plain_ones():
    plain, graphed = DBTM(config()), DBTM(config())
    recorded = []

    def record(call):
        recorded.append(call)
        return call

    want = run(lambda e: backward(plain, e, 0.5), plain)
    got = run(GraphedBackward(graphed, 0.5, record), graphed)
    for (terms, gradients), (terms_plain, gradients_plain) in zip(got, want, strict=True):
        assert terms.keys() == terms_plain.keys()
        assert all(torch.equal(terms[name], terms_plain[name]) for name in terms)
        for a, b in zip(gradients, gradients_plain, strict=True):
            assert (a is None) == (b is None)
            assert a is None or torch.equal(a, b)
    assert len(recorded) == 2  # before and after refinement in the loop starts
    assert START > WARM_UP
    assert "ril" in want[-1][0]
    assert "ril" not in want[0][0]


def test_steps_that_wait_for_the_cpu_are_refused():
    run = config()
    run = replace(run, train=replace(run.train, graph=True))
    with pytest.raises(UsageError, match=r"distill\.weight=0"):
        replace(run, distill=DistillConfig(weight=1.0, start=2))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
def test_recorded_on_a_gpu():
    plain, graphed = DBTM(config()), DBTM(config())  # with dropout: a replay draws it from the seed of its own step
    for method in (plain, graphed):
        method.model.cuda()

    def moved(call):
        return lambda e: call(replace(e, **{name: x.cuda() for name, x in e.tensors().items()}))

    want = run(moved(lambda e: backward(plain, e, 0.5)), plain)
    got = run(moved(GraphedBackward(graphed, 0.5)), graphed)
    for (terms, gradients), (terms_plain, gradients_plain) in zip(got, want, strict=True):
        for name in terms_plain:
            torch.testing.assert_close(terms[name], terms_plain[name], rtol=1e-4, atol=1e-6)
        for a, b in zip(gradients, gradients_plain, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
