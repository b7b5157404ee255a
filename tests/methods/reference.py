"""The reference problem of all methods: two tokens of three kinds with a known distribution, and a table as network."""

import math

import numpy as np
import torch
from torch import Tensor, nn

P = torch.tensor([[0.30, 0.02, 0.08], [0.05, 0.15, 0.05], [0.01, 0.09, 0.25]], dtype=torch.float64)  # row: first token
FIRST, SECOND = P.sum(1), P.sum(0)
INDEPENDENT = FIRST[:, None] * SECOND
V, L = 3, 2
ALL = torch.cartesian_prod(torch.arange(V), torch.arange(V))  # (9, 2) every sequence, in the order of P.flatten()


def entropy(p: Tensor) -> float:
    return float(-(p * p.log()).sum())


H, H1, H2 = entropy(P), entropy(FIRST), entropy(SECOND)


def chi_square(tokens_BL: np.ndarray, law: Tensor) -> float:
    """The p-value of sampled pairs under a distribution on the nine sequences."""
    from scipy.stats import chisquare

    counts = np.bincount(tokens_BL[:, 0] * V + tokens_BL[:, 1], minlength=V * V)
    return float(chisquare(counts, law.flatten().numpy() * len(tokens_BL)).pvalue)


class Table(nn.Module):
    """Logits (L, V) for every input of L ids: a network that can be exact.

    It replaces a Backbone: ids are its embedded input, logits its trunk state, and its head is the identity. A `cache`
    contains the ids read so far.
    """

    def __init__(self, ids: int, log_p, causal: bool = False):
        """`log_p(inputs)` are the logits of one input, (L, V); if causal, later ids count as 0."""
        super().__init__()
        self.ids, self.causal = ids, causal
        inputs = torch.cartesian_prod(*(torch.arange(ids),) * L)
        self.logits_of = nn.Parameter(torch.stack([log_p(tuple(row.tolist())) for row in inputs]))
        self.head = Identity()

    def embed_tokens(self, tokens_BL: Tensor) -> Tensor:
        return tokens_BL[..., None].double()

    def hidden(self, h: Tensor, dh=None, times=(), rates=None, cache=None) -> tuple[Tensor, None]:
        ids = h[..., 0].long()
        n = ids.shape[1]
        if cache is not None:
            past = getattr(cache, "read", ids[:, :0])
            cache.read = ids = torch.cat((past, ids), 1)
        padded = torch.cat((ids, ids.new_zeros(len(ids), L - ids.shape[1])), 1)
        rows = [padded * (torch.arange(L) <= l) if self.causal else padded for l in range(ids.shape[1])]
        place = [sum(row[:, l] * self.ids ** (L - 1 - l) for l in range(L)) for row in rows]
        logits = torch.stack([self.logits_of[at, l] for l, at in enumerate(place)], 1)
        return logits[:, ids.shape[1] - n :], None

    def logits(self, h: Tensor) -> tuple[Tensor, None]:
        return self.head(self.hidden(h)[0])


class Formula(nn.Module):
    """A network whose logits are a formula of ids and times, plus `shift`, a parameter per input of ids.

    Like `Table` it replaces a Backbone: ids are its embedded input, logits its trunk state.
    """

    def __init__(self, log_p, ids: int = V):
        """`log_p(ids_BL, *times_B)` are logits (B, L, V)."""
        super().__init__()
        self.log_p, self.ids, self.head = log_p, ids, Identity()
        self.shift = nn.Parameter(torch.zeros(ids**L, L, V, dtype=torch.float64))

    def embed_tokens(self, tokens_BL: Tensor) -> Tensor:
        return tokens_BL[..., None].double()

    def hidden(self, h: Tensor, dh=None, times=(), rates=None, cache=None) -> tuple[Tensor, None]:
        ids = h[..., 0].long()
        place = sum(ids[:, l] * self.ids ** (L - 1 - l) for l in range(L))
        return self.log_p(ids, *times) + self.shift[place], None

    def logits(self, h: Tensor, dh=None, times=()) -> tuple[Tensor, None]:
        return self.head(self.hidden(h, times=times)[0])


class Identity(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.bias = torch.eye(V, dtype=torch.float64), torch.zeros(V, dtype=torch.float64)

    def __call__(self, x: Tensor, dx=None):
        return x, None


def run_of(method_class, **settings):
    """A method on the reference problem, without a network."""
    from dbtm.config import ModelConfig, RunConfig, TrainConfig
    from dbtm.tasks.toy import Markov

    task = Markov(vocab=V, length=L)
    config = RunConfig(
        recipe="reference",
        task=task,
        model=ModelConfig(width=8, depth=1, heads=1),
        method=method_class.Config(**settings),
        sample=method_class.Options(),
        train=TrainConfig(batch=9),
    )
    return method_class(config)


def examples(tokens: Tensor, prompt: Tensor | None = None, seed: int = 0):
    from dbtm.core import rng
    from dbtm.methods.base import Examples

    prompt = torch.zeros_like(tokens, dtype=torch.bool) if prompt is None else prompt
    return Examples(tokens, prompt, rng.fold(seed, torch.arange(len(tokens))), 0)


def sampled(method, network, n: int, seed: int = 0, tokens=None, clean=None, **options):
    """A trace of n samples from a table."""
    from dbtm.sampling import Given, Watch

    tokens = torch.zeros(n, L, dtype=torch.int64) if tokens is None else tokens
    clean = torch.zeros(n, L, dtype=torch.bool) if clean is None else clean
    chosen = method.Options().changed(method.name, options)
    given, watch = Given(tokens, clean, torch.arange(n)), Watch(n, trace=True)
    with torch.no_grad():
        return method.sample(method.evaluator(network, replay=False), given, chosen, seed, watch)


assert math.isclose(H, 1.834972, abs_tol=1e-6)
