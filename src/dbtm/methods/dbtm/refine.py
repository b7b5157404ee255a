"""Renoise and remap (alg:btm-sampling-refinement): every round is one network evaluation.

    x <- noise, given tokens clean
    for r = 1 .. k:
        f <- map(x);  x_hat <- argmax f (or a sample);  q <- confidence of x_hat, or the quality head
        C_r <- C_{r-1} + {q >= kappa} + the n_r best of the rest              (eq:commit-rule)
               or, for any q, n_r positions spread over the rest (scorer "spread"; n_r may be planned)
        x <- x_hat on C_r, fresh noise elsewhere                              (commit)
               or, from round `mean_from` on, 0 elsewhere, the prior's mean, where T depends only on the context
          or T(x) on C_r, fresh noise elsewhere                               (non-commit)

A sample stops and leaves the batch when all its positions are committed. In non-commit mode with a tolerance, it stops
when all positions are held and T(x) = x. The last round keeps all its proposals, so its q is computed only for a trace.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from dbtm.core import rng
from dbtm.core.graphs import Record, Replayed, record
from dbtm.methods.dbtm.network import TransportMap
from dbtm.methods.dbtm.options import Options
from dbtm.sampling.decode import count_committed, propose
from dbtm.sampling.given import Given
from dbtm.sampling.prior import Prior
from dbtm.sampling.trace import Trace
from dbtm.sampling.watch import Watch
from dbtm.simplex import Noise, commit, spread
from dbtm.simplex.commit import planned_count, top

# streams of random numbers; a sample's noise depends on (seed, sample index, round) only
NOISE, CHOICE = 100, 101
BUDGET = 2**30  # bytes of logits and decoding buffers that may exist at once


@dataclass(frozen=True)
class Evaluator:
    """A map as evaluated in rounds: its prior, embedded state to trunk state, and quality of proposed tokens."""

    model: TransportMap
    prior: Prior
    hidden: Callable[[Tensor], Tensor]
    quality: Callable[[Tensor, Tensor], Tensor]
    recorder: Record | None = None  # set if passes are replayed as CUDA graphs
    by_loops: dict[int, Callable[[Tensor], Tensor]] = field(default_factory=dict)  # `hidden` by number of loops

    @classmethod
    def plain(cls, model: TransportMap) -> "Evaluator":
        return cls(model, Prior(model), lambda h: model.hidden(h)[0], model.quality_logits)

    def replayed(self, record: Record = record) -> "Evaluator":
        """The same evaluator with CUDA graphs."""
        return Evaluator(self.model, self.prior, Replayed(self.hidden, record), Replayed(self.quality, record), record)

    def looped(self, loops: int) -> "Evaluator":
        """The same evaluator with another number of loops of the blocks; 0: the network's own."""
        if not loops or loops == self.model.config.loops:
            return self
        if loops not in self.by_loops:
            deeper = lambda h: self.model.hidden(h, loops=loops)[0]  # noqa: E731
            self.by_loops[loops] = deeper if self.recorder is None else Replayed(deeper, self.recorder)
        return replace(self, hidden=self.by_loops[loops])


def noise(model: TransportMap, key_B: Tensor, sigma: float) -> Noise:
    """x0 of a round."""
    dtype = torch.promote_types(model.dtype, torch.float32)
    return Noise(key_B, model.shape.length, model.shape.vocab, sigma, dtype)


@torch.no_grad()
def refine(network: Evaluator, given: Given, options: Options, seed: int, watch: Watch) -> Trace:
    """Generate all tokens that are not given, in at most `options.nfe` network evaluations."""
    model, hidden = network.model, watch.counted(network.hidden)
    active = torch.arange(len(given.tokens), device=given.tokens.device)
    tokens_BL, committed_BL = given.tokens.clone(), given.clean.clone()
    score_BL = committed_BL.float()
    held: Tensor | None = None  # non-commit mode: positions held by the last round, for active samples
    held_BL = given.clean.clone()  # the same for all samples
    p: Tensor | None = None  # distributions of the last round, if this one reads them
    noise_BR = given.keys(seed, NOISE, options.nfe)
    choice_BR = given.keys(seed, CHOICE, options.nfe) if options.draws else None
    by_position = spread(tokens_BL.shape[1], tokens_BL.device) if options.scorer == "spread" else None
    for r in range(1, options.nfe + 1):
        key_B = None if options.at_mean(r) else noise_BR[active, r - 1 if options.fresh_noise else 0]
        tokens, committed = tokens_BL[active], committed_BL[active]
        h = embed_state(network, tokens, committed, key_B, options)
        if held is not None and p is not None:
            h = torch.where(held[..., None], model.embed_noise(p), h)
        trunk = hidden(h if key_B is None else model.condition(h, p), rows=active)
        choice_B = None if choice_BR is None else choice_BR[active, r - 1]
        scorer = options.scorer if watch.tracing or r < options.nfe else "none"
        likely = _Likely(tokens.shape, watch.others, trunk.device) if watch.others else None
        now = options.in_round(r)
        proposed, score = score_proposals(network, trunk, tokens, committed, now, choice_B, scorer, likely)
        tokens = torch.where(committed, tokens, proposed)
        score = torch.where(committed, score_BL[active].to(score.dtype), score)
        order = score if by_position is None else by_position.expand_as(score)
        clean, was_held, before, p = given.clean[active], held, p, None
        if options.commit:
            count_B = None
            if options.plan:
                count_B = planned_count((~clean).sum(-1), (~committed).sum(-1), options.plan, r)
            committed = commit(order, committed, r, options.nfe, options.kappa, count_B)
        else:
            held = _hold(order, clean, r, options)
            held_BL[active] = clean | held
        if (not options.commit or model.recall is not None) and r < options.nfe:
            p = model.head(trunk)[0].softmax(-1)
        tokens_BL[active], committed_BL[active], score_BL[active] = tokens, committed, score.to(score_BL.dtype)
        if watch.tracing:
            others = None if likely is None else likely.of(active, len(tokens_BL))
            watch.round(tokens_BL, committed_BL if options.commit else held_BL, score_BL, others=others)
        if options.commit:
            going = ~committed.all(-1)
        elif options.tolerance and was_held is not None and before is not None and p is not None:
            going = ~_fixed(before, p, was_held, ~clean, options.tolerance)
        else:
            continue
        active, p, held = active[going], None if p is None else p[going], None if held is None else held[going]
        if not len(active):
            break
    return watch.trace(tokens_BL, given.clean)


class _Likely:
    """The most likely tokens of a round and their probabilities, for the trace; 0 at positions without a proposal."""

    def __init__(self, shape: torch.Size, count: int, device: torch.device):
        self.tokens = torch.zeros(*shape, count, dtype=torch.int64, device=device)
        self.p = torch.zeros(*shape, count, device=device)

    def note(self, at: Tensor, logits: Tensor) -> None:
        """Record logits (N, V) of the flat positions `at`."""
        count = self.tokens.shape[-1]
        best = logits.float().softmax(-1).topk(min(count, logits.shape[-1]))
        self.tokens.view(-1, count)[at, : best.indices.shape[-1]] = best.indices
        self.p.view(-1, count)[at, : best.indices.shape[-1]] = best.values

    def of(self, active: Tensor, samples: int) -> tuple[Tensor, Tensor]:
        """The result for all samples; only the active ones were in the round."""
        spread = (torch.zeros(samples, *x.shape[1:], dtype=x.dtype, device=x.device) for x in (self.tokens, self.p))
        tokens, p = (out.index_copy(0, active, x) for out, x in zip(spread, (self.tokens, self.p), strict=True))
        return tokens, p


def embed_state(network: Evaluator, tokens: Tensor, known: Tensor, key_B: Tensor | None, options: Options) -> Tensor:
    """Embed known tokens; elsewhere fresh noise or, without a key, the prior's mean."""
    if key_B is None:
        return network.model.embed_known(tokens, known)
    noise_BLD = network.prior.draw(noise(network.model, key_B, options.sigma or 1.0))
    return torch.where(known[..., None], network.model.embed_tokens(tokens).to(noise_BLD.dtype), noise_BLD)


def score_proposals(
    network: Evaluator,
    trunk: Tensor,
    tokens: Tensor,
    committed: Tensor,
    options: Options,
    choice_B: Tensor | None,
    scorer: str,
    likely: _Likely | None = None,
) -> tuple[Tensor, Tensor]:
    """Proposed tokens and their commit score at uncommitted positions; elsewhere the committed token, and 1.

    Logits are computed for as many positions at a time as fit the budget.
    """
    vocab, length = network.model.shape.vocab, tokens.shape[1]
    wide = torch.promote_types(trunk.dtype, torch.float32)
    proposed, confidence = tokens.clone(), torch.ones(tokens.shape, dtype=wide, device=tokens.device)
    counts = count_committed(tokens, committed, vocab) if options.repetition_penalty else None
    uniform = None if choice_B is None else rng.uniform(choice_B, length).flatten()
    free, states = (~committed).flatten().nonzero().squeeze(-1), trunk.flatten(0, 1)
    for at in free.split(max(1, BUDGET // (_bytes_per_logit(options) * vocab))):
        logits, _ = network.model.head(states[at])
        if likely is not None:
            likely.note(at, logits)
        chosen = None if uniform is None else uniform[at, None]
        seen = None if counts is None else counts[at // length]
        best, p = propose(logits[:, None], options.temperature, chosen, options.repetition_penalty, seen, options.top_p)
        proposed.view(-1)[at], confidence.view(-1)[at] = best[:, 0], p[:, 0].to(confidence.dtype)
    if scorer == "quality":
        return proposed, network.quality(trunk, proposed).sigmoid()
    if scorer == "none":
        return proposed, torch.ones_like(confidence)
    return proposed, confidence


def _bytes_per_logit(options: Options) -> int:
    """An upper bound of the peak memory of the head and `propose`."""
    if not options.temperature:
        return 32 if options.repetition_penalty else 12
    if options.top_p < 1:
        return 96  # probabilities are sorted in float64
    return 48 if options.repetition_penalty else 32


def _fixed(x_BLV: Tensor, T_BLV: Tensor, held_BL: Tensor, free_BL: Tensor, tolerance: float) -> Tensor:
    """(B,) bool: samples at a fixed point, with all generated positions held and T(x) = x."""
    moved_BL = (T_BLV - x_BLV).abs().amax(-1) > tolerance
    return ~(free_BL & (moved_BL | ~held_BL)).any(-1)


def _hold(score_BL: Tensor, clean_BL: Tensor, r: int, options: Options) -> Tensor:
    """Non-commit mode: hold positions that score above kappa, and at least a share r/k of the generated ones.

    Every round chooses again, so a held position may change; by round k all are held.
    """
    free_BL = ~clean_BL
    count_B = (free_BL.sum(-1) * r + options.nfe - 1) // options.nfe
    return free_BL & ((score_BL >= options.kappa) | top(score_BL, free_BL, count_B))
