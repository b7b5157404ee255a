"""Quick evaluations during training, by task; the key 'score', if present, selects the best checkpoint."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from dbtm.core import rng
from dbtm.evals.diversity import distinct, entropies, unique_share
from dbtm.evals.judges import load_judge
from dbtm.evals.judges.base import Judge
from dbtm.evals.perplexity import perplexity
from dbtm.evals.programs import solve
from dbtm.evals.validation import validation_loss
from dbtm.sampling import Sampler
from dbtm.sandbox import Sandbox
from dbtm.tasks.base import Task
from dbtm.theory.flow import transport_map

MOST_LOGITS = 1 << 28  # of one batch, 1 GiB in float32
SAMPLES = 20_000  # per budget, for tasks with a known distribution


@dataclass(frozen=True)
class Budget:
    """A budget to sample at: a number of network evaluations, or as many as the method needs."""

    label: str
    options: dict[str, Any]


def budgets(sampler: Sampler, wanted: Sequence[int]) -> Iterator[Budget]:
    """The requested budgets; a method without a budget has one."""
    if not sampler.has_budget:
        yield Budget("all", {})
        return
    for nfe in wanted:
        yield Budget(str(nfe), {"nfe": nfe})


def evaluate(sampler: Sampler, seed: int) -> dict[str, float]:
    """The metrics of the sampler's task."""
    assert sampler.task is not None
    return TASKS.get(sampler.task.name, measures)(sampler, sampler.task, seed)


def on_the_way(sampler: Sampler, seed: int) -> dict[str, float]:
    """The metrics during a run: the method's loss on held-out examples, if there are some, and the task's metrics."""
    loss = validation_loss(sampler, seed)
    return ({} if loss is None else {"validation": loss}) | evaluate(sampler, seed)


def measures(sampler: Sampler, task: Task, seed: int) -> dict[str, float]:
    """The metrics of a user's task (`Task.measure`) at 1 and 4 evaluations; the score is that of the last."""
    truth = task.held_out_examples(256)
    given = {"n": 256} if truth is None else {"tokens": truth.tokens, "clean": _prompt(truth)}
    out: dict[str, float] = {}
    for budget in budgets(sampler, (1, 4)):
        values = task.measure(sampler.sample(**given, seed=seed, **budget.options).tokens, truth)
        out |= {f"{name}_{budget.label}": value for name, value in values.items() if name != "score"}
        out |= {"score": values["score"]} if "score" in values else {}
    return out


def _prompt(truth: Any) -> np.ndarray:
    return np.zeros(truth.tokens.shape, dtype=bool) if truth.prompt is None else truth.prompt


def categorical(sampler: Sampler, task: Any, seed: int) -> dict[str, float]:
    """One-step samples: total variation of frequencies from the truth, and for the map agreement with the exact one."""
    budget = next(budgets(sampler, (1,)))
    distance = task.distance(sampler.sample(SAMPLES, seed=seed, **budget.options).tokens)
    if sampler.method.name != "dbtm":
        return {"total_variation": distance, "score": -distance}
    x0, vertex = _exact_map(task.p, sampler.options.sigma or 1.0)  # type: ignore[attr-defined]
    with torch.no_grad():
        learned = sampler.network(x0[:, None].to(sampler.device))[:, 0].argmax(-1).cpu().numpy()
    agreement = float((learned == vertex).mean())
    return {"total_variation": distance, "agreement": agreement, "score": agreement - distance}


@lru_cache(maxsize=4)
def _exact_map(p: tuple[float, ...], sigma: float) -> tuple[torch.Tensor, np.ndarray]:
    """Prior draws x0 (N, V), and the vertex to which the exact autonomous flow takes each, for any a."""
    x0 = sigma * rng.normal(rng.fold(1, torch.arange(4_000)), len(p))
    return x0, transport_map(x0.numpy(), p, sigma)


def own(sampler: Sampler, task: Any, seed: int) -> dict[str, float]:
    """Different rows and entropy of 256 samples at 1 and 4 evaluations, and of held-out rows."""
    truth, sampler = task.held_out_examples(256), _in_batches(sampler)
    prompted = truth is not None and task.prompt
    given = {"tokens": truth.tokens, "clean": _prompt(truth)} if prompted else {"n": 256}
    sets = {} if truth is None else {"data": truth.tokens}
    for budget in budgets(sampler, (1, 4)):
        sets[budget.label] = sampler.sample(**given, seed=seed, **budget.options).tokens
    out = {f"entropy_{label}": float(entropies(rows).mean()) for label, rows in sets.items()}
    return out | {f"distinct_{label}": unique_share(rows) for label, rows in sets.items()}


def markov(sampler: Sampler, task: Any, seed: int) -> dict[str, float]:
    """Total variation of neighbours at 1, 2 and 4 evaluations, and the lowest for independent positions."""
    out = {
        f"pair_tv_{budget.label}": task.pair_distance(sampler.sample(SAMPLES, seed=seed, **budget.options).tokens)
        for budget in budgets(sampler, (1, 2, 4))
    }
    return {**out, "independent": task.independent_bound, "score": -next(iter(out.values()))}


def sudoku(sampler: Sampler, task: Any, seed: int) -> dict[str, float]:
    """Exact-solve rate on held-out puzzles at 1, 4 and 16 evaluations, and for other numbers of clues if configured
    (fig:sudoku-solve-acc).
    """
    out = _solved(sampler, task, task.held_out, seed)
    few = [out[name] for name in ("solved_4", "solved_1", "solved_all") if name in out]
    for clues, puzzles in task.also_held_out.items():
        out |= {f"{name}_clues{clues}": value for name, value in _solved(sampler, task, puzzles, seed).items()}
    return {**out, "score": sum(few)}


def _solved(sampler: Sampler, task: Any, held_out: tuple[np.ndarray, np.ndarray], seed: int) -> dict[str, float]:
    (puzzles, solutions), out = held_out, {}
    for budget in budgets(sampler, (1, 4, 16)):
        tokens = sampler.sample(**task.given(puzzles), seed=seed, **budget.options).tokens
        out[f"solved_{budget.label}"] = float(task.solved(tokens, solutions).mean())
    return out


def reasoning(sampler: Sampler, task: Any, seed: int) -> dict[str, float]:
    """Share of held-out problems with a valid answer at 1, 4 and 16 evaluations; the score as for Sudoku."""
    sampler, truth, out = _in_batches(sampler), task.held_out, {}
    for budget in budgets(sampler, (1, 4, 16)):
        trace = sampler.sample(tokens=truth.tokens, clean=truth.prompt, seed=seed, **budget.options)
        out[f"solved_{budget.label}"] = float(task.solved(trace.tokens).mean())
    return {**out, "score": sum(out[name] for name in ("solved_4", "solved_1", "solved_all") if name in out)}


def text(sampler: Sampler, task: Any, seed: int) -> dict[str, float]:
    """Diversity of samples at a few budgets: entropy, its difference from held-out text, distinct-n; with a judge also
    perplexity (fig:onpolicy-gate-lm1b).

    Without a judge the numbers do not show quality, but they show when one-step samples collapse.
    """
    judge = judge_of(task, sampler.device)
    reference = dict(_reference(task, judge)) if len(task.held_out) else {}
    sampler = _in_batches(sampler)
    out = {f"{name}_data": value for name, value in reference.items()}
    for budget in budgets(sampler, task.evaluate_nfe):
        tokens_BL = sampler.sample(task.evaluate_n, seed=seed, **budget.options).tokens
        values = _variety(tokens_BL) | _judged(task, judge, tokens_BL)
        out |= {f"{name}_{budget.label}": value for name, value in values.items()}
        if reference:
            out[f"entropy_distance_{budget.label}"] = values["entropy"] - reference["entropy"]
    return out


def judge_of(task: Any, device: torch.device) -> Judge | None:
    """The task's judge, loaded once; None without one. Every process also loads it before training starts, so that
    errors do not wait for the first evaluation.
    """
    return _load(task.judge, str(device.type)) if getattr(task, "judge", "") else None


@lru_cache(maxsize=1)
def _load(name: str, device: str) -> Judge:
    return load_judge(name, device)


@lru_cache(maxsize=1)
def _reference(task: Any, judge: Judge | None) -> tuple[tuple[str, float], ...]:
    """The same numbers for held-out text, which are constant during training."""
    tokens_BL = task.validation(task.evaluate_n)
    return tuple((_variety(tokens_BL) | _judged(task, judge, tokens_BL)).items())


def _judged(task: Any, judge: Judge | None, tokens_BL: np.ndarray) -> dict[str, float]:
    """The perplexity of samples; empty without a judge, or if no token counts."""
    if judge is None:
        return {}
    scores = judge.score(task.decode(tokens_BL))
    value = perplexity(scores.nll_B, scores.tokens_B).value
    return {"perplexity": value} if math.isfinite(value) else {}


def _variety(tokens_BL: np.ndarray) -> dict[str, float]:
    """Entropy within a sample and of all samples together (the same words in every sample), distinct-n within one."""
    return {
        "entropy": float(entropies(tokens_BL).mean()),
        "entropy_together": float(entropies(tokens_BL.reshape(1, -1))[0]),
        **{f"distinct{n}": float(distinct(tokens_BL, n).mean()) for n in (1, 2)},
    }


def gsm8k(sampler: Sampler, task: Any, seed: int) -> dict[str, float]:
    """Share of held-out problems whose program gives the answer, at 1, 4 and 16 evaluations."""
    sampler, out = _in_batches(sampler), {}
    with Sandbox() as sandbox:
        sandbox.warn()
        for budget in budgets(sampler, (1, 4, 16)):
            row, _ = solve(sampler, task.held_out, sandbox, seed=seed, **budget.options)
            out[f"correct_{budget.label}"] = row.correct / row.total
    return {**out, "score": list(out.values())[-1]}


def _in_batches(sampler: Sampler) -> Sampler:
    """The sampler with batches whose logits fit into memory."""
    shape = sampler.network.shape
    return sampler.in_batches(max(1, MOST_LOGITS // (shape.length * shape.vocab)))


TASKS: dict[str, Callable[[Sampler, Any, int], dict[str, float]]] = {
    "categorical": categorical,
    "markov": markov,
    "own": own,
    "sudoku": sudoku,
    "maze": reasoning,
    "colouring": reasoning,
    "sat": reasoning,
    "text": text,
    "gsm8k": gsm8k,
}
