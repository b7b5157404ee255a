"""The sizes of the network that all methods share (nn/backbone.py)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from dbtm.core.errors import UsageError
from dbtm.core.settings import Section

PATTERN = "gdn,gdn,gdn,attn"  # the paper's (app:language-exp-details)
LIMITS = {
    "width": 1 << 17, "depth": 4096, "heads": 4096, "ffn": 256, "cond_dim": 1 << 17, "loops": 1024, "conv_width": 256
}  # fmt: skip
"""Largest sizes: an untrusted configuration must not use up memory or time before its weights are checked."""


@dataclass(frozen=True)
class Shape:
    """The sizes that a task fixes: tokens 0..vocab - 1, sequences of one length."""

    vocab: int
    length: int

    @property
    def small_vocab(self) -> bool:
        """True if dense products over the vocabulary are cheaper than gathers and selections."""
        return self.vocab <= 64


@dataclass(frozen=True)
class ModelConfig(Section):
    """The backbone. Vocabulary and length come from the task, the heads from the method."""

    section: ClassVar[str] = "model"

    width: int = 768
    """Channels of the residual stream."""
    depth: int = 12
    """Blocks."""
    heads: int = 12
    """Attention heads per block."""
    ffn: int = 4
    """Hidden width of the feed-forward, as a multiple of width."""
    cond_dim: int = 128
    """Dimension of adaLN's input: a learned constant, or the embedding of a time."""
    dropout: float = 0.1
    """Dropout on the residual branches."""
    softcap: float = 50.0
    """tanh cap on attention logits; 0 is off."""
    conv_width: int = 0
    """Width of a short convolution on attention's queries, keys and values; 0 is off."""
    backbone: Literal["attention", "delta"] = "attention"
    """delta: linear time in the length, with blocks as in `pattern`."""
    pattern: str = PATTERN
    """Blocks of the delta backbone, repeated over the depth: gdn (delta rule) or attn (attention)."""
    loops: int = 1
    """How many times the stack of blocks is applied (weight-tied depth)."""
    position_axes: tuple[int, ...] = ()
    """Sizes of learned position tables; the task gives each position's entry."""
    input_norm: bool = False
    """RMS norm on the embedded input."""
    self_condition: bool = False
    """A refinement round also reads the previous round's distribution."""
    gate_init: float = 0.0
    """Initial value of adaLN's residual gates."""
    embed_std: float = 0.02
    """Standard deviation of the initial embedding."""

    def __post_init__(self):
        self.positive("width", "depth", "heads", "ffn", "cond_dim", "loops", "embed_std")
        self.not_negative("conv_width")
        for name, most in LIMITS.items():
            self.in_range(0, most, name)
        if not 0 <= self.dropout < 1:
            raise UsageError(f"model.dropout={self.dropout} must be at least 0 and below 1")
        check_heads("model", self.width, self.heads)
        if not 0 <= self.softcap < math.inf:
            raise UsageError(f"model.softcap={self.softcap} must be 0 (off) or positive")
        if not set(self.pattern.split(",")) <= {"gdn", "attn"}:
            raise UsageError(
                f"model.pattern={self.pattern} must be comma-separated blocks, each gdn (delta rule) or attn "
                f"(attention), such as {PATTERN}"
            )
        if self.pattern != PATTERN and self.backbone != "delta":
            raise UsageError(f"model.pattern={self.pattern} is for the delta backbone: set model.backbone=delta too")
        if self.pattern != PATTERN and self.pattern.count(",") >= self.depth:
            raise UsageError(f"model.pattern={self.pattern} is longer than the map, model.depth={self.depth}")

    @property
    def mixers(self) -> tuple[str, ...]:
        """The mixer of each block: attn or gdn."""
        kinds = self.pattern.split(",") if self.backbone == "delta" else ["attn"]
        return tuple(kinds[block % len(kinds)] for block in range(self.depth))


def check_heads(section: str, width: int, heads: int) -> None:
    """Rotary pairs need heads of an even size."""
    if width % (2 * heads):
        raise UsageError(
            f"{section}.width={width} must be a multiple of 2 x {section}.heads (= {2 * heads}), so that every head "
            "has an even size"
        )
