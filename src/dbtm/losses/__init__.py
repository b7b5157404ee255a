"""The losses, each a function that carries its equation's label.

They return the loss per token, (B, L), float32 or wider. `total` sums it over the positions that count and divides by
the common B * L_target, so that all terms share one scale. Training reads the head through `losses.head` and
`losses.soft_head`; what they compute is written out in `losses.reference`.
"""

from dbtm.losses.adaptive import adaptive_weight
from dbtm.losses.objective import objective, total
from dbtm.losses.quality import quality
from dbtm.losses.reference import endpoint, transport
from dbtm.losses.semigroup import semigroup

__all__ = ["adaptive_weight", "endpoint", "objective", "quality", "semigroup", "total", "transport"]
