"""A backbone that also reads one number per sequence, as an extra element after the sequence."""

import math

import torch
from torch import Tensor, nn

from dbtm.config import ModelConfig, Shape
from dbtm.nn.backbone import Backbone
from dbtm.nn.cache import Cache
from dbtm.nn.layers import Dual, rms_norm

FEATURES, HIDDEN, SCALE = 128, 512, 1_000.0
MAX_PERIOD = 10_000.0


class LatentBackbone(Backbone):
    """The latent goes through sinusoids and a small MLP; its element has no rotary phase and no output."""

    def __init__(self, shape: Shape, config: ModelConfig, extra_ids: int = 0, times: int = 0):
        super().__init__(shape, config, extra_ids=extra_ids, times=times)
        self.latent = nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, config.width))

    def embed_latent(self, latent_B: Tensor) -> Tensor:
        """(B, 1, D)."""
        half = FEATURES // 2
        frequency = torch.exp(-math.log(MAX_PERIOD) * torch.arange(half, device=latent_B.device) / half)
        angle = SCALE * latent_B.to(frequency.dtype)[:, None] * frequency
        features = torch.cat((angle.cos(), angle.sin()), -1)
        return self.latent(features.to(self.embedding.dtype))[:, None]

    def hidden(
        self,
        h: Tensor,
        dh: Tensor | None = None,
        times: tuple[Tensor, ...] = (),
        rates: tuple[Tensor | None, ...] | None = None,
        cache: Cache | None = None,
        loops: int | None = None,
        latent_B: Tensor | None = None,
    ) -> Dual:
        """Same as for a Backbone, with a latent per sequence (default: one half), and without tangents."""
        assert dh is None
        assert rates is None
        assert cache is None
        assert loops is None
        residual, length = torch.promote_types(h.dtype, torch.float32), h.shape[1]
        if self.config.input_norm:
            h, _ = rms_norm(h, None)
        h = h.to(residual)
        for axis, table in enumerate(self.positions):
            h = h + table[self.position_ids[:length, axis]]
        latent_B = torch.full((len(h),), 0.5, device=h.device) if latent_B is None else latent_B
        h = torch.cat((h, self.embed_latent(latent_B).to(residual)), 1)
        cos, sin = self.rotary(length, self.config.heads, self.config.width)
        rotary = torch.cat((cos, torch.ones_like(cos[:1]))), torch.cat((sin, torch.zeros_like(sin[:1])))
        more: dict[str, object] = {}
        if times or self.trunk.times:
            more["condition"] = self.trunk.time(tuple(t.to(residual) for t in times), None)
        value, _ = self.trunk(h, None, rotary, self.dtype, **more)
        return value[:, :length], None
