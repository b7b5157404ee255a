"""A flow's output from a trunk state: distributions over tokens, with capped logits, for some positions at a time."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from dbtm.losses.head import cross_entropy
from dbtm.losses.soft_head import Target, capped, distribution_head
from dbtm.nn import Backbone
from dbtm.sampling.decode import draw_categorical
from dbtm.simplex import one_hot

BUDGET = 2**28  # bytes of one chunk's logits


class Prediction(NamedTuple):
    """The prediction at the requested positions; elsewhere token 0, probability 1, and mean 0."""

    tokens: Tensor  # (B, L) int64: the most likely token, or a drawn one
    top: Tensor  # (B, L) probability of the most likely token
    mean: Tensor | None  # (B, L, D) D W, the mean embedding
    recall: Tensor | None = None  # (B, L, D) the same with the self-conditioning table, if any


@dataclass(frozen=True)
class Readout:
    """The head of a network with its cap."""

    network: Backbone
    cap: float

    def logits(self, trunk_nD: Tensor) -> Tensor:
        """(n, V), float32 or wider, as a constant."""
        with torch.no_grad():
            return capped(self.network.head(trunk_nD)[0], self.cap)

    def probabilities(self, trunk_nD: Tensor) -> Tensor:
        return self.logits(trunk_nD).softmax(-1)

    @torch.no_grad()
    def predict(
        self,
        trunk_BLD: Tensor,
        where_BL: Tensor,
        mean: bool = False,
        temperature: float = 0.0,
        uniform_BL: Tensor | None = None,
    ) -> Prediction:
        """Tokens, confidence and mean embeddings of the distributions at some positions."""
        network, states = self.network, trunk_BLD.flatten(0, 1)
        wide = torch.promote_types(trunk_BLD.dtype, torch.float32)
        tokens = torch.zeros_like(where_BL, dtype=torch.int64)
        top = torch.ones(where_BL.shape, dtype=wide, device=where_BL.device)
        weight_VD = network.token_embedding.to(trunk_BLD.dtype)
        means = trunk_BLD.new_zeros(*where_BL.shape, weight_VD.shape[1]) if mean else None
        table_VD = None if network.recall is None else network.recall.to(trunk_BLD.dtype)
        recalls = None if means is None or table_VD is None else torch.zeros_like(means)
        for at in where_BL.flatten().nonzero().squeeze(-1).split(self._at_once(wide)):
            logits = self.logits(states[at])
            p = logits.softmax(-1)
            best, token = p.max(-1)
            if temperature and uniform_BL is not None:
                token = draw_categorical(logits, uniform_BL.flatten()[at], temperature)
            tokens.view(-1)[at], top.view(-1)[at] = token, best
            if means is not None:
                means.view(-1, means.shape[-1])[at] = p.to(weight_VD.dtype) @ weight_VD
            if recalls is not None and table_VD is not None:
                recalls.view(-1, recalls.shape[-1])[at] = p.to(table_VD.dtype) @ table_VD
        return Prediction(tokens, top, means, recalls)

    @torch.no_grad()
    def mean_embedding(self, trunk_BLD: Tensor) -> Tensor:
        """D W at every position, (B, L, D)."""
        weight_VD, states = self.network.token_embedding.to(trunk_BLD.dtype), trunk_BLD.flatten(0, 1)
        chunks = states.split(self._at_once(torch.promote_types(trunk_BLD.dtype, torch.float32)))
        means = [self.probabilities(chunk).to(weight_VD.dtype) @ weight_VD for chunk in chunks]
        return torch.cat(means).unflatten(0, trunk_BLD.shape[:2])

    def recalled(self, trunk_BLD: Tensor) -> Tensor:
        """D R for the self-conditioning table R, (B, L, D); only R gets a gradient."""
        assert self.network.recall is not None
        states = trunk_BLD.detach().flatten(0, 1)
        at_once = self._at_once(torch.promote_types(trunk_BLD.dtype, torch.float32))
        return _Mean.apply(self.network.recall, states, self, at_once).unflatten(0, trunk_BLD.shape[:2])

    def token_loss(
        self,
        trunk_BLD: Tensor,
        tokens_BL: Tensor,
        beta_BL: Tensor,
        rows: Tensor,
        adaptive: tuple[float, float] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """sum_l beta_l w CE(D_l, token_l) under autograd, and w CE (B, L); w = sg[(|D - token|^2 + c)^-r] if
        `adaptive` = (c, r) is given, else 1.
        """
        if not self.cap and adaptive is None:
            return cross_entropy(trunk_BLD, self.network.head, tokens_BL, beta_BL, rows)
        tokens, wide = tokens_BL.flatten(), torch.promote_types(trunk_BLD.dtype, torch.float32)
        vertices = lambda index: one_hot(tokens[index], self.network.shape.vocab, wide)  # noqa: E731
        return self.loss(trunk_BLD, vertices, beta_BL, rows, adaptive=adaptive)

    def loss(
        self,
        trunk_BLD: Tensor,
        target: Target,
        beta_BL: Tensor,
        rows: Tensor,
        divergence: bool = False,
        adaptive: tuple[float, float] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The same with distributions as targets, requested by position, numbered through the batch; `divergence`: KL
        instead of the cross-entropy.
        """
        head, h, beta = self.network.head, trunk_BLD.flatten(0, 1), beta_BL.flatten()
        loss, per_row = distribution_head(h, head, target, beta, rows, self.cap, divergence, adaptive)
        return loss, per_row.view_as(beta_BL)

    def _at_once(self, dtype: torch.dtype) -> int:
        return max(1, BUDGET // (2 * dtype.itemsize * self.network.shape.vocab))


class _Mean(torch.autograd.Function):
    """D R of rows of trunk states; D is recomputed in the backward pass."""

    @staticmethod
    def forward(ctx, table_VD: Tensor, states: Tensor, readout: Readout, at_once: int) -> Tensor:
        ctx.states, ctx.readout, ctx.at_once, ctx.kind = states, readout, at_once, table_VD.dtype
        table = table_VD.to(states.dtype)
        return torch.cat([readout.probabilities(x).to(table.dtype) @ table for x in states.split(at_once)])

    @staticmethod
    def backward(ctx, gradient: Tensor):
        wide = torch.promote_types(gradient.dtype, torch.float32)
        total: Tensor | None = None
        for x, g in zip(ctx.states.split(ctx.at_once), gradient.split(ctx.at_once), strict=True):
            part = ctx.readout.probabilities(x).to(wide).T @ g.to(wide)
            total = part if total is None else total + part
        assert total is not None
        return total.to(ctx.kind), None, None, None
