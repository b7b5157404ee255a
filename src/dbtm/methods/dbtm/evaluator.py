"""The map as its samplers evaluate it: from tokens, of which some are known, to proposed tokens and their scores."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from dbtm.core import rng
from dbtm.core.graphs import Record, Replayed, record
from dbtm.methods.dbtm.network import TransportMap
from dbtm.methods.dbtm.options import Options
from dbtm.sampling.decode import count_committed, propose
from dbtm.sampling.prior import Prior
from dbtm.sampling.watch import Watch
from dbtm.simplex import Noise

BUDGET = 2**30  # bytes of logits and decoding buffers that may exist at once


@dataclass(frozen=True)
class Evaluator:
    """A map as evaluated in rounds: its prior, embedded state to trunk state, and quality of proposed tokens."""

    model: TransportMap
    prior: Prior
    hidden: Callable[[Tensor], Tensor]
    quality: Callable[[Tensor, Tensor], Tensor]
    recorder: Record | None = None  # set if passes are replayed as CUDA graphs
    eager: "Evaluator | None" = None  # the same without recordings, if passes are replayed
    recorded: dict[tuple, Replayed] = field(default_factory=dict)  # whole evaluations, by their options
    by_loops: dict[int, "Evaluator"] = field(default_factory=dict)

    @classmethod
    def plain(cls, model: TransportMap) -> "Evaluator":
        return cls(model, Prior(model), lambda h: model.hidden(h)[0], model.quality_logits)

    def replayed(self, record: Record = record) -> "Evaluator":
        """The same evaluator with CUDA graphs."""
        return Evaluator(self.model, self.prior, Replayed(self.hidden, record), Replayed(self.quality, record), record,
                         eager=self)  # fmt: skip

    def looped(self, loops: int) -> "Evaluator":
        """The same evaluator with another number of loops of the blocks; 0: the network's own."""
        if not loops or loops == self.model.config.loops:
            return self
        if loops not in self.by_loops:
            if self.eager is None or self.recorder is None:
                deeper = replace(self, hidden=lambda h: self.model.hidden(h, loops=loops)[0], by_loops={})
            else:
                deeper = self.eager.looped(loops).replayed(self.recorder)
            self.by_loops[loops] = deeper
        return self.by_loops[loops]


def noise(model: TransportMap, key_B: Tensor, sigma: float) -> Noise:
    """x0 of a round."""
    dtype = torch.promote_types(model.dtype, torch.float32)
    return Noise(key_B, model.shape.length, model.shape.vocab, sigma, dtype)


def embed_state(network: Evaluator, tokens: Tensor, known: Tensor, key_B: Tensor | None, options: Options) -> Tensor:
    """Embed known tokens; elsewhere fresh noise or, without a key, the prior's mean."""
    if key_B is None:
        return network.model.embed_known(tokens, known)
    noise_BLD = network.prior.draw(noise(network.model, key_B, options.sigma or 1.0))
    return torch.where(known[..., None], network.model.embed_tokens(tokens).to(noise_BLD.dtype), noise_BLD)


class Likely:
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


def evaluate(
    network: Evaluator,
    watch: Watch,
    rows: Tensor,
    tokens: Tensor,
    known: Tensor,
    key_B: Tensor | None,
    choice_B: Tensor | None,
    options: Options,
    scorer: str,
    settled: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One network evaluation of the samples `rows`: proposed tokens and their scores at positions that are not settled
    (default: not known). Noise of `key_B`, or the prior's mean, is where tokens are not known.

    With CUDA graphs, all of it is a single recording while the logits of all positions fit the budget.
    """
    settled = known if settled is None else settled
    logits = (1 << (len(tokens) - 1).bit_length()) * tokens.shape[1] * network.model.shape.vocab
    if network.eager is None or network.recorder is None or logits * _bytes_per_logit(options) > BUDGET:
        trunk = watch.counted(network.hidden)(embed_state(network, tokens, known, key_B, options), rows=rows)
        return score_proposals(network, trunk, tokens, settled, options, choice_B, scorer)
    keys = tuple(key for key in (key_B, choice_B) if key is not None)
    drawing = (options.temperature, options.top_p, options.repetition_penalty, options.sigma)
    name = (scorer, *drawing, key_B is None, choice_B is None)
    if name not in network.recorded:
        whole = _whole(network.eager, options, scorer, key_B is not None, choice_B is not None)
        network.recorded[name] = Replayed(whole, network.recorder)
    return watch.counted(network.recorded[name])(tokens, known, settled, *keys, rows=rows)


def _whole(
    network: Evaluator, options: Options, scorer: str, noisy: bool, drawn: bool
) -> Callable[..., tuple[Tensor, Tensor]]:
    """An evaluation as one function of tensors, with logits at every position: a recording cannot choose positions."""

    def run(tokens: Tensor, known: Tensor, settled: Tensor, *keys: Tensor) -> tuple[Tensor, Tensor]:
        trunk = network.hidden(embed_state(network, tokens, known, keys[0] if noisy else None, options))
        logits = network.model.head(trunk)[0]
        counts = count_committed(tokens, settled, logits.shape[-1]) if options.repetition_penalty else None
        uniform = rng.uniform(keys[-1], tokens.shape[1]) if drawn else None
        best, p = propose(logits, options.temperature, uniform, options.repetition_penalty, counts, options.top_p)
        proposed = torch.where(settled, tokens, best)
        p = p.to(torch.promote_types(trunk.dtype, torch.float32))
        return proposed, _scored(network, trunk, proposed, torch.where(settled, 1.0, p), scorer)

    return run


def score_proposals(
    network: Evaluator,
    trunk: Tensor,
    tokens: Tensor,
    committed: Tensor,
    options: Options,
    choice_B: Tensor | None,
    scorer: str,
    likely: Likely | None = None,
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
    return proposed, _scored(network, trunk, proposed, confidence, scorer)


def _scored(network: Evaluator, trunk: Tensor, proposed: Tensor, confidence: Tensor, scorer: str) -> Tensor:
    if scorer == "quality":
        return network.quality(trunk, proposed).sigmoid()
    return torch.ones_like(confidence) if scorer == "none" else confidence


def _bytes_per_logit(options: Options) -> int:
    """An upper bound of the peak memory of the head and `propose`."""
    if not options.temperature:
        return 32 if options.repetition_penalty else 12
    if options.top_p < 1:
        return 96  # probabilities are sorted in float64
    return 48 if options.repetition_penalty else 32
