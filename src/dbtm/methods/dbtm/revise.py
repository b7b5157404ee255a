"""Samplers that can revise tokens: nothing is final until the answer is confirmed.

`revise` is a separate commit rule. Every round proposes all positions, including held ones, and chooses again which
positions it holds:

    x <- noise, given tokens clean
    for r = 1 .. k:
        f <- map(x);  x_hat <- argmax f (or a sample);  q <- score of x_hat, everywhere
        stop if all positions were held and x_hat equals the held tokens
        H_r <- {q >= kappa} + the best others, so that at least free * r / (k - 2) positions are held
        x <- x_hat on H_r, fresh noise elsewhere

A self-conditioned map also reads the previous round's T at every position, so renoising a position does not lose the
prediction there.

`check` tests the answer of the paper's rule with two complementary looks: it renoises a random half and maps it again,
then the other half. If the tokens change, it draws the answer again from new noise, until two looks find no change or
no evaluations are left. (Redrawing only the changed tokens would keep mistakes as context, and the map would confirm a
wrong answer.) A look counts as a network evaluation.

Both report for every sample whether its answer is stable.
"""

from dataclasses import replace

import torch
from torch import Tensor

from dbtm.core import rng
from dbtm.methods.dbtm.evaluator import Evaluator, embed_state, evaluate, score_proposals
from dbtm.methods.dbtm.options import Options
from dbtm.methods.dbtm.refine import CHOICE, NOISE, refine
from dbtm.sampling.given import Given
from dbtm.sampling.trace import Trace
from dbtm.sampling.watch import Watch
from dbtm.simplex import commit
from dbtm.simplex.commit import top

LOOK, AGAIN, HALF = 102, 103, 104  # streams of random numbers: noise of looks, of rounds after them, choice of half


def held_count(free_B: Tensor, r: int, k: int) -> Tensor:
    """The least number of positions that round r of k holds: free * r / (k - 2), which leaves two rounds to confirm."""
    last = max(1, k - 2)
    return (free_B * min(r, last) + last - 1) // last


@torch.no_grad()
def revise(network: Evaluator, given: Given, options: Options, seed: int, watch: Watch) -> Trace:
    """Generate all tokens that are not given, in at most `options.nfe` network evaluations."""
    model, hidden = network.model, watch.counted(network.hidden)
    active, p = torch.arange(len(given.tokens), device=given.tokens.device), None
    tokens_BL, held_BL = given.tokens.clone(), given.clean.clone()
    score_BL, stable_B = held_BL.float(), torch.zeros(len(held_BL), dtype=torch.bool, device=held_BL.device)
    noise_BR = given.keys(seed, NOISE, options.nfe)
    choice_BR = given.keys(seed, CHOICE, options.nfe) if options.temperature else None
    for r in range(1, options.nfe + 1):
        tokens, held, clean = tokens_BL[active], held_BL[active], given.clean[active]
        key_B = noise_BR[active, r - 1 if options.fresh_noise else 0]
        choice_B = None if choice_BR is None else choice_BR[active, r - 1]
        if model.recall is None:
            drawn = (key_B, choice_B, options, options.scorer)
            proposed, score = evaluate(network, watch, active, tokens, held, *drawn, settled=clean)
        else:
            h = model.condition(embed_state(network, tokens, held, key_B, options), p)
            trunk = hidden(h, rows=active)
            proposed, score = score_proposals(network, trunk, tokens, clean, options, choice_B, options.scorer)
            p = model.head(trunk)[0].softmax(-1) if r < options.nfe else None
        confirmed = held.all(-1) & (proposed == tokens).all(-1)
        held = clean | (score >= options.kappa) | top(score, ~clean, held_count((~clean).sum(-1), r, options.nfe))
        tokens_BL[active], held_BL[active], score_BL[active] = proposed, held, score.to(score_BL.dtype)
        stable_B[active] = confirmed
        if watch.tracing:
            watch.round(tokens_BL, held_BL, score_BL)
        active, p = active[~confirmed], None if p is None else p[~confirmed]
        if not len(active):
            break
    return watch.trace(tokens_BL, given.clean, stable_B)


def confirm(network: Evaluator, given: Given, options: Options, seed: int, watch: Watch) -> Trace:
    """The paper's rounds, and a check of their answer."""
    trace = refine(network, given, options, seed, watch)
    return check(network, given, torch.as_tensor(trace.tokens, device=given.tokens.device), options, seed, watch)


@torch.no_grad()
def check(network: Evaluator, given: Given, answer: Tensor, options: Options, seed: int, watch: Watch) -> Trace:
    """Confirm an answer (B, L) or find another, in at most `options.check` network evaluations."""
    options = replace(options, temperature=0.0)  # compare the answer with the most likely tokens
    tokens_BL, stable_B = answer.clone(), given.clean.all(-1)
    active, left, turn = (~stable_B).nonzero().squeeze(-1), options.check, 0
    while left >= 2 and len(active):
        some, turn = given.rows(active), turn + 1
        doubted = look_twice(network, some, tokens_BL[active], options, seed, turn, watch, active)
        left -= 2
        stable_B[active] = ~doubted.any(-1)
        if watch.tracing:
            shown = torch.ones_like(given.clean)
            shown[active] = ~doubted
            watch.round(tokens_BL, shown, shown.float())
        active = active[doubted.any(-1)]
        rounds = min(options.nfe, left - 2)
        if rounds < 1 or not len(active):
            break
        tokens_BL = again(network, given, tokens_BL, active, rounds, turn, options, seed, watch)
        left -= rounds
    return watch.trace(tokens_BL, given.clean, stable_B)


def look_twice(
    network: Evaluator,
    given: Given,
    tokens: Tensor,
    options: Options,
    seed: int,
    turn: int,
    watch: Watch,
    rows: Tensor,
) -> Tensor:
    """Positions whose token changes if a random half is renoised and mapped, then the other half, (B, L) bool."""
    half = rng.uniform(rng.fold(seed, HALF, given.index, turn), tokens.shape[1]) < 0.5
    doubted = torch.zeros_like(given.clean)
    for number, renoised in enumerate((half & ~given.clean, ~half & ~given.clean)):
        key_B = None if options.mean_from else rng.fold(seed, LOOK, given.index, 2 * turn + number)
        proposed, _ = evaluate(network, watch, rows, tokens, ~renoised, key_B, None, options, "none")
        doubted |= renoised & (proposed != tokens)
    return doubted


def again(
    network: Evaluator,
    given: Given,
    tokens_BL: Tensor,
    active: Tensor,
    rounds: int,
    turn: int,
    options: Options,
    seed: int,
    watch: Watch,
) -> Tensor:
    """Draw some answers again, in so many rounds of the paper's rule, from new noise or, at the prior's mean, with new
    random choices.
    """
    tokens_BL, committed_BL = tokens_BL.clone(), torch.ones_like(given.clean)
    committed_BL[active] = given.clean[active]
    score_BL = committed_BL.float()
    for r in range(1, rounds + 1):
        tokens, committed = tokens_BL[active], committed_BL[active]
        key_B = rng.fold(seed, AGAIN, given.index[active], turn * (options.check + 1) + r)
        noise_B, choice_B = (None, key_B) if options.at_mean(r) else (key_B, None)
        drawn = (noise_B, choice_B, options.in_round(r), options.scorer)
        proposed, score = evaluate(network, watch, active, tokens, committed, *drawn)
        committed = commit(score, committed, r, rounds, options.kappa)
        tokens_BL[active], committed_BL[active], score_BL[active] = proposed, committed, score.to(score_BL.dtype)
        if watch.tracing:
            watch.round(tokens_BL, committed_BL, score_BL)
        active = active[~committed.all(-1)]
        if not len(active):
            break
    return tokens_BL
