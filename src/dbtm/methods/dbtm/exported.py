"""One refinement round as a graph of tensors, for runtimes without PyTorch, and the sampler that runs such rounds.

The graph is a round of alg:btm-sampling-refinement at temperature 0: map, proposal, score, commit. All randomness is
in the input `noise`, so the same noise gives the same tokens in any runtime.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dbtm.core.errors import UsageError
from dbtm.methods.dbtm.network import TransportMap
from dbtm.methods.dbtm.options import Options
from dbtm.methods.dbtm.refine import NOISE
from dbtm.sampling.given import Given
from dbtm.sampling.prior import Prior
from dbtm.sampling.trace import Trace
from dbtm.sampling.watch import Watch
from dbtm.simplex import Noise, spread

INPUTS = ("tokens", "committed", "noise", "rounds_left", "kappa")
OUTPUTS = ("next_tokens", "next_committed", "score", "logits")
SCORERS = ("confidence", "quality", "spread")

Round = Callable[[Tensor, Tensor, Tensor, int, float], tuple[Tensor, Tensor, Tensor]]
"""(tokens, committed, noise, rounds left, kappa) to (tokens, committed, score)."""


def commit_by_rank(score_BL: Tensor, committed_BL: Tensor, rounds_left: Tensor, kappa: Tensor) -> Tensor:
    """`simplex.commit` without a stable sort, which ONNX lacks: a position's rank is the number of better ones."""
    remaining_BL = ~committed_BL
    count_B = (remaining_BL.sum(-1) + rounds_left - 1) // rounds_left
    position = torch.arange(score_BL.shape[-1], device=score_BL.device)
    mine, other = score_BL[:, :, None], score_BL[:, None, :]
    before = (other > mine) | ((other == mine) & (position[None, :] < position[:, None]))
    rank_BL = (before & remaining_BL[:, None, :]).sum(-1)
    return committed_BL | (remaining_BL & ((score_BL >= kappa) | (rank_BL < count_B[:, None])))


class RoundGraph(nn.Module):
    """tokens (B, L), committed (B, L), noise (B, L, N), rounds left, kappa -> tokens, committed, score, logits f.

    At the first round's state (only given tokens are committed) `logits` is the map itself: T = softmax(f). Noise is
    standard normal; N is the smaller of vocabulary and width (sampling/prior.py).
    """

    matrix_ND: Tensor
    by_position_L: Tensor

    def __init__(self, model: TransportMap, scorer: str, sigma: float):
        super().__init__()
        if scorer not in SCORERS:
            raise UsageError(f"a round with scorer '{scorer}' cannot be exported: choose {', '.join(SCORERS)}")
        if model.recall is not None:
            raise UsageError("a map that reads the previous round (model.self_condition=true) cannot be exported")
        self.model, self.scorer = model, scorer
        self.register_buffer("matrix_ND", sigma * noise_matrix(model))
        self.register_buffer("by_position_L", spread(model.shape.length))

    def forward(
        self, tokens: Tensor, committed: Tensor, noise: Tensor, rounds_left: Tensor, kappa: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        h = torch.where(committed[..., None], self.model.embed_tokens(tokens), noise @ self.matrix_ND)
        trunk = self.model.hidden(h)[0]
        logits = self.model.head(trunk)[0]
        best, proposed = logits.max(-1)
        proposed = torch.where(committed, tokens, proposed)
        if self.scorer == "quality":
            score = self.model.quality_logits(trunk, proposed).sigmoid()
        else:
            score = (best - logits.logsumexp(-1)).exp()
        order = self.by_position_L.expand_as(score) if self.scorer == "spread" else score
        return proposed, commit_by_rank(order, committed, rounds_left, kappa), score, logits


def noise_matrix(model: TransportMap) -> Tensor:
    """(N, D): standard normal noise times this is x0 W, in distribution, at sigma 1."""
    factor_DD = Prior(model).factor_DD
    return model.token_embedding.detach().clone() if factor_DD is None else factor_DD.T.contiguous()


@dataclass(frozen=True)
class ExportedRounds:
    """Rounds computed by another runtime, in place of an evaluator."""

    run: Round
    columns: int
    """N, the width of the noise."""
    scorer: str
    sigma: float

    def check(self, options: Options) -> None:
        """Refuse options that the graph does not support."""
        if options.plan:
            raise UsageError("the exported round commits equal numbers of positions: set rounds=equal")
        fixed = {"sampler": "refine", "rule": "commit", "commit": True, "check": 0, "loops": 0, "temperature": 0.0}
        fixed |= {"mean_from": 0, "repetition_penalty": 0.0, "scorer": self.scorer, "sigma": self.sigma}
        for name, value in fixed.items():
            if getattr(options, name) != value:
                raise UsageError(f"the exported round has {name}={value}: leave {name} out, or export another")

    @torch.no_grad()
    def sample(self, given: Given, options: Options, seed: int, watch: Watch) -> Trace:
        """Like `refine`, one round per call; finished samples leave the batch."""
        self.check(options)
        run = watch.counted(self.run)
        tokens_BL, committed_BL = given.tokens.clone(), given.clean.clone()
        score_BL = committed_BL.float()
        active = torch.arange(len(tokens_BL))
        noise_BR, length = given.keys(seed, NOISE, options.nfe), tokens_BL.shape[1]
        for r in range(1, options.nfe + 1):
            key_B = noise_BR[active, r - 1 if options.fresh_noise else 0]
            noise_BLN = Noise(key_B, length, self.columns).dense()
            before, left = committed_BL[active], options.nfe - r + 1
            tokens, committed, score = run(tokens_BL[active], before, noise_BLN, left, options.kappa, rows=active)
            tokens_BL[active], committed_BL[active] = tokens, committed
            score_BL[active] = torch.where(before, score_BL[active], score)
            if watch.tracing:
                watch.round(tokens_BL, committed_BL, score_BL)
            active = active[~committed.all(-1)]
            if not len(active):
                break
        return watch.trace(tokens_BL, given.clean)
