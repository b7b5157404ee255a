"""T_theta = softmax(f_theta), the time-free map, and its quality head."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from dbtm.config import ModelConfig, Shape
from dbtm.methods.dbtm.config import QualityConfig
from dbtm.nn import Backbone
from dbtm.nn.quality import QualityHead


class TransportMap(Backbone):
    """The map from a state in (R^V)^L to logits f with T = softmax(f)."""

    def __init__(self, shape: Shape, config: ModelConfig, quality: QualityConfig | None = None):
        super().__init__(shape, config)
        self.quality = (
            QualityHead(config.width, quality.width, quality.depth, quality.heads)
            if quality is not None and quality.enabled
            else None
        )

    def embed_known(self, tokens_BL: Tensor, known_BL: Tensor) -> Tensor:
        """x W with unknown positions at 1/V, the barycentre of the simplex.

        It is the prior's mean 0 up to a shift along the ones, which softmax ignores. At 0, a row without known tokens
        would be 0 in every block, where a norm multiplies the gradient by 1 / sqrt(eps): it overflows in deep networks.
        """
        token_BLD = self.embed_tokens(tokens_BL)
        return torch.where(known_BL[..., None], token_BLD, self.token_embedding.mean(0).to(token_BLD.dtype))

    def quality_logits(self, trunk_BLD: Tensor, tokens_BL: Tensor) -> Tensor:
        """Logits of q_phi for proposed tokens, from a trunk state of `hidden`; no gradient reaches the map."""
        if self.quality is None:
            raise ValueError("this map has no quality head: set method.quality.enabled=true")
        rotary = self.rotary(trunk_BLD.shape[1], self.quality.heads, self.quality.width)
        logits: Tensor = self.quality(trunk_BLD, self.embedding[tokens_BL].detach(), rotary)
        return logits

    @torch.no_grad()
    def fold(self) -> "TransportMap":
        super().fold()
        if self.quality is not None and self.foldable:
            self.quality.keep_folded(self.dtype)
        return self

    def repeated(self) -> Iterator[nn.Module]:
        yield from super().repeated()
        if self.quality is not None:
            yield from self.quality.layers
