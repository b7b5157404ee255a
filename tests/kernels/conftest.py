"""Without a GPU, Triton's kernels run in its interpreter: the same source, one program after the other, in numpy.

Kernels are bound to it when they are first imported, which nothing does before the first operator runs. Other tests do
without: the interpreter does not stand several threads.
"""

import pytest
import torch

from dbtm.kernels import dispatch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
needs_triton = pytest.mark.skipif(not dispatch.HAS_TRITON, reason="Triton is not installed (a CPU does not need it)")


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    if not torch.cuda.is_available():
        monkeypatch.setenv("TRITON_INTERPRET", "1")
