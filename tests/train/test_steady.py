"""After a divergence there is a checkpoint from before the loss rose, even if later ones were saved while it rose."""

from dataclasses import replace

import pytest
import torch

from dbtm.checkpoint import folder as checkpoint
from dbtm.core import rng
from dbtm.methods.base import Examples, method_of
from dbtm.methods.dbtm import DistillConfig
from dbtm.train.loop import NonFiniteLoss, fit
from dbtm.train.steady import SteadyCheckpoint
from tests.train.test_resume import tiny_run


def loss_of(config, folder) -> float:
    """The objective of a checkpoint's weights on a separate batch, without the trainer."""
    method = method_of(config).start()
    method.network.load_state_dict(checkpoint.read_tensors(folder, "model"))
    batch = config.task.batch(torch.arange(32).numpy())
    tokens = torch.from_numpy(batch.tokens).long()
    keys, prompt = rng.fold(7, torch.arange(32)), torch.zeros_like(tokens, dtype=torch.bool)
    examples = Examples(tokens, prompt, keys, 0, place=torch.arange(32), targets=torch.tensor(float(tokens.numel())))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return sum(float(part.loss.detach()) for part in method.parts(method.prepare(examples)))


def test_a_run_that_diverges_keeps_a_checkpoint_from_before(tmp_path):
    """A learning rate that is far too high from step 12 on: the loss explodes over several checkpoints."""
    good = tiny_run(distill=DistillConfig())
    good = replace(good, optim=replace(good.optim, name="adamw", schedule="constant", warmup=0, clip=0.0))
    good = replace(good, train=replace(good.train, steps=12, log_every=2, checkpoint_every=4, keep=2))
    fit(good, tmp_path)
    broken = replace(good, optim=replace(good.optim, lr=50.0), train=replace(good.train, steps=400))
    with pytest.raises(NonFiniteLoss) as error:
        fit(broken, tmp_path, resume=True)
    kept = checkpoint.all_in(tmp_path)
    assert len(kept) == 3, "one more than train.keep"
    before, last = kept[0], kept[-1]
    assert checkpoint.step_of(before) <= 12
    assert checkpoint.step_of(last) >= 20
    assert f"{before} is from before the loss rose, the last checkpoint is {last}" in str(error.value)
    with_last, with_before = loss_of(good, last), loss_of(good, before)
    assert not with_last < 10 * with_before, "the last one has diverged"
    resumed = tmp_path / "again"
    resumed.mkdir()
    before.rename(resumed / before.name)
    checkpoint.verify(fit(good, resumed, resume=True))


@pytest.fixture
def run(tmp_path):
    """Saves a checkpoint every step, given the losses, and returns which one is kept."""

    def save(losses, first=0, terms="loss", keep=1) -> str | None:
        steady = SteadyCheckpoint(tmp_path)
        for step, loss in enumerate(losses, first):
            steady.add(dict.fromkeys(("loss", *terms.split()), loss), 1)
            steady.saved(checkpoint.write(tmp_path / f"step-{step:08d}", {}, {"config": "{}"}))
            checkpoint.prune(tmp_path, keep)
        note = checkpoint.steady(tmp_path)
        kept = [checkpoint.step_of(folder) for folder in checkpoint.all_in(tmp_path)]
        assert len(kept) <= keep + 1
        assert note is None or checkpoint.step_of(tmp_path / note["checkpoint"]) in kept
        return checkpoint.step_of(tmp_path / note["checkpoint"]) if note else None

    return save


@pytest.mark.parametrize(
    ("losses", "kept"),
    [
        ([3, 2, 1], 1),  # the last but one: the loss after the newest is unknown
        ([3, 2, 2.1, 2.15, 2.05], 3),  # noise does not count as a rise
        ([3, 2, 2.1, 2.5, 9, 99], 1),  # 2.5 came after step 2
        ([3, 2, 2.1, 9, 99, 1.9, 1.8], 5),  # it recovered
        ([3, 4, 5, 6], None),  # rising from the start
        ([-3, -4, -3.9, -2], 1),  # a loss may be negative
    ],
)
def test_which_one_is_kept(run, losses, kept):
    assert run(losses) == kept


def test_a_resumed_run_remembers_what_was_lowest(run):
    assert run([3, 2, 2]) == 1
    assert run([9, 99], first=3) == 1
    assert run([2], first=5) == 4


def test_terms_that_start_later_are_no_rise(run):
    assert run([3, 2, 2]) == 1
    assert run([5], first=3, terms="loss ril") == 2, "from before the new terms"
    assert run([7, 7], first=4, terms="loss ril") == 4
    assert run([9], first=6, terms="loss ril") == 4
