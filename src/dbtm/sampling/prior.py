"""The prior of the sampler. Noise enters the map only as x0 W, which is exactly N(0, sigma^2 W^T W). If the vocabulary
is larger than the width, it is drawn with the Cholesky factor of W^T W, at cost D x D instead of V x D.
"""

from dataclasses import replace

import torch
from torch import Tensor

from dbtm.core.device import wide_device
from dbtm.kernels.noise import draw
from dbtm.nn import Backbone
from dbtm.simplex import Noise


class Prior:
    """x0 W for the current weights of a network."""

    def __init__(self, model: Backbone):
        self.model = model
        large = model.shape.vocab > model.config.width
        self.factor_DD = cholesky_factor(model.token_embedding) if large else None

    def draw(self, noise: Noise) -> Tensor:
        """x0 W, (B, L, D): of this x0, or with the factor, a draw of the same distribution."""
        if self.factor_DD is None:
            return self.model.embed_noise(noise)
        z_BLD = draw(replace(noise, vocab=len(self.factor_DD)), self.model.dtype)
        return z_BLD @ self.factor_DD.to(self.model.dtype).T


@torch.no_grad()
def cholesky_factor(weight_VD: Tensor) -> Tensor | None:
    """C with C C^T = W^T W, or None if W^T W is not positive definite."""
    wide_VD = weight_VD.to(wide_device(weight_VD.device)).double()
    factor_DD, failed = torch.linalg.cholesky_ex(wide_VD.T @ wide_VD)
    if failed:
        return None
    return factor_DD.to(torch.promote_types(weight_VD.dtype, torch.float32)).to(weight_VD.device)
