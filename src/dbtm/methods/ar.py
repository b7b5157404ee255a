"""Autoregressive model: predicts the next token from those before it, one network evaluation per generated token.

The trunk is causal and reads a start id first, so that position l is predicted from the start and the tokens before l.
The prompt is the beginning of a sequence; only the tokens after it have a loss.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dbtm import losses
from dbtm.config import MethodConfig, SampleConfig
from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.losses.head import cross_entropy
from dbtm.methods import register_method
from dbtm.methods.base import Examples, Likelihood, Method, Part
from dbtm.nn import Backbone, Cache
from dbtm.sampling import Given, Trace, Watch
from dbtm.sampling.decode import draw_categorical, token_log_p

CHOICE = 201  # stream of random numbers of the sampler


@dataclass(frozen=True)
class Config(MethodConfig):
    """The loss has no settings."""

    name: ClassVar[str] = "ar"


@dataclass(frozen=True)
class Options(SampleConfig):
    """Token by token from left to right."""

    temperature: float = 1.0
    """0 takes the most likely token."""
    top_p: float = 1.0
    """Draw from the most likely tokens that together reach this probability; 1 is off."""

    def __post_init__(self):
        self.not_negative("temperature")
        self.up_to_one("top_p")


@register_method
class AR(Method[Config, Options]):
    """Next-token cross-entropy."""

    name = "ar"

    def build(self) -> Backbone:
        return Backbone(self.shape, self.config.model, extra_ids=1, causal=True)

    def inputs(self, tokens_BL: Tensor) -> Tensor:
        """The network's input: the start id, then every token but the last."""
        start = torch.full_like(tokens_BL[:, :1], self.shape.vocab)
        return torch.cat((start, tokens_BL[:, :-1]), 1)

    def parts(self, examples: Examples) -> Iterator[Part]:
        """Mean cross-entropy of the tokens that are not given."""
        target = ~examples.prompt
        rows = self.rows(target)
        network, tokens = self.network, examples.tokens
        trunk, _ = network.hidden(network.embed_tokens(self.inputs(tokens)))
        count = examples.count()
        beta = target / count
        loss, per_token = cross_entropy(trunk, network.head, tokens, beta, rows)
        yield Part(loss, {"cross_entropy": losses.total(per_token * target, count)})

    @torch.no_grad()
    def nll(self, network: Backbone, examples: Examples) -> Likelihood:
        """The exact -log p, by the chain rule."""
        target = ~examples.prompt
        logits, _ = network.logits(network.embed_tokens(self.inputs(examples.tokens)))
        log_p = token_log_p(logits, examples.tokens)
        return Likelihood(-(log_p * target.to(log_p.device)).sum(-1), target.sum(-1), exact=True)

    def check_given(self, given: Given) -> None:
        if (given.clean[:, 1:] & ~given.clean[:, :-1]).any():
            raise UsageError("'ar' continues the beginning of a sequence: it cannot fill a hole or end in given tokens")

    def sample(self, network: Backbone, given: Given, options: Options, seed: int, watch: Watch) -> Trace:
        """The prompt common to all rows is read at once; then one token at a time, with a cache.

        A row with a longer prompt continues reading it; its evaluations count from its first generated token.
        """
        tokens_BL, clean_BL, length = given.tokens.clone(), given.clean, given.tokens.shape[1]
        uniform_BL = rng.uniform(rng.fold(seed, CHOICE, given.index), length)
        read = watch.counted(lambda h, cache: network.hidden(h, cache=cache)[0])
        cache, known = Cache(), int(clean_BL.sum(-1).min())
        inputs = self.inputs(tokens_BL)[:, : known + 1]
        for position in range(known, length):
            generating = ~clean_BL[:, position]
            trunk = read(network.embed_tokens(inputs), cache, rows=generating.nonzero().squeeze(-1))
            logits, _ = network.head(trunk[:, -1])
            drawn = draw_categorical(logits, uniform_BL[:, position], options.temperature, options.top_p)
            tokens_BL[:, position] = torch.where(generating, drawn, tokens_BL[:, position])
            inputs = tokens_BL[:, position : position + 1]
            if watch.tracing:
                settled = clean_BL | (torch.arange(length, device=clean_BL.device) <= position)
                nothing_yet = torch.where(settled, tokens_BL, self.shape.vocab)  # an id that is no token
                watch.round(nothing_yet, settled, time=(position + 1) / length)
        return watch.trace(tokens_BL, clean_BL)
