"""The plan against what was measured on one H200, against PyTorch's own sharding, and against counts by hand."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dbtm.bench.step import kinds
from dbtm.cli.plan import _document
from dbtm.config import override
from dbtm.core.errors import UsageError
from dbtm.recipes import recipe
from dbtm.service.planning import PlanRequest, memory, plan, plan_of, timing
from dbtm.service.planning.hardware import GPUS
from dbtm.service.planning.work import Work

RESULTS = Path(__file__).parents[2] / "results"
H200 = GPUS["h200"]


@pytest.mark.parametrize("name", ["lm1b", "owt", "sudoku-paper"])
def test_measured_steps_and_peaks_are_met(name):
    """Time within 15 %, memory within 10 %, of every kind of step that was measured."""
    found = json.loads((RESULTS / f"bench-step-{name}.json").read_text())
    config = recipe(name)
    train = replace(config.train, graph=found["graphed"], batch=found["batch"], micro_batch=0)
    for row, kind in zip(found["rows"], kinds(replace(config, train=train)).values(), strict=True):
        work = Work(kind)
        ms = 1e3 * timing.compute_seconds(work, H200, 1, recompute=False)
        assert ms == pytest.approx(row["ms"], rel=0.15), row["step"]
        step = memory.step_memory(work, work.phases[-1][1], found["batch"], recompute=False)
        peak = 8 * work.parameters + sum(step.values())  # weights and gradients; no optimizer was measured
        assert peak / 2**30 == pytest.approx(row["peak_gib"], rel=0.10), row["step"]


def test_state_is_that_of_the_optimizers():
    """Weights, gradients, averages and optimizer state of one device, counted from real ones."""
    from dbtm.methods.base import method_of
    from dbtm.train.optim import build_optimizers

    for name in ("adamw", "muon"):
        config = override(recipe("markov"), [f"optim.name={name}"])
        network = method_of(config).start().network
        optimizers = build_optimizers(network, config.optim, fused=False)
        for p in network.parameters():
            p.grad = torch.zeros_like(p)
        for optimizer in optimizers:
            optimizer.step()
        kept = sum(v.nbytes for o in optimizers for s in o.state.values() for v in s.values() if v.ndim)
        parts = memory.state_memory(Work(config), 1, 0)
        assert parts["optimizer"] == kept
        assert parts["weights"] == sum(p.nbytes for p in network.parameters())
        assert "gathered" not in parts


def test_passes_are_those_of_the_objective():
    """By hand: transport, with its tangent, and an eighth of the rows for the boundary in one pass; then rollouts of
    depth 4, whose rounds are passes of their own.
    """
    base = recipe("lm1b")
    changes = ["method.loss.boundary_fraction=0.125", "method.quality.enabled=false", "method.loss.quality=0"]
    one = Work(override(base, changes)).phases
    assert [share for share, _ in one] == [1.0]
    assert (one[0][1].units, one[0][1].alive, one[0][1].trained) == (1.125 * 4, 1.125, 1)
    ril = Work(override(base, [*changes, "method.ril.weight=1", "method.ril.start=125000"])).phases
    assert [share for share, _ in ril] == [0.5, 0.5]
    assert ril[1][1].units == 1.125 * 4 + 4 * 3
    assert (ril[1][1].alive, ril[1][1].trained) == (1.125, 5)


def test_more_gpus_take_less_memory_each_and_less_time():
    config = override(recipe("owt"), ["train.batch=4096", "train.micro_batch=1"])
    shard = {n: next(o for o in plan_of(config, H200, n).options if o.layout == "shard") for n in (2, 64, 4096)}
    states = [sum(o.memory[part] for part in ("weights", "gradients", "optimizer", "average")) for o in shard.values()]
    assert states == sorted(states, reverse=True)
    assert states[0] == pytest.approx(32 * states[1]) == pytest.approx(2048 * states[2])
    assert [o.time.compute for o in shard.values()] == sorted((o.time.compute for o in shard.values()), reverse=True)


def test_large_models_are_sharded_and_small_ones_replicated():
    assert plan(PlanRequest("owt", changes=("train.micro_batch=0",), gpus=8)).best.layout == "replicate"
    wide = ("model.width=5120", "model.heads=40", "model.depth=80", "train.batch=2048", "train.micro_batch=1")
    found = plan(PlanRequest("owt", changes=wide, gpus=512, gpu="h100"))
    assert found.parameters > 2.5e10
    assert found.best.layout in ("shard", "hybrid")
    assert not next(o for o in found.options if o.layout == "replicate" and o.recompute).fits
    (row,) = [row for row in _document(found)["options"] if row["layout"] == found.best.layout and row["fits"]][:1]
    assert row["gpu_hours"] == pytest.approx(512 * row["days"] * 24)
    assert 0 <= row["communication_share"] < 1


def test_other_methods_are_planned_without_their_data():
    found = plan(PlanRequest("owt", method="mdlm", changes=("train.micro_batch=0",), gpus=8))
    tokens = found.config.train.batch * found.config.shape.length
    blocks = 12 * 12 * 768**2
    assert found.flops == pytest.approx(6 * tokens * (blocks + 768 * 50257 + 2 * 12 * 1024 * 768), rel=0.05)


def test_what_cannot_be_planned_is_refused_in_a_line():
    for request, message in (
        (PlanRequest("owt", gpu="h20"), "h20 is not a choice"),
        (PlanRequest("owt", gpus=5000), r"1 to 4,096 GPUs"),
        (PlanRequest("owt", gpus=0), r"1 to 4,096 GPUs"),
        (PlanRequest("owt", gpus=1024), r"use a multiple of 1024, such as train.batch=1024"),
    ):
        with pytest.raises(UsageError, match=message):
            plan(request)


def test_sharded_weights_are_those_that_pytorch_leaves_on_a_device():
    """PyTorch's fake process group: the first of 64 devices, whose rows `fully_shard` cuts."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    from dbtm.methods.base import method_of
    from dbtm.train.distributed import World
    from dbtm.train.sharding import Sharded

    config = override(recipe("lm1b"), ["model.width=128", "model.heads=2", "model.depth=3"])
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=64)
    try:
        for shards in (64, 8):
            network = method_of(config).start().network
            layout = Sharded(torch.device("cpu"), World(0, 64, 0, 8, True), shards)
            held = sum(p.to_local().nbytes for p in layout.place(network).parameters())
            assert held == pytest.approx(memory.state_memory(Work(config), shards, 0)["weights"], rel=0.02)
    finally:
        dist.destroy_process_group()
