"""A training process keeps the memory it frees, unless the user sets otherwise."""

import platform
import subprocess
import sys

import pytest

from dbtm.core.allocator import keep_freed_memory

FAULTS = """
import resource, sys
import numpy as np
from dbtm.core.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory({})
def step():
    [np.ones(3 << 18) for _ in range(8)]  # 6 MiB each, freed together
step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


SETTINGS = ({"MALLOC_ARENA_MAX": "2"}, {"GLIBC_TUNABLES": "glibc.pthread.rseq=0:glibc.malloc.trim_threshold=4096"})


@pytest.mark.parametrize("settings", SETTINGS)
def test_what_the_user_has_set_stays(settings):
    assert not keep_freed_memory(settings)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_memory_that_is_asked_for_again_is_not_mapped_again():
    assert faults("keep") < faults("default") / 4
