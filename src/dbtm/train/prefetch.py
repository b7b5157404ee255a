"""The next step's batches, ahead of time."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch

from dbtm.methods.base import Examples


class Prefetch:
    """Prepares the next step's batches in a thread while this step runs; on a GPU, in a separate stream."""

    def __init__(self, source: Iterator[list[Examples]], device: torch.device):
        self.source = source
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __enter__(self) -> Iterator[list[Examples]]:
        self.pool = ThreadPoolExecutor(1)
        return self._ahead()

    def _prepare(self) -> list[Examples] | None:
        if self.stream is None:
            return next(self.source, None)
        with torch.cuda.stream(self.stream):
            batch = next(self.source, None)
        self.stream.synchronize()
        return batch

    def _ahead(self) -> Iterator[list[Examples]]:
        future = self.pool.submit(self._prepare)
        while (batch := future.result()) is not None:
            future = self.pool.submit(self._prepare)
            if self.stream is not None:
                for x in (x for examples in batch for x in examples.tensors().values()):
                    x.record_stream(torch.cuda.current_stream())  # frees their memory only after the step has read them
            yield batch

    def __exit__(self, *error):
        self.pool.shutdown(wait=True, cancel_futures=True)
