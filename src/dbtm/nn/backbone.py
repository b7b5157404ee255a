"""The network shared by all methods: embedded tokens, noise or both, a DiT trunk, a head over the vocabulary.

A method selects what it needs: zero, one or two time inputs; extra input ids (a mask, a start); a causal trunk with a
cache; a tangent besides the value. Parts that a method does not select are not built.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dbtm.config import ModelConfig, Shape
from dbtm.core.errors import UsageError
from dbtm.kernels import noise as prior
from dbtm.kernels.dispatch import no_compiling
from dbtm.nn.cache import Cache
from dbtm.nn.dit import DiT, Head
from dbtm.nn.layers import Dual, rms_norm, rotary_angles
from dbtm.simplex.interpolant import State, one_hot
from dbtm.simplex.noise import Noise


class Backbone(nn.Module):
    """Embedding, trunk, head.

    Input ids 0..vocab - 1 are the task's tokens; the `extra_ids` after them belong to the method and are embedded but
    never predicted. A state on the simplex is dense, (B, L, V), or in parts (`State`): clean tokens as gathers, noise
    as x0 W, computed once and passed as `noise_BLD` if several states share their noise.
    """

    position_ids: Tensor

    def __init__(
        self,
        shape: Shape,
        config: ModelConfig,
        extra_ids: int = 0,
        causal: bool = False,
        times: int = 0,
        per_token: bool = False,
        sum_first: bool = False,
    ):
        """`times`: number of time inputs; `per_token`: the times are given per token, which its cost accounts for;
        `sum_first`: add the embeddings of several times before the last activation.
        """
        super().__init__()
        self.per_token = per_token
        if causal and "gdn" in config.mixers:
            raise UsageError(
                "model.backbone=delta is bidirectional and has no causal form: set model.backbone=attention"
            )
        self.shape, self.config = shape, config
        self.embedding = nn.Parameter(torch.randn(shape.vocab + extra_ids, config.width) * config.embed_std)
        # zero: an untrained network ignores the previous round
        self.recall = nn.Parameter(torch.zeros(shape.vocab, config.width)) if config.self_condition else None
        self.positions = nn.ParameterList(
            nn.Parameter(torch.randn(size, config.width) * 0.02) for size in config.position_axes
        )
        ids = torch.zeros(shape.length, len(config.position_axes), dtype=torch.int64)
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
            config.conv_width,
            causal,
            times,
            sum_first,
        )
        self.head = Head(config.width, shape.vocab)
        self.compute_dtype: torch.dtype | None = None  # None: the dtype of the weights
        self.foldable = True  # False for sharded weights: folded ones would be unsharded
        self._rotary: dict[tuple[Any, ...], tuple[Tensor, Tensor]] = {}

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the matrix products."""
        return self.compute_dtype or self.embedding.dtype

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    @property
    def token_embedding(self) -> Tensor:
        """W, the rows of the task's tokens only, (V, D)."""
        extra = len(self.embedding) > self.shape.vocab
        return self.embedding[: self.shape.vocab] if extra else self.embedding

    def rotary(self, length: int, heads: int, width: int) -> tuple[Tensor, Tensor]:
        """Rotary angles for this many heads, cached."""
        key = (length, width // heads, self.embedding.device, self.dtype)
        if key not in self._rotary:
            self._rotary[key] = rotary_angles(*key)
        return self._rotary[key]

    # -- embedding -------------------------------------------------------------------------------------------------

    def embed_noise(self, noise: Tensor | Noise) -> Tensor:
        """x0 W: the only way noise enters a network."""
        weight_VD = self.token_embedding.to(self.dtype)
        return prior.embed(noise, weight_VD) if isinstance(noise, Noise) else noise.to(self.dtype) @ weight_VD

    def embed_tokens(self, tokens_BL: Tensor) -> Tensor:
        """Rows of W. A small vocabulary uses a product with one-hots: the backward of a gather would add thousands of
        rows into a few, sequentially.
        """
        if self.shape.small_vocab:
            return one_hot(tokens_BL, len(self.embedding), self.dtype) @ self.embedding.to(self.dtype)
        return F.embedding(tokens_BL, self.embedding).to(self.dtype)

    def embed(self, state: State, noise_BLD: Tensor | None = None) -> Dual:
        """x W of a state in parts, and dx W if the state has a rate."""
        noise_BLD = self.embed_noise(state.noise) if noise_BLD is None else noise_BLD
        token_BLD = self.embed_tokens(state.tokens).to(noise_BLD.dtype)
        h = torch.lerp(token_BLD, noise_BLD, state.alpha[..., None].to(noise_BLD.dtype))
        if state.rate is None:
            return h, None
        with torch.no_grad():
            return h, state.rate[..., None].to(noise_BLD.dtype) * (noise_BLD - token_BLD)

    def embed_dense(self, x_BLV: Tensor, dx_BLV: Tensor | None = None) -> Dual:
        """x W of a dense state: the reference, and the input for states off the interpolant (non-commit mode)."""
        h = self.embed_noise(x_BLV)
        if dx_BLV is None:
            return h, None
        with torch.no_grad():
            return h, self.embed_noise(dx_BLV)

    def condition(self, h: Tensor, previous_BLV: Tensor | None) -> Tensor:
        """Self-conditioning: add the previous round's distribution, embedded by a separate table; no tangent."""
        if self.recall is None or previous_BLV is None:
            return h
        return h + (previous_BLV.to(self.dtype) @ self.recall.to(self.dtype)).to(h.dtype)

    # -- the network -----------------------------------------------------------------------------------------------

    def hidden(
        self,
        h: Tensor,
        dh: Tensor | None = None,
        times: tuple[Tensor, ...] = (),
        rates: tuple[Tensor | None, ...] | None = None,
        cache: Cache | None = None,
        loops: int | None = None,
    ) -> Dual:
        """Embedded input to trunk state, value and tangent, (B, L, D).

        `times` are (B,) or (B, L), one per time input; `rates` are their tangents. With a `cache`, the input continues
        after the cached positions. `loops`, only for a network without times, overrides the number of loops of the
        blocks set by `looped` or by the configuration.
        """
        residual = torch.promote_types(h.dtype, torch.float32)
        if self.config.input_norm:
            h, dh = rms_norm(h, dh)
        h, dh = h.to(residual), None if dh is None else dh.to(residual)
        first = 0 if cache is None else cache.length
        last = first + h.shape[1]
        for axis, table in enumerate(self.positions):
            h = h + table[self.position_ids[first:last, axis]]
        rotary = self.rotary(last, self.config.heads, self.config.width)
        if first:
            rotary = rotary[0][first:], rotary[1][first:]
        more: dict[str, object] = {}
        if times or self.trunk.times:
            moving = None if rates is None else tuple(None if dt is None else dt.to(residual) for dt in rates)
            more["condition"] = self.trunk.time(tuple(t.to(residual) for t in times), moving)
        if cache is not None:
            more["cache"], cache.length = cache, last
        if loops is not None:
            more["loops"] = loops
        out: Dual = self.trunk(h, dh, rotary, self.dtype, **more)
        return out

    @contextmanager
    def looped(self, loops: int) -> Iterator[None]:
        """A context in which passes apply the blocks so many times: for training, where one thread owns the network."""
        before, self.trunk.loops = self.trunk.loops, loops
        try:
            yield
        finally:
            self.trunk.loops = before

    def logits(self, h: Tensor, dh: Tensor | None = None, times: tuple[Tensor, ...] = ()) -> Dual:
        """Embedded input to logits and their tangent, (B, L, V)."""
        out: Dual = self.head(*self.hidden(h, dh, times))
        return out

    def forward(self, x: State | Tensor) -> Tensor:
        """softmax of the logits for a state in parts or a dense (B, L, V) tensor."""
        h, _ = self.embed_dense(x) if isinstance(x, Tensor) else self.embed(x)
        return self.logits(h)[0].softmax(-1)

    # -- constants folded into matrices, and compilation --------------------------------------------------------------

    @torch.no_grad()
    def fold(self) -> "Backbone":
        """Fold constants into the adjacent matrices, for sampling. Undone by anything that may change the weights:
        training mode, loading, moving to another device or dtype.
        """
        if self.foldable:
            self.trunk.keep_folded(self.dtype)
        return self

    def touch(self, x: Tensor | None) -> Tensor | None:
        """A copy of x: an entry into the network without computation, for hooks on weights before or after a pass
        (train/sharding.py).
        """
        return None if x is None else x.clone()

    def unfold(self) -> None:
        for module in self.modules():
            for name in ("kept", "folded_dtype"):
                if hasattr(module, name):
                    setattr(module, name, None)

    def folded(self) -> tuple[Any, ...]:
        """The matrices created by `fold`."""
        return tuple(getattr(module, "kept", None) for module in self.modules())

    def version(self) -> tuple[Any, ...]:
        """Changes when weights or folded constants change, as long as the folded ones are kept alive. Anything derived
        from them must then be rebuilt.
        """
        weight = self.embedding
        return weight.data_ptr(), weight._version, self.dtype, *map(id, self.folded())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Backbone":
        self.unfold()
        apply: Callable[..., Any] = super()._apply  # PyTorch does not annotate it
        apply(fn, recurse)
        return self

    def train(self, mode: bool = True) -> "Backbone":
        if mode:
            self.unfold()
        return super().train(mode)

    def load_state_dict(self, *args: Any, **options: Any) -> Any:
        self.unfold()
        return super().load_state_dict(*args, **options)

    def compile_layers(self, **options: Any) -> None:
        """Compile the repeated modules: once per kind of pass and size, reused for every block and loop."""
        if options.get("backend", "inductor") == "inductor" and (why := no_compiling(self.embedding.device)):
            raise UsageError(f"the network's blocks cannot be compiled here: {why}")
        torch._dynamo.config.recompile_limit = 32  # passes with and without tangents, of several sizes
        for layer in self.repeated():
            layer.compile(**options)

    def repeated(self) -> Iterator[nn.Module]:
        """The modules worth compiling."""
        yield from self.trunk.blocks
