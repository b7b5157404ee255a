"""Negative log-likelihood of held-out examples, in nats per token: exact, or an upper bound."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.evals.estimates import Estimate, ratio_of_sums
from dbtm.methods.base import Examples, Likelihood, Method
from dbtm.sampling import Cancelled, Sampler
from dbtm.tasks.base import Batch
from dbtm.train.team import share_of

STREAM = 301  # of random numbers for a bound


@dataclass(frozen=True)
class LikelihoodScore:
    """Negative log-likelihood of examples, over the generated tokens."""

    exact: bool
    """Whether it is exact, or an upper bound."""
    n: int
    """Examples."""
    tokens: int
    """Number of counted tokens, without prompts."""
    nats_per_token: Estimate
    """Sum over examples / sum of their tokens, with the delta method's interval over examples."""
    seconds: float

    @property
    def kind(self) -> str:
        return "exact" if self.exact else "upper bound"

    @property
    def bits_per_token(self) -> Estimate:
        return self.nats_per_token.through(lambda nats: nats / math.log(2))

    @property
    def perplexity(self) -> Estimate:
        return self.nats_per_token.through(math.exp)

    def document(self) -> dict[str, Any]:
        """The numbers for the JSON."""
        counted = {"kind": self.kind, "n": self.n, "tokens": self.tokens, "seconds": self.seconds}
        estimates = (getattr(self, name).document(name) for name in ("nats_per_token", "bits_per_token", "perplexity"))
        return counted | {name: value for each in estimates for name, value in each.items()}


def fitting_batch(sampler: Sampler) -> int:
    """Examples per batch whose (B, L, V) logits, in float64, take 1 GiB on a GPU, or 128 MiB elsewhere."""
    shape = sampler.network.shape
    room = 1 << (30 if sampler.device.type == "cuda" else 27)
    return max(1, room // (8 * shape.length * shape.vocab))


def check_method(method: Any) -> None:
    """Refuse a method without a likelihood, before any work starts."""
    if type(method).nll is Method.nll:
        raise _refusal(method)


def _refusal(method: Any) -> UsageError:
    return UsageError(f"the method '{method.name}' has no likelihood or bound on it: there is nothing to measure")


def likelihoods(
    sampler: Sampler,
    examples: Batch,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    measure: str = "nll",
) -> Likelihood:
    """The method's `nll`, or another `measure` of it, for each example, in batches of the sampler's size. The
    randomness of a bound depends only on (seed, number of the example).
    """
    if not len(examples.tokens):
        raise UsageError("there are no examples to measure")
    prompt = np.zeros(examples.tokens.shape, dtype=bool) if examples.prompt is None else examples.prompt
    given = np.asarray(examples.tokens), np.asarray(prompt), seed, measure
    shares = sampler.everywhere(_share, *given, progress=progress, cancelled=cancelled)
    parts = [part for share in shares for part in share]
    nll_B, tokens_B = torch.cat([part.nll_B for part in parts]), torch.cat([part.tokens_B for part in parts])
    return Likelihood(nll_B, tokens_B, parts[0].exact)


def _share(
    sampler: Sampler,
    rank: int,
    size: int,
    tokens_NL: np.ndarray,
    prompt_NL: np.ndarray,
    seed: int,
    measure: str,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> list[Likelihood]:
    """Of one process's examples, batch by batch. Its progress stands for that of all."""
    method, network, mine = sampler.method, sampler.network, share_of(len(tokens_NL), rank, size)
    parts, training = [], network.training
    network.eval()
    try:
        for first in range(mine.start, mine.stop, sampler.batch):
            if cancelled is not None and cancelled():
                raise Cancelled
            rows = slice(first, min(first + sampler.batch, mine.stop))
            tokens_BL = torch.as_tensor(np.array(tokens_NL[rows], dtype=np.int64))
            key_B = rng.fold(seed, STREAM, torch.arange(rows.start, rows.stop))
            prompt_BL = torch.as_tensor(np.array(prompt_NL[rows]))
            tokens_BL, prompt_BL, key_B = (each.to(sampler.device) for each in (tokens_BL, prompt_BL, key_B))
            with torch.no_grad():
                part = getattr(method, measure)(network, Examples(tokens_BL, prompt_BL, key_B, step=0))
            if part is None:
                raise _refusal(method)
            parts.append(Likelihood(part.nll_B.cpu(), part.tokens_B.cpu(), part.exact))
            if progress is not None:
                progress((rows.stop - mine.start) * len(tokens_NL) // (mine.stop - mine.start))
    finally:
        network.train(training)
    return parts


def measure_likelihood(
    sampler: Sampler,
    examples: Batch,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> LikelihoodScore:
    """The mean likelihood of examples, with its interval."""
    start = time.perf_counter()
    each = likelihoods(sampler, examples, seed, progress, cancelled)
    nll_B, tokens_B = each.nll_B.numpy(), each.tokens_B.numpy()
    nats = ratio_of_sums(nll_B, tokens_B)
    return LikelihoodScore(each.exact, len(nll_B), int(tokens_B.sum()), nats, time.perf_counter() - start)
