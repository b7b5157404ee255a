"""How likely a model finds examples that it was never trained on, in nats per token: exactly, or as an upper bound."""

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
from dbtm.nn import Backbone
from dbtm.sampling import Cancelled, Sampler
from dbtm.tasks.base import Batch

STREAM = 301  # of random numbers: those of a bound


@dataclass(frozen=True)
class LikelihoodScore:
    """Negative log-likelihood of examples, over the tokens that are not given."""

    exact: bool
    """Whether it is the likelihood itself, or an upper bound on its negative logarithm."""
    n: int
    """Examples."""
    tokens: int
    """Tokens that count: prompts do not."""
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
        """The numbers as they stand in the JSON."""
        counted = {"kind": self.kind, "n": self.n, "tokens": self.tokens, "seconds": self.seconds}
        estimates = (getattr(self, name).document(name) for name in ("nats_per_token", "bits_per_token", "perplexity"))
        return counted | {name: value for each in estimates for name, value in each.items()}


def fitting_batch(sampler: Sampler) -> int:
    """Examples side by side whose (B, L, V) logits, in float64, take 1 GiB on a GPU, or 128 MiB elsewhere."""
    shape = sampler.network.shape
    room = 1 << (30 if sampler.device.type == "cuda" else 27)
    return max(1, room // (8 * shape.length * shape.vocab))


def check_method(method: Any) -> None:
    """Refuse a method without a likelihood, before any work is done for it."""
    if type(method).nll is Method.nll:
        raise _refusal(method)


def _refusal(method: Any) -> UsageError:
    return UsageError(f"the method '{method.name}' has no likelihood, and no bound on it: there is nothing to measure")


def likelihoods(
    sampler: Sampler,
    examples: Batch,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    measure: Callable[[Backbone, Examples], Likelihood | None] | None = None,
) -> Likelihood:
    """Of every example, in batches as large as the sampler's: the method's `nll`, or another `measure`. The randomness
    of a bound depends on (seed, number of the example) alone.
    """
    method, network = sampler.method, sampler.network
    assert isinstance(method, Method)
    if not len(examples.tokens):
        raise UsageError("there are no examples to measure")
    prompt = np.zeros(examples.tokens.shape, dtype=bool) if examples.prompt is None else examples.prompt
    parts, training = [], network.training
    network.eval()
    try:
        for first in range(0, len(examples.tokens), sampler.batch):
            if cancelled is not None and cancelled():
                raise Cancelled
            rows = slice(first, first + sampler.batch)
            tokens_BL = torch.as_tensor(np.array(examples.tokens[rows], dtype=np.int64))
            key_B = rng.fold(seed, STREAM, torch.arange(first, first + len(tokens_BL)))
            prompt_BL = torch.as_tensor(np.array(prompt[rows]))
            tokens_BL, prompt_BL, key_B = (each.to(sampler.device) for each in (tokens_BL, prompt_BL, key_B))
            with torch.no_grad():
                part = (measure or method.nll)(network, Examples(tokens_BL, prompt_BL, key_B, step=0))
            if part is None:
                raise _refusal(method)
            parts.append(part)
            if progress is not None:
                progress(first + len(tokens_BL))
    finally:
        network.train(training)
    nll_B, tokens_B = torch.cat([part.nll_B for part in parts]), torch.cat([part.tokens_B for part in parts])
    return Likelihood(nll_B.cpu(), tokens_B.cpu(), parts[0].exact)


def measure_likelihood(
    sampler: Sampler,
    examples: Batch,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> LikelihoodScore:
    """The likelihood of examples together, with its interval."""
    start = time.perf_counter()
    each = likelihoods(sampler, examples, seed, progress, cancelled)
    nll_B, tokens_B = each.nll_B.numpy(), each.tokens_B.numpy()
    nats = ratio_of_sums(nll_B, tokens_B)
    return LikelihoodScore(each.exact, len(nll_B), int(tokens_B.sum()), nats, time.perf_counter() - start)
