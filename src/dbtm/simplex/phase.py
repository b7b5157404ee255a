"""The phase transition of the interpolant (thm:optimal-t)."""

import math


def commitment_time(vocab: int, sigma: float = 1.0, a: float = 1.0) -> float:
    """t* = 1 - (1 + sigma sqrt(2 log V))^(-1/a), eqn:anchor time: after it the argmax of I_t is its target token."""
    return 1.0 - (1.0 + sigma * math.sqrt(2.0 * math.log(vocab))) ** (-1.0 / a)
