"""Renoise and remap (alg:btm-sampling-refinement): every round is one network evaluation.

    x <- noise, given tokens clean
    for r = 1 .. k:
        f <- map(x);  x_hat <- argmax f (or a sample);  q <- confidence of x_hat, or the quality head
        C_r <- C_{r-1} + {q >= kappa} + the n_r best of the rest              (eq:commit-rule)
        x <- x_hat on C_r, fresh noise elsewhere                              (commit)
          or T(x) on C_r, fresh noise elsewhere                               (non-commit)

A sample stops by itself when all its positions are committed; it then leaves the batch.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from dbtm import rng
from dbtm.config import SampleConfig
from dbtm.nn import TransportMap
from dbtm.sampling.decode import count_committed, propose
from dbtm.sampling.trace import Round, Trace
from dbtm.simplex import State, commit
from dbtm.simplex.commit import top

# streams of random numbers; a sample's noise depends on (seed, sample index, round) only
NOISE, CHOICE = 100, 101


@dataclass(frozen=True)
class Given:
    """What is given of a batch: tokens (B, L) that count where clean (B, L) is true - prompt, suffix, any infilling."""

    tokens: Tensor
    clean: Tensor
    index: Tensor  # (B,) sample indices, for the noise

    def rows(self, keep: Tensor) -> "Given":
        return Given(self.tokens[keep], self.clean[keep], self.index[keep])


def noise(model: TransportMap, given: Given, seed: int, round: int, sigma: float) -> Tensor:
    """x0 of a round, (B, L, V)."""
    key = rng.fold(seed, NOISE, given.index, round)
    dtype = torch.promote_types(model.dtype, torch.float32)
    return sigma * rng.normal(key, given.tokens.shape[1], model.config.vocab, dtype=dtype)


@torch.no_grad()
def refine(model: TransportMap, given: Given, options: SampleConfig, seed: int = 0, trace: bool = False) -> Trace:
    """Generate everything that is not given, in at most `options.nfe` network evaluations."""
    full, active = given, torch.arange(len(given.tokens), device=given.tokens.device)
    tokens_BL, committed_BL = given.tokens.clone(), given.clean.clone()
    score_BL = committed_BL.float()
    nfe_B = torch.zeros(len(tokens_BL), dtype=torch.int64, device=tokens_BL.device)
    held: Tensor | None = None  # non-commit mode: the mask of what the last round holds
    p: Tensor | None = None  # distributions of the last round, where this one reads them
    rounds = []
    for r in range(1, options.nfe + 1):
        now = full.rows(active)
        x0_BLV = noise(model, now, seed, r if options.fresh_noise else 1, options.sigma or 1.0)
        tokens, committed = tokens_BL[active], committed_BL[active]
        state = State(tokens, (~committed).to(x0_BLV.dtype), x0_BLV)
        if held is None or p is None:
            h, _ = model.embed(state)
        else:
            h, _ = model.embed_dense(torch.where(held[..., None], p, state.dense()))
        trunk, _ = model.hidden(model.condition(h, p))
        logits, _ = model.head(trunk)
        proposed, score = _score(model, trunk, logits, tokens, committed, options, rng.fold(seed, CHOICE, now.index, r))
        tokens = torch.where(committed, tokens, proposed)
        score = torch.where(now.clean, 1.0, score)
        if options.commit:
            committed = commit(score, committed, r, options.nfe, options.kappa)
        else:
            held = _hold(score, now.clean, r, options)
        if not options.commit or model.recall is not None:
            p = logits.softmax(-1)
        tokens_BL[active], committed_BL[active], score_BL[active] = tokens, committed, score.to(score_BL.dtype)
        nfe_B[active] = r
        if trace:
            shown = committed_BL if options.commit else (full.clean | held if held is not None else full.clean)
            rounds.append(
                Round(tokens_BL.cpu().numpy().copy(), shown.cpu().numpy().copy(), score_BL.cpu().numpy().copy())
            )
        if options.commit:
            going = ~committed.all(-1)
            active, p = active[going], None if p is None else p[going]
            if not len(active):
                break
    return Trace(tokens_BL.cpu().numpy(), nfe_B.cpu().numpy(), full.clean.cpu().numpy(), rounds)


def _score(model, trunk, logits, tokens, committed, options: SampleConfig, key_B: Tensor) -> tuple[Tensor, Tensor]:
    """Proposed tokens and their commit score."""
    uniform = rng.uniform(key_B, tokens.shape[1]) if options.temperature else None
    counts = None
    if options.repetition_penalty:
        counts = count_committed(tokens, committed, logits.shape[-1])
    proposed, confidence = propose(logits, options.temperature, uniform, options.repetition_penalty, counts)
    if options.scorer == "quality":
        settled = torch.where(committed, tokens, proposed)
        return proposed, model.quality_logits(trunk, settled).sigmoid()
    if options.scorer == "none":
        return proposed, torch.ones_like(confidence)
    return proposed, confidence


def _hold(score_BL: Tensor, clean_BL: Tensor, r: int, options: SampleConfig) -> Tensor:
    """Non-commit mode: hold what scores above kappa, and at least a share r/k of what is generated.

    The choice is made anew every round, so a held position may change; by round k all are held.
    """
    free_BL = ~clean_BL
    count_B = (free_BL.sum(-1) * r + options.nfe - 1) // options.nfe
    return free_BL & ((score_BL >= options.kappa) | top(score_BL, free_BL, count_B))
