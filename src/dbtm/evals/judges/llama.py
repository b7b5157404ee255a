"""A Llama in plain PyTorch, for scoring text: RMS norms, rotary positions, grouped queries, SwiGLU.

The modules carry the names that GGUF gives their weights (`blk.0.attn_q.weight`), so a file's tensors load as they are.

Rotary positions turn pairs of a head's numbers. GGUF files of the architecture `llama` hold query and key rows permuted
so that a pair is two neighbours, (x_0, x_1), (x_2, x_3) ...; checkpoints in Hugging Face's order pair the first half of
a head with the second. `unpermute` turns the former order into the latter, which is the one computed with here.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dbtm.core.device import wide_device


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of a Llama."""

    vocab: int
    width: int
    depth: int
    heads: int
    kv_heads: int
    ffn: int
    context: int
    rope_base: float = 10_000.0
    eps: float = 1e-5
    tied: bool = True  # the output projection is the embedding

    @property
    def head_dim(self) -> int:
        return self.width // self.heads


def unpermute(weight: Tensor, heads: int) -> Tensor:
    """Query or key rows (H d, D) from neighbours-are-pairs to halves-are-pairs."""
    return weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def rotary(length: int, dim: int, base: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos and sin of position times base^(-2i/d), (L, d / 2), from float64."""
    at = wide_device(device)
    frequency = base ** (-torch.arange(0, dim, 2, device=at, dtype=torch.float64) / dim)
    angle = torch.arange(length, device=at, dtype=torch.float64)[:, None] * frequency
    return angle.cos().float().to(device), angle.sin().float().to(device)


def rotate(x_BHLd: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (x_i, x_{i + d/2}) by their position's angle."""
    a, b = x_BHLd.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1).to(x_BHLd.dtype)


class Block(nn.Module):
    """Attention and SwiGLU, each on the normalised state and added to it."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        width, kv = config.width, config.kv_heads * config.head_dim
        self.heads, self.kv_heads = config.heads, config.kv_heads
        self.attn_norm, self.ffn_norm = (nn.RMSNorm(width, eps=config.eps) for _ in range(2))
        self.attn_q, self.attn_output = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.attn_k, self.attn_v = (nn.Linear(width, kv, bias=False) for _ in range(2))
        self.ffn_gate, self.ffn_up = (nn.Linear(width, config.ffn, bias=False) for _ in range(2))
        self.ffn_down = nn.Linear(config.ffn, width, bias=False)

    def forward(self, x_BLD: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        h = self.attn_norm(x_BLD).to(self.attn_q.weight.dtype)
        q = self.attn_q(h).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (f(h).unflatten(-1, (self.kv_heads, -1)).transpose(1, 2) for f in (self.attn_k, self.attn_v))
        k, v = (t.repeat_interleave(self.heads // self.kv_heads, dim=1) for t in (rotate(k, cos, sin), v))
        mixed = F.scaled_dot_product_attention(rotate(q, cos, sin), k, v, is_causal=True)
        x_BLD = x_BLD + self.attn_output(mixed.transpose(1, 2).flatten(2))
        h = self.ffn_norm(x_BLD).to(self.ffn_gate.weight.dtype)
        return x_BLD + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))


class Llama(nn.Module):
    """Tokens to the state before the output projection. State and norms are float32, whatever the products are."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        self.config = config
        self.token_embd = nn.Embedding(config.vocab, config.width)
        self.blk = nn.ModuleList(Block(config) for _ in range(config.depth))
        self.output_norm = nn.RMSNorm(config.width, eps=config.eps)
        self.output = nn.Linear(config.width, config.vocab, bias=False)
        if config.tied:
            self.output.weight = self.token_embd.weight

    def lower(self, dtype: torch.dtype) -> "Llama":
        """Weights of the products in another dtype; the norms stay float32."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                module.to(dtype)
        return self

    def hidden(self, ids_BL: Tensor) -> Tensor:
        """(B, L, D) float32: the normalised last state. Padding on the right changes nothing to its left."""
        x = self.token_embd(ids_BL).float()
        cos, sin = rotary(ids_BL.shape[1], self.config.head_dim, self.config.rope_base, ids_BL.device)
        for block in self.blk:
            x = block(x, cos, sin)
        return self.output_norm(x)
