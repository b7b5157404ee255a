"""The device selected by the user, and what it supports."""

import torch
from torch import Tensor

from dbtm.core.errors import UsageError, nearest

DEVICES = ("auto", "cpu", "cuda", "mps")


def pick_device(name: str) -> torch.device:
    """auto selects an NVIDIA or AMD GPU if there is one; Apple's (mps) must be selected explicitly."""
    if name not in DEVICES:
        raise UsageError(f"device {name} is not a choice{nearest(name, DEVICES)}")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"device {name}: PyTorch sees no GPU here; use cpu, or auto")
    if name == "mps" and not torch.backends.mps.is_available():
        raise UsageError(f"device {name}: PyTorch sees no Apple GPU here; use cpu, or auto")
    return torch.device(name)


def device_name(device: torch.device) -> str:
    """A readable name of a device."""
    if device.type == "cuda":
        return f"cuda ({torch.cuda.get_device_name(device)})"
    if device.type != "cpu":
        return str(device.type)
    threads = torch.get_num_threads()
    return f"cpu, {threads} thread" + ("s" if threads > 1 else "")


def wide_device(device: torch.device) -> torch.device:
    """The device for float64 computations: the same device, or the CPU for Apple's GPUs, which lack float64."""
    return torch.device("cpu") if device.type == "mps" else device


def wide(x: Tensor) -> Tensor:
    """x in float64, on `wide_device`."""
    return x.to(wide_device(x.device), torch.float64)


def widest(device: torch.device) -> torch.dtype:
    """The widest dtype of a device: float64, or float32 on Apple's GPUs."""
    return torch.float32 if device.type == "mps" else torch.float64


def fast_bf16(device: torch.device) -> bool:
    """True if bfloat16 products are native; otherwise float32 is faster."""
    if device.type != "cpu":
        return device.type == "cuda"
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
