"""What all samplers share: batches, seeds by sample, decoding, tracing, and the counter of network evaluations."""

from dbtm.sampling.given import Given
from dbtm.sampling.sampler import Sampler
from dbtm.sampling.trace import Round, Trace
from dbtm.sampling.watch import Cancelled, Watch

__all__ = ["Cancelled", "Given", "Round", "Sampler", "Trace", "Watch"]
