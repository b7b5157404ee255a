"""Generative perplexity and diversity of text samples, beside the same numbers for real and for shuffled text.

Perplexity is that of the corpus, exp(sum of NLL / number of tokens), by the protocol in `judges.base`. Entropy is that
of a sample's own token frequencies over the model's ids, in nats, averaged: perplexities may be compared where
entropies agree. Both come with a 95 % interval over samples (the delta method for the ratio of sums).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from dbtm.core.errors import UsageError
from dbtm.evals.diversity import distinct, entropies, longest_repeats, unique_share
from dbtm.evals.judges.base import Judge
from dbtm.evals.provenance import made
from dbtm.evals.samples import SampleSet
from dbtm.tasks.text.shards import spread

_Z = NormalDist().inv_cdf(0.975)
_NGRAMS = (1, 2, 3, 4)


class Blocks(Protocol):
    """(N, L) tokens, of which some rows can be had."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: np.ndarray) -> np.ndarray: ...


class TextTask(Protocol):
    """What the evaluation needs of a task."""

    @property
    def held_out(self) -> Blocks:
        """Text that was never trained on."""

    def decode(self, tokens_BL: np.ndarray) -> list[str]:
        """Samples as texts with all special tokens written out."""


def text_task(task: Any) -> TextTask:
    """The task of a checkpoint, refused where it is not one of text."""
    if not all(hasattr(type(task), name) for name in ("held_out", "decode")):
        name = getattr(task, "name", "nothing")
        raise UsageError(f"the checkpoint was trained on '{name}', not on text")
    return task


class Estimate(NamedTuple):
    """A number and its 95 % interval; NaN where it cannot be had."""

    value: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Row:
    """The numbers of one set of samples."""

    kind: str
    settings: dict[str, Any]
    n: int
    judge: str | None
    """Who measured the perplexity; None where nobody did."""
    perplexity: Estimate
    entropy: Estimate
    distinct: dict[str, float]
    """By n: the share of different n-grams within a sample, averaged."""
    longest_repeat: float
    """Tokens in the longest run that a sample has twice, averaged."""
    unique: float
    """Different samples over all samples."""
    judge_tokens: int = 0
    unscored: int = 0
    """Samples without a token that counts: shorter than two tokens, or nothing but ends of sequence."""
    windowed: int = 0
    """Samples longer than the judge's context, scored in windows that overlap by half."""
    nfe: float | None = None
    seconds: float | None = None

    def document(self) -> dict[str, Any]:
        """The row as JSON: NaN becomes null."""
        values = asdict(self)
        for name in ("perplexity", "entropy"):
            value, low, high = (x if math.isfinite(x) else None for x in getattr(self, name))
            values |= {name: value, f"{name}_low": low, f"{name}_high": high}
        values["distinct"] = {n: share if math.isfinite(share) else None for n, share in self.distinct.items()}
        values["longest_repeat"] = self.longest_repeat if math.isfinite(self.longest_repeat) else None
        return values


def perplexity(nll_B: np.ndarray, tokens_B: np.ndarray) -> Estimate:
    """exp(sum NLL / sum tokens) with the delta method's interval for a ratio of sums over independent samples."""
    total, count, n = nll_B.sum(), tokens_B.sum(), len(nll_B)
    if not count:
        return Estimate(math.nan)
    rate = total / count
    if n < 2:
        return Estimate(math.exp(rate))
    error = math.sqrt(n / (n - 1) * ((nll_B - rate * tokens_B) ** 2).sum()) / count
    return Estimate(math.exp(rate), math.exp(rate - _Z * error), math.exp(rate + _Z * error))


def mean(values_B: np.ndarray) -> Estimate:
    """Average with its normal interval."""
    average = float(values_B.mean())
    if len(values_B) < 2:
        return Estimate(average)
    error = float(values_B.std(ddof=1)) / math.sqrt(len(values_B))
    return Estimate(average, average - _Z * error, average + _Z * error)


def measure(samples: SampleSet, judge: Judge | None, progress: Callable[[int, int], None] | None = None) -> Row:
    """All numbers of a set; without a judge, all but the perplexity."""
    tokens_BL = samples.tokens_BL
    judged: dict[str, Any] = {"judge": None, "perplexity": Estimate(math.nan)}
    if judge is not None:
        scores = judge.score(samples.texts, progress)
        judged = {
            "judge": judge.name,
            "perplexity": perplexity(scores.nll_B, scores.tokens_B),
            "judge_tokens": int(scores.tokens_B.sum()),
            "unscored": int((scores.tokens_B == 0).sum()),
            "windowed": scores.windowed,
        }
    ordered = samples.kind != "shuffled"  # whose tokens are those of the text in its order: they say nothing of runs
    return Row(
        kind=samples.kind,
        settings=samples.settings,
        n=len(tokens_BL),
        entropy=mean(entropies(tokens_BL)),
        distinct={str(n): float(distinct(tokens_BL, n).mean()) if ordered or n == 1 else math.nan for n in _NGRAMS},
        longest_repeat=float(longest_repeats(tokens_BL).mean()) if ordered else math.nan,
        unique=unique_share(tokens_BL),
        nfe=samples.nfe,
        seconds=samples.seconds,
        **judged,
    )


def references(task: TextTask, n: int, seed: int = 0) -> list[SampleSet]:
    """Held-out text, which is what samples should look like, and the same text with every sample's words shuffled.

    Shuffling keeps the words; that their order is gone, only a judge can tell. So both have the tokens of the former.
    """
    try:
        held_out = task.held_out
    except UsageError as error:
        why = str(error).removeprefix("no text: ").removesuffix(" and name it with --data DIR")
        raise UsageError(
            f"no real text to compare with: {why}; name it with --data, or leave it out with --no-references"
        ) from None
    if not len(held_out):
        raise UsageError("no real text to compare with (nothing was held out): leave it out with --no-references")
    tokens_BL = held_out[spread(n, len(held_out))]
    texts = task.decode(tokens_BL)
    shuffle = np.random.default_rng(seed)
    shuffled = [" ".join(shuffle.permutation(text.split()).tolist()) for text in texts]
    origin = task.source() if hasattr(task, "source") else {}
    return [
        SampleSet(tokens_BL, texts, "real", origin=origin),
        SampleSet(tokens_BL, shuffled, "shuffled", {"seed": seed}, origin),
    ]


def document(rows: Sequence[Row], judge: Judge | None, origins: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The whole JSON of an evaluation: who judged what, where it came from, and on what it was judged."""
    different = [each for i, each in enumerate(origins) if each and each not in origins[:i]]
    return {
        "rows": [row.document() for row in rows],
        "judge": None if judge is None else judge.describe(),
        "samples": different,
        **made(torch.device("cpu") if judge is None else judge.device),
    }
