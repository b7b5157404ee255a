"""The losses; each function names its equation's label.

They return the loss per token, (B, L), float32 or wider. `total` sums over tokens and divides by the common
B * L_target, so that all terms share one scale. Training uses the head through `losses.head` and `losses.soft_head`;
`losses.reference` writes out the same formulas.
"""

from dbtm.losses.adaptive import adaptive_weight
from dbtm.losses.objective import objective, total
from dbtm.losses.quality import quality
from dbtm.losses.reference import endpoint, transport
from dbtm.losses.semigroup import semigroup

__all__ = ["adaptive_weight", "endpoint", "objective", "quality", "semigroup", "total", "transport"]
