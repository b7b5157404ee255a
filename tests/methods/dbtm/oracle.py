"""alg:btm-sampling-refinement with dense states, one sample and one position at a time: the oracle of `refine`."""

import math

import torch

from dbtm.core import rng
from dbtm.methods.dbtm import Options, TransportMap
from dbtm.methods.dbtm.refine import CHOICE, NOISE
from dbtm.simplex import spread

Round = tuple[list[int], list[bool], list[float]]  # tokens, whether in C_r, scores


def planned_sizes(options: Options) -> tuple[int, ...]:
    """The numbers of positions per round, if planned for the budget."""
    used = options.rounds == "planned" and options.scorer == "spread" and options.commit
    return next((sizes for nfe, sizes in options.plan_by_nfe if nfe == options.nfe and used), ())


def most_likely(p: torch.Tensor, top_p: float) -> torch.Tensor:
    """The fewest most likely tokens that together reach top_p; 0 for the others."""
    kept, mass = torch.zeros_like(p), 0.0
    for token in sorted(range(len(p)), key=lambda j: -p[j]):
        if mass >= top_p:
            break
        kept[token], mass = p[token], mass + p[token].item()
    return kept


def dense_rounds(model: TransportMap, index: int, given: list[int | None], options: Options, seed: int) -> list[Round]:
    """The rounds of sample number `index`, with a token or None given at every position; L x V numbers in float64."""
    L, V, k = len(given), model.shape.vocab, options.nfe
    e, everywhere = torch.eye(V, dtype=torch.float64), range(L)
    free = [l for l in everywhere if given[l] is None]
    tokens, score = list(given), [1.0] * L
    held = {l: e[given[l]] for l in everywhere if l not in free}  # the value of a position that is not noise
    rounds: list[Round] = []
    for r in range(1, k + 1):
        at_mean = options.mean_from and r >= options.mean_from and k > 1
        x0 = options.sigma * rng.normal(rng.fold(seed, NOISE, index, r)[None], L, V, dtype=torch.float64)[0]
        x0 = torch.full_like(x0, 1 / V) if at_mean else x0
        temperature = options.mean_temperature if at_mean else options.temperature
        x = torch.stack([held.get(l, x0[l]) for l in everywhere])[None]
        T = model(x)[0]
        holds_all = len(held) == L  # then x has no noise, and may be a fixed point
        fixed = holds_all and all((T[l] - x[0, l]).abs().max() <= options.tolerance for l in free)

        # proposals on R_r, or in non-commit mode on all positions not given
        remaining = [l for l in free if l not in held] if options.commit else free
        settled = [tokens[l] for l in everywhere if l not in remaining]
        penalty = torch.tensor([(1.0 + settled.count(j)) ** options.repetition_penalty for j in range(V)])
        u = rng.uniform(rng.fold(seed, CHOICE, index, r)[None], L)[0]
        for l in remaining:
            if temperature:
                weight = T[l] ** (1 / temperature) / penalty  # softmax(f / temp) up to a factor
                weight = most_likely(weight / weight.sum(), options.top_p)
                tokens[l] = sum(s <= u[l] * weight.sum() for s in weight.cumsum(0)).item()
            else:
                tokens[l] = (T[l] / penalty).argmax().item()
            score[l] = (T[l] / penalty)[tokens[l]].item()
        if options.scorer == "quality":
            z = model.quality_logits(model.hidden(model.embed_dense(x)[0])[0], torch.tensor([tokens]))[0].tolist()
            score = [1 / (1 + math.exp(-z[l])) if l in remaining else score[l] for l in everywhere]

        # eq:commit-rule; in non-commit mode at least a share r/k is held, chosen again; spread commits go by position
        least = math.ceil(len(remaining) / (k - r + 1)) if options.commit else math.ceil(len(free) * r / k)
        if sizes := planned_sizes(options):  # for sum(sizes) positions, scaled to the number here
            due = math.ceil(len(free) * sum(sizes[:r]) / sum(sizes))
            least = max(1, due - (len(free) - len(remaining)))
        order = spread(L).tolist() if options.scorer == "spread" else score
        best = sorted(remaining, key=lambda l: -order[l])[:least]
        for l in remaining:
            held.pop(l, None)
            if order[l] >= options.kappa or l in best:
                held[l] = e[tokens[l]] if options.commit else T[l]
        rounds.append((list(tokens), [l in held for l in everywhere], list(score)))
        if (options.commit and len(held) == L) or (not options.commit and options.tolerance and fixed and r < k):
            break
    return rounds
