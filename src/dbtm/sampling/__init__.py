"""Shared code of all samplers: batches, seeds per sample, decoding, tracing, and the count of network evaluations."""

from dbtm.sampling.given import Given
from dbtm.sampling.sampler import Sampler
from dbtm.sampling.trace import Round, Trace
from dbtm.sampling.watch import Cancelled, Watch

__all__ = ["Cancelled", "Given", "Round", "Sampler", "Trace", "Watch"]
