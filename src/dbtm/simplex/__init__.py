"""Pure maths on the product of simplices: tensors in, tensors out, any float dtype.

Shape legend: B samples, L positions, V vocabulary, D width. A suffix names the axes: `x_BLV`.
"""

from dbtm.simplex.commit import commit, floor_count, spread
from dbtm.simplex.coupling import assignment, ot_cost
from dbtm.simplex.interpolant import State, interpolate, one_hot, partial_context
from dbtm.simplex.noise import Noise
from dbtm.simplex.phase import commitment_time
from dbtm.simplex.plan import plan_rounds
from dbtm.simplex.schedule import alpha, alpha_rate

__all__ = [
    "Noise",
    "State",
    "alpha",
    "alpha_rate",
    "assignment",
    "commit",
    "commitment_time",
    "floor_count",
    "interpolate",
    "one_hot",
    "ot_cost",
    "partial_context",
    "plan_rounds",
    "spread",
]
