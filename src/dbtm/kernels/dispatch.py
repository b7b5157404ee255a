"""Chooses the backend of attention and the delta rule, and gives the reason (`dbtm doctor` prints it).

Backends of one call of attention:

    reference   plain PyTorch, any device and dtype; stores the (B, H, L, L) logits
    sdpa        value and backward by PyTorch's fused attention, which has no softcap; the tangent by the reference
    triton      value and tangent in one pass of our kernel, backward by our kernels; supports a softcap

On a GPU, a value without tangent and softcap goes to sdpa, which is faster there; everything else goes to the kernels.

DBTM_ATTENTION=reference|sdpa|triton in the environment, or `force`, overrides the choice if that backend supports the
call; it applies to the delta rule too.
"""

import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual

from dbtm.core.errors import UsageError, nearest
from dbtm.kernels import ops, reference

BACKENDS = ("reference", "sdpa", "triton")
OLDEST = 8  # compute capability of Ampere: its smallest chips have just enough shared memory for the widest heads
MAX_HEAD_DIM = 128  # wider heads do not fit the kernels' registers
MAX_DELTA_DIM = 64  # the same limit for the delta rule's kernels, which hold states of head_dim x head_dim


def cannot_build(variable: str, *compilers: str) -> str:
    """Why neither these compilers nor the one named in the environment can build for Python, or an empty string."""
    named = os.environ.get(variable)
    if named is not None and not which(named):
        return f"{variable}={named} is not a command"
    if named is None and not any(map(which, compilers)):
        return f"no {' or '.join(compilers)} found"
    folders = [sysconfig.get_path("include", "nt" if os.name == "nt" else "posix_prefix")]
    for path in ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"):  # compilers also search these
        folders += filter(None, os.environ.get(path, "").split(os.pathsep))
    if not any(Path(folder, "Python.h").is_file() for folder in folders):
        return "no Python.h found: install Python's headers (python3-dev)"
    return ""


def triton_lacks() -> str:
    """What Triton lacks to run on this machine, or an empty string. It builds its launchers in C."""
    if find_spec("triton") is None:
        return "Triton is not installed"
    return "" if sys.platform == "win32" else cannot_build("CC", "gcc", "clang")  # on Windows it includes a compiler


TRITON_LACKS = triton_lacks()  # computed once: torch.compile traces `choose`, and cannot trace this
_forced: str | None = None


def set_backend(backend: str | None) -> None:
    """Use this backend for every call it supports; None leaves the choice to `choose`."""
    global _forced
    if backend is not None and backend not in BACKENDS:
        raise UsageError(f"DBTM_ATTENTION: no backend '{backend}'{nearest(backend, BACKENDS)}")
    _forced = backend


@contextmanager
def force(backend: str | None) -> Iterator[None]:
    """`set_backend` within a with block."""
    before = _forced
    set_backend(backend)
    try:
        yield
    finally:
        set_backend(before)


set_backend(os.environ.get("DBTM_ATTENTION") or None)


def too_old() -> bool:
    """Whether this process's GPU is an NVIDIA GPU older than Ampere."""
    if not torch.version.cuda or not torch.cuda.is_available():
        return False
    return torch.cuda.get_device_properties(torch.cuda.current_device()).major < OLDEST


def no_triton(cuda: bool, dtype: torch.dtype, head_dim: int, widest: int = MAX_HEAD_DIM) -> str:
    """Why the Triton kernels cannot be used, or an empty string."""
    if not cuda and os.environ.get("TRITON_INTERPRET") != "1":  # Triton's interpreter on a CPU, for the tests
        return "no GPU"
    if TRITON_LACKS:
        return TRITON_LACKS
    if cuda and too_old():
        return "the GPU is older than Ampere and has too little shared memory"
    if dtype not in (torch.bfloat16, torch.float16, torch.float32):
        return f"the Triton kernels do not support {dtype}"
    if head_dim > widest:
        return f"head width {head_dim} exceeds the kernels' limit of {widest}"
    return ""


def no_compiling(device: torch.device) -> str:
    """Why torch.compile cannot be used, or an empty string. It generates Triton for a GPU and C++ for a CPU."""
    if device.type == "cuda":
        return TRITON_LACKS
    return cannot_build("CXX", {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++"))


def choose(
    softcap: float,
    tangent: bool = False,
    cuda: bool | None = None,
    dtype: torch.dtype = torch.float32,
    head_dim: int = 64,
) -> tuple[str, str]:
    """(backend, reason) for one call of attention; `cuda` defaults to whether this machine has a GPU."""
    cuda = torch.cuda.is_available() if cuda is None else cuda
    why_not = no_triton(cuda, dtype, head_dim)
    if _forced == "reference" or (_forced == "sdpa" and not softcap) or (_forced == "triton" and not why_not):
        return _forced, "forced (DBTM_ATTENTION)"
    if not why_not and (softcap or tangent):
        return "triton", "value and tangent in one pass, with or without a softcap: our Triton kernels"
    if softcap:
        return "reference", f"tanh softcap on the logits, which the fused attention lacks: plain PyTorch ({why_not})"
    return "sdpa", "no softcap: PyTorch's fused scaled_dot_product_attention, value and backward"


def choose_delta(cuda: bool | None = None, dtype: torch.dtype = torch.float32, head_dim: int = 64) -> tuple[str, str]:
    """(backend, reason) for one call of the delta rule."""
    cuda = torch.cuda.is_available() if cuda is None else cuda
    why_not = no_triton(cuda, dtype, head_dim, MAX_DELTA_DIM)
    if _forced == "reference":
        why_not = why_not or "forced (DBTM_ATTENTION)"
    if not why_not:
        return "triton", "value, tangent and gradient chunk by chunk: our Triton kernels"
    return "reference", f"batched products of PyTorch ({why_not})"


def refuse_forward_mode(*tensors: Tensor) -> None:
    """Refuse forward-mode autodiff: PyTorch would silently drop the tangent of a custom operator."""
    if any(unpack_dual(x).tangent is not None for x in tensors):
        raise RuntimeError("torch.func.jvp does not support the Triton kernels: give tangents, or force('reference')")


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tangents: tuple[Tensor, Tensor, Tensor] | None = None,
    softcap: float = 0.0,
) -> tuple[Tensor, Tensor | None]:
    """Value under autograd and, if tangents (dq, dk, dv) are given, the tangent as a constant; (B, H, L, d)."""
    kind = (q.is_cuda, q.dtype, q.shape[-1])
    backend, _ = choose(softcap, tangents is not None, *kind)
    if backend == "triton":
        refuse_forward_mode(q, k, v)
        if tangents is None:
            return ops.attention(q, k, v, softcap)[0], None
        o, do, _ = ops.attention_dual(q, k, v, *tangents, softcap)
        return o, do
    o = F.scaled_dot_product_attention(q, k, v) if backend == "sdpa" else reference.attention(q, k, v, softcap)
    if tangents is None:
        return o, None
    with torch.no_grad():
        return o, reference.attention_tangent(q, k, v, *tangents, softcap=softcap)[1]
