"""Settings for the C library's return of memory to the system. Called for training on a CPU."""

import ctypes
import os
import sys
from collections.abc import Mapping

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
KEPT = 1 << 30  # bytes of free memory that the process keeps
MAPPED = 32 << 20  # bytes from which an allocation is mapped separately: the largest value that glibc accepts


def keep_freed_memory(environment: Mapping[str, str] = os.environ) -> bool:
    """Let glibc keep up to 1 GiB of freed memory, unless the user has set it. Returns whether anything was changed.

    A training step frees its activations and requests the same sizes again. By default glibc returns them to the system
    in between, and every page is zeroed and mapped again, which slows down the steps of a small network.
    """
    chosen = any(name.startswith("MALLOC_") for name in environment)
    if sys.platform != "linux" or chosen or "glibc.malloc" in environment.get("GLIBC_TUNABLES", ""):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # missing or without effect in other C libraries
    return mallopt is not None and bool(mallopt(MMAP_THRESHOLD, MAPPED)) and bool(mallopt(TRIM_THRESHOLD, KEPT))
