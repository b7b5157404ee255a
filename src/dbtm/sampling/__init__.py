"""From noise to sequences: refine (renoise and remap), iterate the map, integrate its field."""

from dbtm.sampling.sampler import Sampler
from dbtm.sampling.trace import Round, Trace

__all__ = ["Round", "Sampler", "Trace"]
