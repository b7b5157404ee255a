"""The noise schedule alpha_t = (1 - t)^a and its derivative (below eq:interpolant); beta_t = 1 - alpha_t."""

from torch import Tensor


def alpha(t: Tensor, a: float = 1.0) -> Tensor:
    """alpha_t = (1 - t)^a: 1 at pure noise (t = 0), 0 at clean data (t = 1)."""
    return (1 - t) ** a


def alpha_rate(t: Tensor, a: float = 1.0) -> Tensor:
    """d alpha_t / dt = -a (1 - t)^(a - 1)."""
    return -a * (1 - t) ** (a - 1)
