"""Devices by name, and no CUDA call on other devices."""

import importlib

import pytest
import torch

import dbtm
from dbtm.core.device import device_name, fast_bf16, pick_device, wide, wide_device, widest
from dbtm.core.errors import UsageError


def test_apples_gpu_is_taken_where_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert pick_device("mps") == torch.device("mps")
    assert not fast_bf16(torch.device("mps"))
    assert device_name(torch.device("mps")) == "mps"
    assert wide_device(torch.device("mps")) == torch.device("cpu"), "it has no float64"
    assert wide_device(torch.device("cuda")) == torch.device("cuda")
    assert widest(torch.device("mps")) == torch.float32
    assert widest(torch.device("cuda")) == widest(torch.device("cpu")) == torch.float64


def test_a_wide_tensor_keeps_its_device_and_its_values_where_there_is_float64():
    x = torch.tensor([1 / 3, 1e30])
    assert torch.equal(wide(x), x.double())
    assert (wide(x).dtype, wide(x).device) == (torch.float64, x.device)
    there = x.double()
    assert wide(there) is there  # no copy


def test_where_there_is_none_it_is_a_line(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(UsageError, match="no Apple GPU here"):
        pick_device("mps")
    with pytest.raises(UsageError, match="did you mean 'mps'"):
        pick_device("mp")


def test_on_a_cpu_no_call_of_cuda_is_reached(monkeypatch, tmp_path):
    """Training, saving, loading and sampling, with all of torch.cuda broken except the check for a GPU."""
    importlib.import_module("torch._dynamo")  # its import, which training may cause, looks at torch.cuda's functions

    def broken(*_, **__):
        raise AssertionError("a call of CUDA")

    for name in (
        "Stream",
        "stream",
        "current_stream",
        "synchronize",
        "set_device",
        "max_memory_allocated",
        "CUDAGraph",
    ):
        monkeypatch.setattr(torch.cuda, name, broken)
    settings = ["model.width=16", "model.depth=1", "model.heads=2", "train.batch=4", "train.steps=2", "optim.warmup=1"]
    config = dbtm.override(dbtm.recipe("own"), [*settings, "train.device=cpu", "task.vocab=4", "task.length=3"])
    (tmp_path / "a.txt").write_text("abc\nbcd\n" * 20)
    config = dbtm.override(config, [f"task.data={tmp_path / 'a.txt'}"])
    model = dbtm.load(dbtm.fit(config, tmp_path / "run"), device="cpu")
    assert len(model.sample(2, nfe=2).texts) == 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_works_on_a_cpu(dtype):
    model = dbtm.load("sudoku", device="cpu")
    model.network.to(dtype).fold()
    tokens = model.sample(1, nfe=2).tokens
    assert tokens.shape == (1, model.network.shape.length)
