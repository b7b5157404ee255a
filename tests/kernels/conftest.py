"""Tests marked `triton` run on a GPU, or in Triton's interpreter: the same source, one program at a time, in numpy.

TRITON_INTERPRET=1 selects the interpreter (`make test-kernels`). Triton reads it on import, so it applies to the whole
process. These tests have their own process, because the interpreter is not thread-safe.
"""

import os

import numpy as np
import pytest
import torch

from dbtm.kernels import dispatch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
needs_triton = pytest.mark.triton


def pytest_runtest_setup(item):
    if item.get_closest_marker("triton") is None:
        return
    if INTERPRETED:
        assert not dispatch.TRITON_LACKS, f"TRITON_INTERPRET=1 is set, but {dispatch.TRITON_LACKS}"
    elif DEVICE == "cpu":
        pytest.skip("no GPU: `make test-kernels` runs this test in Triton's interpreter")
    elif dispatch.TRITON_LACKS:
        pytest.skip(dispatch.TRITON_LACKS)


@pytest.fixture(autouse=True)
def checked_interpreter(monkeypatch):
    """If the interpreter runs the kernels, check every address and round as a GPU does."""
    if INTERPRETED and not dispatch.TRITON_LACKS:
        guard_memory(monkeypatch)
        round_to_nearest(monkeypatch)


def guard_memory(monkeypatch):
    """Check that a kernel accesses only its tensors; the interpreter itself does not check this."""
    from triton.runtime.interpreter import GridExecutor, InterpreterBuilder

    first_arguments, load, store = (
        GridExecutor._init_args_hst,
        InterpreterBuilder.create_masked_load,
        InterpreterBuilder.create_masked_store,
    )
    memory = []

    def arguments(self, *given):
        positional, named = first_arguments(self, *given)
        tensors = [x for x in (*positional, *named.values()) if isinstance(x, torch.Tensor) and x.numel()]
        memory[:] = [(x.data_ptr(), x.data_ptr() + x.element_size() * (1 + _last(x))) for x in tensors]
        return positional, named

    def check(pointers, mask):
        at, used = np.broadcast_arrays(pointers.data, mask.data)
        at = at[used.astype(bool)].astype(np.int64)
        inside = [(at >= begin) & (at < end) for begin, end in memory]
        assert np.any(inside, axis=0).all(), "a kernel reads or writes beyond its tensors"

    def checked_load(self, pointers, mask, *others):
        check(pointers, mask)
        return load(self, pointers, mask, *others)

    def checked_store(self, pointers, value, mask, *others):
        check(pointers, mask)
        return store(self, pointers, value, mask, *others)

    monkeypatch.setattr(GridExecutor, "_init_args_hst", arguments)
    monkeypatch.setattr(InterpreterBuilder, "create_masked_load", checked_load)
    monkeypatch.setattr(InterpreterBuilder, "create_masked_store", checked_store)


def round_to_nearest(monkeypatch):
    """Round a float32 to the nearest bfloat16, as on a GPU; the interpreter itself truncates."""
    from triton import language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    cast = InterpreterBuilder.cast_impl

    def rounded(self, x, dtype):
        if x.dtype.scalar == tl.float32 and dtype.scalar == tl.bfloat16:
            data = torch.from_numpy(np.array(x.data)).bfloat16().view(torch.uint16).numpy()
            return TensorHandle(data, tl.bfloat16)
        return cast(self, x, dtype)

    monkeypatch.setattr(InterpreterBuilder, "cast_impl", rounded)


def _last(x):
    """The offset of a tensor's last element from its first."""
    return sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True))
