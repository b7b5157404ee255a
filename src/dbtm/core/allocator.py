"""How the C library hands memory back to the system. Called where a run trains on a CPU."""

import ctypes
import os
import sys
from collections.abc import Mapping

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
KEPT = 1 << 30  # bytes of free memory that stay with the process
MAPPED = 32 << 20  # bytes from which an allocation is a mapping of its own: the most that glibc takes


def keep_freed_memory(environment: Mapping[str, str] = os.environ) -> bool:
    """Let glibc keep up to 1 GiB of freed memory; what the user has set stays. Returns whether anything was changed.

    A training step frees its activations and asks for the same sizes again. By default glibc gives them back to the
    system in between, and every page is zeroed and mapped once more, which slows the steps of a small network.
    """
    chosen = any(name.startswith("MALLOC_") for name in environment)
    if sys.platform != "linux" or chosen or "glibc.malloc" in environment.get("GLIBC_TUNABLES", ""):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none, or one that does nothing
    return mallopt is not None and bool(mallopt(MMAP_THRESHOLD, MAPPED)) and bool(mallopt(TRIM_THRESHOLD, KEPT))
