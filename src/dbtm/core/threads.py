"""PyTorch's threads: how idle ones wait, set by `import dbtm` before PyTorch reads its environment, and how many."""

import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

SLEEP_SOON = {
    "GOMP_SPINCOUNT": "3000",  # iterations of libgomp (Linux): about ten microseconds
    "KMP_BLOCKTIME": "1",  # milliseconds of libomp and Intel's runtime (macOS, Windows, MKL builds)
}


def let_idle_threads_sleep(environment: MutableMapping[str, str] = os.environ) -> None:
    """Waiting threads spin briefly, then sleep, unless the user has set it.

    By default they spin for a long time, which is fastest on an idle machine. If other processes use the same cores,
    small steps become many times slower: a training run took 159 s instead of 25 s, a solve 20 s instead of 0.3 s.
    Sleeping at once takes 50 % longer on an idle machine, so threads spin briefly first: ten times as long would make
    small steps 20 % faster there, and five times as slow beside one other busy process.
    """
    if "OMP_WAIT_POLICY" in environment:  # the user's choice, which these would override
        return
    for name, value in SLEEP_SOON.items():
        environment.setdefault(name, value)


def let_idle_threads_sleep_at_once(environment: MutableMapping[str, str] = os.environ) -> None:
    """For a server, which shares its machine with browsers and training runs, unless the user has set it.

    On two cores at a load of 9, the first round of a Sudoku took 40 ms with a spin count of 300, 300 ms with 3,000 and
    500 to 2,700 ms with 30,000.
    """
    if environment.get("GOMP_SPINCOUNT") == SLEEP_SOON["GOMP_SPINCOUNT"]:
        environment["GOMP_SPINCOUNT"] = "300"
    if environment.get("KMP_BLOCKTIME") == SLEEP_SOON["KMP_BLOCKTIME"]:
        environment["KMP_BLOCKTIME"] = "0"


@contextmanager
def thread_count(count: int) -> Iterator[None]:
    """Within, PyTorch computes with this many threads; 0 changes nothing."""
    import torch

    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
