"""Renoise and remap (alg:btm-sampling-refinement): every round is one network evaluation.

    x <- noise, given tokens clean
    for r = 1 .. k:
        f <- map(x);  x_hat <- argmax f (or a sample);  q <- confidence of x_hat, or the quality head
        C_r <- C_{r-1} + {q >= kappa} + the n_r best of the rest              (eq:commit-rule)
               or, for any q, n_r positions spread over the rest (scorer "spread"; n_r may be planned)
        x <- x_hat on C_r, fresh noise elsewhere                              (commit)
               or, from round `mean_from` on, 1/V elsewhere (the prior's mean up to a shift): T reads the context only
          or T(x) on C_r, fresh noise elsewhere                               (non-commit)

A sample stops and leaves the batch when all its positions are committed. In non-commit mode with a tolerance, it stops
when all positions are held and T(x) = x. The last round keeps all its proposals, so its q is computed only for a trace.
"""

import torch
from torch import Tensor

from dbtm.methods.dbtm.evaluator import Evaluator, Likely, embed_state, evaluate, score_proposals
from dbtm.methods.dbtm.options import Options
from dbtm.sampling.given import Given
from dbtm.sampling.trace import Trace
from dbtm.sampling.watch import Watch
from dbtm.simplex import commit, spread
from dbtm.simplex.commit import planned_count, top

# streams of random numbers; a sample's noise depends on (seed, sample index, round) only
NOISE, CHOICE = 100, 101


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
    remembers = not options.commit or model.recall is not None
    noise_BR = given.keys(seed, NOISE, options.nfe)
    choice_BR = given.keys(seed, CHOICE, options.nfe) if options.draws else None
    by_position = spread(tokens_BL.shape[1], tokens_BL.device) if options.scorer == "spread" else None
    for r in range(1, options.nfe + 1):
        key_B = None if options.at_mean(r) else noise_BR[active, r - 1 if options.fresh_noise else 0]
        tokens, committed = tokens_BL[active], committed_BL[active]
        choice_B = None if choice_BR is None else choice_BR[active, r - 1]
        scorer = options.scorer if watch.tracing or r < options.nfe else "none"
        now = options.in_round(r)
        likely = Likely(tokens.shape, watch.others, tokens.device) if watch.others else None
        trunk = None
        if remembers or likely is not None:
            h = embed_state(network, tokens, committed, key_B, options)
            if held is not None and p is not None:
                h = torch.where(held[..., None], model.embed_noise(p), h)
            trunk = hidden(h if key_B is None else model.condition(h, p), rows=active)
            proposed, score = score_proposals(network, trunk, tokens, committed, now, choice_B, scorer, likely)
        else:
            proposed, score = evaluate(network, watch, active, tokens, committed, key_B, choice_B, now, scorer)
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
        if remembers and trunk is not None and r < options.nfe:
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
