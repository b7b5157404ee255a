"""The quality head q_phi (sec:quality-correct): the probability that a proposed token is right."""

import torch
from torch import Tensor, nn

from dbtm.nn.layers import Affine, Attention, FeedForward, LayerNorm, Linear, rms_norm


class QualityLayer(nn.Module):
    """A plain pre-norm transformer layer; the head carries no tangent."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm_1, self.norm_2 = LayerNorm(width), LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed_forward = FeedForward(width, 2, bias=False)
        self.folded_dtype: torch.dtype | None = None  # dtype of the folded matrices, see `keep_folded`

    def keep_folded(self, dtype: torch.dtype) -> None:
        """Fold the norms' weights into the matrices, until the weights change."""
        self.attention.keep_folded(Affine(scale=self.norm_1.weight), dtype)
        self.feed_forward.keep_folded(Affine(scale=self.norm_2.weight), dtype)
        self.folded_dtype = dtype

    def forward(self, x: Tensor, rotary, dtype: torch.dtype) -> Tensor:
        folded = self.folded_dtype == dtype
        first, second = (Affine() if folded else Affine(scale=norm.weight) for norm in (self.norm_1, self.norm_2))
        x = x + self.attention(self.norm_1.unit(x)[0].to(dtype), None, rotary, first)[0]
        return x + self.feed_forward(self.norm_2.unit(x)[0].to(dtype), None, second)[0]


class QualityHead(nn.Module):
    """Reads the detached trunk state and the proposed token's embedding; returns one logit per position.

    Four layers of width 256 with a feed-forward factor of 2: this fits the paper's total of 171.9M parameters for
    OpenWebText.
    """

    def __init__(self, trunk_width: int, width: int = 256, depth: int = 4, heads: int = 4):
        super().__init__()
        self.heads, self.width = heads, width
        self.project = Linear(trunk_width, width)
        self.layers = nn.ModuleList(QualityLayer(width, heads) for _ in range(depth))
        self.norm = LayerNorm(width)
        self.out = Linear(width, 1, bias=True, gain=0.0)

    def keep_folded(self, dtype: torch.dtype) -> None:
        for layer in self.layers:
            assert isinstance(layer, QualityLayer)
            layer.keep_folded(dtype)

    def forward(self, trunk_BLD: Tensor, token_embedding_BLD: Tensor, rotary) -> Tensor:
        """Logits of q_phi, (B, L)."""
        trunk, token = rms_norm(trunk_BLD.detach())[0], rms_norm(token_embedding_BLD.detach())[0]
        dtype = trunk_BLD.dtype
        x = self.project((trunk + token).to(dtype))[0].to(trunk.dtype)
        for layer in self.layers:
            x = layer(x, rotary, dtype)
        return self.out(self.norm(x)[0])[0].squeeze(-1)
