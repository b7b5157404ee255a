"""T_theta = softmax(f_theta): embedding of a simplex state, trunk, head, and the quality head beside it."""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dbtm.config import ModelConfig
from dbtm.core.errors import UsageError
from dbtm.kernels import noise as prior
from dbtm.kernels.dispatch import no_compiling
from dbtm.nn.dit import DiT, Head
from dbtm.nn.layers import Dual, rms_norm, rotary_angles
from dbtm.nn.quality import QualityHead
from dbtm.simplex.interpolant import State, one_hot
from dbtm.simplex.noise import Noise


class TransportMap(nn.Module):
    """The time-free map from a state in (R^V)^L to logits f with T = softmax(f).

    A state enters dense, (B, L, V), or in parts (`State`): clean tokens as gathers, the noise as x0 W, computed once
    and passed along as `noise_BLD` where several states share their noise.
    """

    position_ids: Tensor

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(torch.randn(config.vocab, config.width) * config.embed_std)
        # zero: an untrained map takes no notice of the round before
        self.recall = nn.Parameter(torch.zeros(config.vocab, config.width)) if config.self_condition else None
        self.positions = nn.ParameterList(
            nn.Parameter(torch.randn(size, config.width) * 0.02) for size in config.position_axes
        )
        ids = torch.zeros(config.length, len(config.position_axes), dtype=torch.int64)
        self.register_buffer("position_ids", ids)
        self.trunk = DiT(
            config.width,
            config.depth,
            config.heads,
            config.ffn,
            config.cond_dim,
            config.dropout,
            config.softcap,
            config.gate_init,
            config.loops,
            config.mixers,
            config.taps,
        )
        self.head = Head(config.width, config.vocab)
        self.quality = (
            QualityHead(config.width, config.quality_width, config.quality_depth, config.quality_heads)
            if config.quality
            else None
        )
        self.compute_dtype: torch.dtype | None = None  # None: the dtype of the weights
        self._rotary: dict[tuple, tuple[Tensor, Tensor]] = {}

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the matrix products."""
        return self.compute_dtype or self.embedding.dtype

    def rotary(self, length: int, heads: int, width: int) -> tuple[Tensor, Tensor] | None:
        """Rotary angles for this many heads, kept between calls."""
        if not self.config.rotary:
            return None
        key = (length, width // heads, self.embedding.device, self.dtype)
        if key not in self._rotary:
            self._rotary[key] = rotary_angles(*key)
        return self._rotary[key]

    # -- embedding of a state --------------------------------------------------------------------------------------

    def embed_noise(self, noise: Tensor | Noise) -> Tensor:
        """x0 W: the only way noise enters the map."""
        weight_VD = self.embedding.to(self.dtype)
        return prior.embed(noise, weight_VD) if isinstance(noise, Noise) else noise.to(self.dtype) @ weight_VD

    def embed_tokens(self, tokens_BL: Tensor) -> Tensor:
        """Rows of W. A small vocabulary goes through a product with one-hots: the backward of a gather would add
        thousands of rows into a handful, one after the other.
        """
        if self.config.small_vocab:
            return one_hot(tokens_BL, self.config.vocab, self.dtype) @ self.embedding.to(self.dtype)
        return F.embedding(tokens_BL, self.embedding).to(self.dtype)

    def embed(self, state: State, noise_BLD: Tensor | None = None) -> Dual:
        """x W of a state in parts, and dx W where the state has a rate."""
        noise_BLD = self.embed_noise(state.noise) if noise_BLD is None else noise_BLD
        token_BLD = self.embed_tokens(state.tokens).to(noise_BLD.dtype)
        h = torch.lerp(token_BLD, noise_BLD, state.alpha[..., None].to(noise_BLD.dtype))
        if state.rate is None:
            return h, None
        with torch.no_grad():
            return h, state.rate[..., None].to(noise_BLD.dtype) * (noise_BLD - token_BLD)

    def embed_dense(self, x_BLV: Tensor, dx_BLV: Tensor | None = None) -> Dual:
        """x W of a dense state: the reference, and the way in for states off the interpolant (non-commit mode)."""
        h = self.embed_noise(x_BLV)
        if dx_BLV is None:
            return h, None
        with torch.no_grad():
            return h, self.embed_noise(dx_BLV)

    def condition(self, h: Tensor, previous_BLV: Tensor | None) -> Tensor:
        """Self-conditioning: add T of the round before, embedded by a table of its own; it carries no tangent."""
        if self.recall is None or previous_BLV is None:
            return h
        return h + (previous_BLV.to(self.dtype) @ self.recall.to(self.dtype)).to(h.dtype)

    # -- the map ---------------------------------------------------------------------------------------------------

    def hidden(self, h: Tensor, dh: Tensor | None = None) -> Dual:
        """Embedded state to trunk state, value and tangent, (B, L, D)."""
        residual = torch.promote_types(h.dtype, torch.float32)
        if self.config.input_norm:
            h, dh = rms_norm(h, dh)
        h, dh = h.to(residual), None if dh is None else dh.to(residual)
        for axis, table in enumerate(self.positions):
            h = h + table[self.position_ids[: h.shape[1], axis]]
        rotary = self.rotary(h.shape[1], self.config.heads, self.config.width)
        return self.trunk(h, dh, rotary, self.dtype)

    def logits(self, h: Tensor, dh: Tensor | None = None) -> Dual:
        """Embedded state to logits f and their tangent, (B, L, V)."""
        return self.head(*self.hidden(h, dh))

    def forward(self, x: State | Tensor) -> Tensor:
        """T(x) for a state in parts or a dense (B, L, V) tensor."""
        h, _ = self.embed_dense(x) if isinstance(x, Tensor) else self.embed(x)
        return self.logits(h)[0].softmax(-1)

    def quality_logits(self, trunk_BLD: Tensor, tokens_BL: Tensor) -> Tensor:
        """Logits of q_phi for proposed tokens, from a trunk state of `hidden`; no gradient reaches the map."""
        if self.quality is None:
            raise ValueError("this map has no quality head: set model.quality=true")
        rotary = self.rotary(trunk_BLD.shape[1], self.quality.heads, self.config.quality_width)
        return self.quality(trunk_BLD, self.embedding[tokens_BL].detach(), rotary)

    @torch.no_grad()
    def fix(self) -> "TransportMap":
        """Fold constants into the matrices they stand next to, for sampling. Undone by whatever may change the weights:
        training mode, loading, moving to another device or dtype.
        """
        self.trunk.fix(self.dtype)
        if self.quality is not None:
            self.quality.fix(self.dtype)
        return self

    def unfix(self) -> None:
        for module in self.modules():
            if hasattr(module, "fixed"):
                setattr(module, "fixed", None)  # noqa: B010 - some modules have it, and it is no submodule

    def _apply(self, fn, recurse=True):
        self.unfix()
        return super()._apply(fn, recurse)

    def train(self, mode: bool = True) -> "TransportMap":
        if mode:
            self.unfix()
        return super().train(mode)

    def load_state_dict(self, *args, **options):
        self.unfix()
        return super().load_state_dict(*args, **options)

    def compile_layers(self, **options) -> None:
        """Compile what is repeated: once for every kind of pass and size, reused for every block and loop."""
        if options.get("backend", "inductor") == "inductor" and (why := no_compiling(self.embedding.device)):
            raise UsageError(f"the map's blocks cannot be compiled here: {why}")
        torch._dynamo.config.recompile_limit = 32  # passes with and without tangents, of several sizes
        for layer in self.repeated():
            layer.compile(**options)

    def repeated(self) -> Iterator[nn.Module]:
        """The modules that are worth compiling: the blocks, and the quality head's layers."""
        yield from self.trunk.blocks
        if self.quality is not None:
            yield from self.quality.layers
