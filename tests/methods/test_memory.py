"""Decoding stays within its memory budget."""

import json

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from dbtm.config import Shape
from dbtm.methods.dbtm import Options, evaluator
from tests.conftest import random_map

LENGTH, VOCAB = 64, 1024


def peak(options, trace):
    """Peak memory in bytes of proposing the tokens of two rows."""
    network = evaluator.Evaluator.plain(random_map(shape=Shape(VOCAB, LENGTH)))
    tokens, committed = torch.zeros(2, LENGTH, dtype=torch.int64), torch.zeros(2, LENGTH, dtype=torch.bool)
    trunk = torch.randn(2, LENGTH, network.model.config.width)
    key_B = torch.arange(2) if options.draws else None
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        evaluator.score_proposals(network, trunk, tokens, committed, options, key_B, "confidence")
    profiler.export_chrome_trace(str(trace))
    changes = [e for e in json.loads(trace.read_text())["traceEvents"] if e.get("name") == "[memory]"]
    now = most = 0
    for change in sorted(changes, key=lambda each: each["ts"]):
        now += change["args"]["Bytes"]
        most = max(most, now)
    return most


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize(("temperature", "top_p"), [(0.0, 1.0), (0.7, 1.0), (0.7, 0.9)])
def test_proposals_take_no_more_memory_than_their_budget(tmp_path, monkeypatch, temperature, top_p, penalty):
    options = Options(temperature=temperature, top_p=top_p, repetition_penalty=penalty)
    whole = peak(options, tmp_path / "whole.json")
    monkeypatch.setattr(evaluator, "BUDGET", whole // 4)
    assert whole / 16 < peak(options, tmp_path / "cut.json") <= 1.05 * whole / 4
