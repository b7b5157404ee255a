"""Maps along the flow x_t = (1 - t) noise + t e_x, whose exact velocity is (D(x, t) - x) / (1 - t), D the denoiser.

A two-time denoiser delta_{s,t} represents the map X_{s,t} from x_s to x_t on the same trajectory. It is a distribution
over tokens, delta_{s,s} = D, and X_{0,1} = delta_{0,1}. Most functions are linear in states and distributions, so these
may be embedded (x W); times broadcast.
"""

import math

import torch
from torch import Tensor

GUARD = 1e-8  # least denominator: for a clean token, a share is 0 / 0


def advance(x: Tensor, delta: Tensor, s: Tensor, t: Tensor) -> Tensor:
    """X_{s,t}(x) = (1 - t) / (1 - s) x + (t - s) / (1 - s) delta_{s,t}(x); for s = 1, x is unchanged."""
    return torch.lerp(x, delta, ((t - s) / (1 - s).clamp(min=GUARD)).to(x.dtype))


def first_share(s: Tensor, u: Tensor, t: Tensor) -> Tensor:
    """g = (1 - t) (u - s) / ((1 - u) (t - s)), the share of the first of two steps s -> u -> t:

        delta_{s,t}(x) = g delta_{s,u}(x) + (1 - g) delta_{u,t}(X_{s,u}(x))                  (semigroup)

    In [0, 1], and 0 at t = 1. For u = 1 or s = t it is undefined; the result is 0.
    """
    below = (1 - u) * (t - s)
    return torch.where(below > 0, (1 - t) * (u - s) / below.clamp(min=GUARD**2), torch.zeros_like(below)).clamp(0, 1)


def churn_target(after: float, churn: float) -> float:
    """1 - sigma', sigma' = (1 - after) sqrt(1 - churn^2): the time from which fresh noise leads back to `after`."""
    return 1 - (1 - after) * math.sqrt(1 - churn**2)


def churned(x: Tensor, delta: Tensor, noise: Tensor, now: float, after: float, churn: float) -> Tensor:
    """A step from `now` to `after` in which a share `churn` of the noise is new; delta = delta_{now, churn_target}(x):

        after delta + sigma' (x - now delta) / (1 - now) + churn (1 - after) noise

    Signal and noise have the right coefficients for every churn; the distribution is exact for churn 0 and 1, and
    approximate in between.
    """
    old = (1 - churn_target(after, churn)) / (1 - now)
    return after * delta + old * (x - now * delta) + churn * (1 - after) * noise


def renoised(x: Tensor, noise: Tensor, reached: float, after: float) -> Tensor:
    """Add fresh noise to a state at time `reached`, back to `after` < reached: exact for every pair of times."""
    share = after / reached
    return share * x + math.sqrt(max(0.0, (1 - after) ** 2 - (share * (1 - reached)) ** 2)) * noise


def eulerian(z_ss: Tensor, z_st: Tensor, dz: Tensor, s: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """(delta_{s,t}, least argument of the logarithm) from the change of delta_{s,t} along the flow through x_s:

        softmax(z_{s,s} - log[(1 - t) - (1 - s) (t - s) (dz - <delta_{s,t}, dz>)])

    z are logits; dz is the derivative of z_{s,t}(x_s) along dx/ds = (delta_{s,s} - x) / (1 - s). On the exact flow the
    argument is positive; otherwise the result is meaningless.
    """
    change = dz - (z_st.softmax(-1) * dz).sum(-1, keepdim=True)
    argument = (1 - t) - (1 - s) * (t - s) * change
    return (z_ss - argument.clamp(min=torch.finfo(argument.dtype).tiny).log()).softmax(-1), argument.amin(-1)
