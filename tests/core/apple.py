"""A stand-in for Apple's GPU (`mps`) on a machine without one.

Tensors report the device mps, but operations on them run on the CPU. As on the real device, float64 and operands on
different devices are refused; non-blocking copies are refused too, since the real device gets them wrong. The stand-in
does not test operators missing on mps, its rounding, bugs of its kernels, lack of memory, threads (`Prefetch` is
replaced), compiled blocks, or speed.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

MPS = torch.device("mps")
HELD = torch.device("meta", 0)  # the device seen by PyTorch's own code, which has no mps driver here
COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
INDEXING = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")  # takes indices on the CPU


class OnApple(torch.Tensor):
    """A tensor of the stand-in: its values are on the CPU."""

    @staticmethod
    def __new__(cls, numbers: torch.Tensor):
        assert numbers.dtype != torch.float64, "Cannot convert a MPS Tensor to float64 dtype"
        return torch.Tensor._make_wrapper_subclass(
            cls,
            numbers.size(),
            strides=numbers.stride(),
            storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype,
            device=HELD,
            requires_grad=numbers.requires_grad,
        )

    def __init__(self, numbers: torch.Tensor):
        self.numbers = numbers

    def __tensor_flatten__(self):
        return ["numbers"], None

    @staticmethod
    def __tensor_unflatten__(inner, _context, _size, _stride):
        return OnApple(inner["numbers"])

    @property
    def device(self):
        return MPS

    def numpy(self):
        raise TypeError("can't convert mps:0 device type tensor to numpy")

    def tolist(self):
        return self.numbers.tolist()

    def __repr__(self):
        return f"OnApple({self.numbers})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _compute(func, args, kwargs or {})

    __torch_function__ = torch._C._disabled_torch_function_impl


class Apple(TorchDispatchMode):
    """Creates tensors on mps."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _compute(func, args, kwargs or {})


class Named(TorchFunctionMode):
    """Replaces mps by the device seen by PyTorch's own code."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.device:
            return func(*args, **kwargs)
        args = tuple(HELD if _is_mps(x) else x for x in args)
        if _is_mps(kwargs.get("device")):
            kwargs = {**kwargs, "device": HELD}
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") == HELD:
            return func(*args, **{**kwargs, "device": None}).to(HELD)
        return func(*args, **kwargs)


def _is_mps(x):
    return isinstance(x, str | torch.device) and str(x) == "mps"


def _compute(func, args, kwargs):
    operands = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    here = [isinstance(x, OnApple) for x in operands]
    to = kwargs.get("device")
    to = any(here) if to is None else to == HELD
    if not (to or any(here)):
        return func(*args, **kwargs)
    if func not in COPIES and func._schema.name not in INDEXING:
        mixed = any(here) and any(not h and (x.dim() or x.dtype == torch.float64) for h, x in zip(here, operands))
        assert not mixed, f"{func}: operands on mps and on the CPU"
    inner_args, inner_kwargs = tree_map_only(OnApple, lambda x: x.numbers, (args, kwargs))
    if "device" in inner_kwargs:
        inner_kwargs["device"] = torch.device("cpu") if inner_kwargs["device"] is not None else None
    if "pin_memory" in inner_kwargs:
        inner_kwargs["pin_memory"] = None
    wanted = inner_kwargs.get("dtype")
    assert not (to and wanted == torch.float64), f"{func}: float64 on mps"
    assert not kwargs.get("non_blocking"), f"{func}: a copy to mps that reads its source when that may be gone"
    out = func(*inner_args, **inner_kwargs)
    if func is torch.ops.aten.copy_.default:
        return args[0]
    if not to:
        return out.clone() if func is torch.ops.aten._to_copy.default else out
    wrapped = tree_map(lambda x: _put(func, x), out)
    return return_and_correct_aliasing(func, args, kwargs, wrapped) if any(here) else wrapped


def _put(func, x):
    if not isinstance(x, torch.Tensor):
        return x
    assert x.dtype != torch.float64, f"{func}: float64 on mps"
    return OnApple(x)


@contextmanager
def apple_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A context in which device=mps is the stand-in."""
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    here = lambda source, _device: nullcontext(source)  # noqa: E731  # a mode applies to one thread
    monkeypatch.setattr("dbtm.train.loop.Prefetch", here)
    with Named(), Apple(), torch.autograd.set_multithreading_enabled(False):
        yield
