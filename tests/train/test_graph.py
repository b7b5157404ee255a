"""Replayed steps equal plain ones: here a recording is a plain call on the recorded tensors, so no GPU is needed."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.core.graphs import WARM_UP
from dbtm.methods.base import Examples, backward
from dbtm.methods.dbtm import DBTM, DistillConfig, LossConfig, PosteriorConfig, ReflowConfig, RilConfig
from dbtm.tasks.toy import Markov
from dbtm.train.graph import GraphedBackward
from tests.conftest import tiny_config
from tests.train.test_resume import changed, tiny_run

STEPS, START = 12, 5


def config(vocab: int = 5, distill: DistillConfig = DistillConfig()):
    return tiny_run(
        task=Markov(vocab=vocab, length=6),
        model=tiny_config(dropout=0.2),
        loss=LossConfig(),
        ril=RilConfig(weight=1.0, depths=(2,), start=START),
        distill=distill,
    )


def examples(step: int, method: DBTM) -> Examples:
    torch.manual_seed(step)
    prompt = torch.arange(6).expand(4, 6) < step % 3
    return method.prepare(raw(step, prompt))


def raw(step: int, prompt: torch.Tensor) -> Examples:
    return Examples(torch.randint(0, 5, (4, 6)), prompt, rng.fold(1, step, torch.arange(4)), step, dropout_seed=step)


def run(call, method):
    """Terms and gradients of every step, with gradients kept in place, as the trainer does for a graph."""
    out, model = [], method.network
    for step in range(STEPS):
        torch.manual_seed(step)
        terms = {name: value.clone() for name, value in call(examples(step, method)).items()}
        out.append((terms, [None if p.grad is None else p.grad.clone() for p in model.parameters()]))
        model.zero_grad(set_to_none=False)
        method.after_step(step + 1, model)
    return out


REFLOW = {"posterior": PosteriorConfig(weight=1.0), "reflow": ReflowConfig(weight=1.0, rounds=3, start=START)}


@pytest.mark.parametrize("more", [{}, REFLOW], ids=["plain", "reflow"])
def test_replayed_steps_equal_plain_ones(more):
    plain, graphed = (DBTM(changed(config(), **more)).start() for _ in range(2))
    recorded = []

    def record(call, _pool):
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


def test_a_new_teacher_is_recorded_anew():
    method = DBTM(config(distill=DistillConfig(weight=1.0, start=3, refresh=2))).start()
    recorded = []
    graphed = GraphedBackward(method, 1.0, lambda call, _: recorded.append(call) or call)
    assert [method.phase(step)[-1] for step in range(8)] == [0, 0, 0, 1, 1, 2, 2, 3]
    run(graphed, method)
    assert len(recorded) == 0  # no phase of these lasts longer than the warm-up
    teachers = DBTM(changed(config(distill=DistillConfig(weight=1.0, start=0, refresh=4)), ril=RilConfig())).start()
    run(GraphedBackward(teachers, 1.0, lambda call, _: recorded.append(call) or call), teachers)
    assert len(recorded) == STEPS // 4


def test_phases_that_are_drawn_keep_their_recordings():
    """A recurring number of loops or supervised round is replayed, not recorded again."""
    made = changed(config(), ril=RilConfig(weight=1.0, depths=(2,), rounds="one"), loops=(1, 2))
    plain, graphed = (DBTM(made).start() for _ in range(2))
    recorded = []
    replayed = GraphedBackward(graphed, 0.5, lambda call, _: recorded.append(call) or call)
    for _ in range(3):
        want, got = run(lambda e: backward(plain, e, 0.5), plain), run(replayed, graphed)
        for (terms, gradients), (terms_plain, gradients_plain) in zip(got, want, strict=True):
            assert all(torch.equal(terms[name], terms_plain[name]) for name in terms_plain)
            assert all(a is b or torch.equal(a, b) for a, b in zip(gradients, gradients_plain, strict=True))
    phases = [graphed.phase(step) for step in range(STEPS)]
    often = {phase for phase in phases if 3 * phases.count(phase) > WARM_UP}
    assert len(recorded) == len(often) > 2
    assert any(a != b for a, b in pairwise(phases))


@pytest.mark.parametrize("scorer", ["confidence", "spread"])
def test_a_step_that_visits_every_row_is_the_same_step(scorer, monkeypatch):
    """A recorded step cannot query which rows have a weight: it visits all, and the gradients are the same."""
    supervise = "uncommitted" if scorer == "confidence" else "remaining"
    distill = DistillConfig(weight=1.0, depth=2, start=0, scorer=scorer, supervise=supervise)
    some, every = (DBTM(config(80, distill)).start() for _ in range(2))
    visited = []

    def rows(mask):
        visited.append(mask.float().mean().item())
        return torch.arange(mask.numel())

    monkeypatch.setattr(every, "rows", rows)
    want, got = (run(lambda e, m=method: backward(m, e, 0.5), method) for method in (some, every))
    assert min(visited) < 0.7
    for (terms, gradients), (terms_plain, gradients_plain) in zip(got, want, strict=True):
        for name in terms_plain:
            torch.testing.assert_close(terms[name], terms_plain[name], rtol=1e-5, atol=1e-6)
        for a, b in zip(gradients, gradients_plain, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


class Waiting(TorchDispatchMode):
    """Collects operators for which the CPU would wait for a GPU, which a recording cannot contain."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        by_mask = name in ("index", "index_put_") and any(x is not None and x.dtype == torch.bool for x in args[1])
        if by_mask or name in ("nonzero", "_local_scalar_dense", "masked_select", "is_nonzero", "equal", "_unique2"):
            self.found.add(name)
        return function(*args, **(kwargs or {}))


def test_a_recorded_step_never_waits_for_the_gpu(monkeypatch):
    distill = DistillConfig(weight=1.0, depth=2, start=0, scorer="spread", supervise="remaining")
    made = changed(config(80, distill), ril=RilConfig(weight=1.0, depths=(2,), context=0.4))
    assert made.method.path.coupling == "ot"
    method = DBTM(made).start()
    some, waits = examples(7, method), Waiting()
    with waits:
        backward(method, some)
    assert waits.found == {"nonzero"}  # the plain step queries which rows have a loss
    monkeypatch.setattr(method, "rows", lambda mask: torch.arange(mask.numel()))
    waits.found.clear()
    with waits:
        backward(method, some)
    assert not waits.found


def test_steps_that_wait_for_the_cpu_are_refused():
    run = config()
    run = replace(run, train=replace(run.train, graph=True))
    with pytest.raises(UsageError, match=r"method\.path\.coupling=independent"):
        changed(run, ril=replace(run.method.ril, fresh_noise=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
@pytest.mark.parametrize("vocab", [5, 80])
def test_recorded_on_a_gpu(vocab):
    """With dropout, which a replay draws from the seed of its own step. The large vocabulary also has a teacher."""
    made = config(vocab, DistillConfig(weight=float(vocab > 64), depth=2, start=0, refresh=6))
    graph = replace(made, train=replace(made.train, graph=True))
    plain, graphed = (DBTM(each).start() for each in (made, graph))
    for method in (plain, graphed):
        for module in (method.network, *method.frozen.values()):
            module.cuda()

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
