"""The FLOPs counted by hand against those counted by PyTorch during the step."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dbtm.bench.step import kinds, measure, random_examples, step_flops
from dbtm.config import ModelConfig
from dbtm.kernels.dispatch import force
from dbtm.methods.base import backward
from dbtm.methods.dbtm import DBTM, PosteriorConfig, ReflowConfig
from tests.train.test_resume import tiny_run

CPU = torch.device("cpu")


def run():
    base = tiny_run()
    model = ModelConfig(width=32, depth=3, heads=2, dropout=0.0, softcap=0.0, cond_dim=8)
    return replace(base, task=replace(base.task, vocab=70, length=16), model=model)


@pytest.mark.parametrize("name", list(kinds(run())))
def test_flops_by_hand(name):
    config = kinds(run())[name]
    method = DBTM(config).start()
    torch.nn.init.normal_(method.network.head.weight)
    with force("reference"), FlopCounterMode(display=False) as counter:
        backward(method, random_examples(config.shape, 64, CPU))
    # folded constants around branches are not counted; half of the rows are visited only on average
    assert step_flops(config, 64) == pytest.approx(counter.get_total_flops(), rel=0.06)


def test_flops_of_passes_on_a_share_of_the_rows():
    """The pass at I_t on a quarter of the rows, and one at the prior's mean on half."""
    base = kinds(run())["transport + anchor + boundary"]
    posterior, loss = PosteriorConfig(weight=1.0, fraction=0.5), replace(base.method.loss, interpolant_fraction=0.25)
    config = replace(base, method=replace(base.method, posterior=posterior, loss=loss))
    method = DBTM(config).start()
    torch.nn.init.normal_(method.network.head.weight)
    with force("reference"), FlopCounterMode(display=False) as counter:
        backward(method, random_examples(config.shape, 64, CPU))
    assert step_flops(config, 64) == pytest.approx(counter.get_total_flops(), rel=0.06)


def test_flops_of_reflow():
    """A copy's four rounds and the map's three passes, on half of the rows."""
    base = kinds(run())["cross-entropy"]
    posterior, reflow = PosteriorConfig(weight=1.0), ReflowConfig(weight=1.0, rounds=4, fraction=0.5, states=3)
    config = replace(base, method=replace(base.method, posterior=posterior, reflow=reflow))
    method = DBTM(config).start()
    torch.nn.init.normal_(method.network.head.weight)
    with force("reference"), FlopCounterMode(display=False) as counter:
        backward(method, random_examples(config.shape, 64, CPU))
    assert step_flops(config, 64) == pytest.approx(counter.get_total_flops(), rel=0.06)
    assert step_flops(config, 64) > 1.5 * step_flops(base, 64)


def test_the_steps_differ_in_their_terms_alone():
    plain, ours, _, rounds = kinds(run()).values()
    terms = [set(backward(DBTM(kind).start(), random_examples(kind.shape, 2, CPU))) for kind in (plain, ours, rounds)]
    assert terms[0] == {"loss", "anchor"}
    assert terms[1] == {"loss", "anchor", "transport", "boundary"}
    assert terms[2] == terms[1] | {"ril"}
    assert plain.model == ours.model == rounds.model


def test_ratios_are_of_the_same_run():
    found = measure(run(), 2, CPU, compiled=False, graphed=False, repeats=1)
    rows = {row["step"]: row for row in found["rows"]}
    plain = rows["cross-entropy"]
    assert plain["ratio_vs_ce"] == 1
    for row in rows.values():
        assert row["ratio_vs_ce"] == pytest.approx(row["ms"] / plain["ms"])
        assert row["peak_gib"] > 0
        assert row["floor_ms"] > 0
    assert found["ratio_vs_ce"] == rows["transport + anchor + boundary"]["ratio_vs_ce"]
