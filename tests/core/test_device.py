"""Devices by name, and no call that only NVIDIA's GPUs answer on the way of other devices."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import dbtm
from dbtm.core.device import device_name, fast_bf16, pick_device, wide_device
from dbtm.core.errors import UsageError
from dbtm.nn.layers import rotary_angles


def test_apples_gpu_is_taken_where_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert pick_device("mps") == torch.device("mps")
    assert not fast_bf16(torch.device("mps"))
    assert device_name(torch.device("mps")) == "mps"
    assert wide_device(torch.device("mps")) == torch.device("cpu"), "it has no float64"
    assert wide_device(torch.device("cuda")) == torch.device("cuda")


def test_where_there_is_none_it_is_a_line(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(UsageError, match="no Apple GPU here"):
        pick_device("mps")
    with pytest.raises(UsageError, match="did you mean 'mps'"):
        pick_device("mp")


class Wide(TorchDispatchMode):
    """Notes float64 tensors on the device that stands for one without them."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else [out]:
            if isinstance(x, torch.Tensor) and x.device.type == "meta" and x.dtype == torch.float64:
                self.found.append(str(func))
        return out


def test_rotary_angles_need_no_float64_on_the_device(monkeypatch):
    """The meta device in place of mps."""
    monkeypatch.setattr("dbtm.nn.layers.wide_device", lambda device: torch.device("cpu"))
    with Wide() as wide:
        cos, _ = rotary_angles(4, 8, torch.device("meta"), torch.float32)
    assert (cos.device.type, wide.found) == ("meta", [])


def test_the_notes_of_this_test_can_be_wrong():
    with Wide() as wide:
        torch.zeros(2, dtype=torch.float64, device="meta")
    assert wide.found


def test_on_a_cpu_no_call_of_cuda_is_reached(monkeypatch, tmp_path):
    """Training, saving, loading and sampling, with everything of torch.cuda but the question for a GPU broken."""

    def broken(*_, **__):
        raise AssertionError("a call that only CUDA answers")

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
