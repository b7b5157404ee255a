"""The paper's losses, each a function that carries its equation's label.

They take logits f (or their tangents) and return the loss per token, (B, L), float32 or wider. `total` sums it over the
positions that count and divides by the common B * L_target, so that all terms share one scale. These functions are the
specification: the training step computes the same numbers and gradients with `head` and `soft_head`, which take the
trunk's state and never hold the logits of all positions.
"""

from dbtm.losses.adaptive import adaptive_weight
from dbtm.losses.endpoint import anchor, boundary, endpoint
from dbtm.losses.objective import objective, total
from dbtm.losses.quality import quality
from dbtm.losses.refinement import (
    ril_c,
    ril_nc,
    ril_quality,
    semi_r,
    soft_ril_c,
    soft_ril_nc,
    soft_target,
)
from dbtm.losses.semigroup import semigroup
from dbtm.losses.transport import softmax_tangent, transport

__all__ = [
    "adaptive_weight",
    "anchor",
    "boundary",
    "endpoint",
    "objective",
    "quality",
    "ril_c",
    "ril_nc",
    "ril_quality",
    "semi_r",
    "semigroup",
    "soft_ril_c",
    "soft_ril_nc",
    "soft_target",
    "softmax_tangent",
    "total",
    "transport",
]
