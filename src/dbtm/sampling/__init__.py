"""From noise to sequences: refine (renoise and remap), iterate the map, integrate its field."""

from dbtm.sampling.iterate import integrate, iterate
from dbtm.sampling.refine import Given, refine
from dbtm.sampling.sampler import Sampler
from dbtm.sampling.trace import Round, Trace

__all__ = ["Given", "Round", "Sampler", "Trace", "integrate", "iterate", "refine"]
