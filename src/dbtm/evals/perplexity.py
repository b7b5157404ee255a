"""Generative perplexity and diversity of text samples, beside the same numbers for real and for shuffled text.

Perplexity is that of the corpus, exp(sum of NLL / number of tokens), by the protocol in `judges.base`. Entropy is that
of a sample's own token frequencies over the model's ids, in nats, averaged: perplexities may be compared where
entropies agree. Both come with a 95 % interval over samples (the delta method for the ratio of sums).
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from dbtm.core.errors import UsageError
from dbtm.evals.diversity import distinct, entropies, longest_repeats, unique_share
from dbtm.evals.estimates import Estimate, mean, ratio_of_sums
from dbtm.evals.judges.base import Judge
from dbtm.evals.mauve import mauve
from dbtm.evals.memorised import longest_matches
from dbtm.evals.samples import SampleSet
from dbtm.tasks.text.shards import spread

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
    """The task of a checkpoint; an error if it is not text."""
    if not all(hasattr(type(task), name) for name in ("held_out", "decode")):
        name = getattr(task, "name", "nothing")
        raise UsageError(f"the checkpoint was trained on '{name}', not on text")
    return task


class NoReferenceError(UsageError):
    """There is no real text to compare samples with."""


@dataclass(frozen=True)
class TextScore:
    """The numbers of one set of samples."""

    kind: str
    settings: dict[str, Any]
    n: int
    judge: str | None
    """The judge of the perplexity; None without one."""
    perplexity: Estimate
    entropy: Estimate
    distinct: dict[str, float]
    """By n: the share of different n-grams within a sample, averaged."""
    longest_repeat: float
    """Tokens in the longest run that occurs twice in a sample, averaged."""
    unique: float
    """Distinct samples divided by all samples."""
    judge_tokens: int = 0
    unscored: int = 0
    """Samples without a token that counts: shorter than two tokens, or nothing but ends of sequence."""
    windowed: int = 0
    """Samples longer than the judge's context, scored in windows that overlap by half."""
    nfe: float | None = None
    seconds: float | None = None
    mauve: float | None = None
    """MAUVE of the judge's last states against those of real text; of real text against other real text."""
    longest_match: Estimate | None = None
    """Tokens in the longest run of a sample that also occurs in the training text, averaged."""

    def document(self) -> dict[str, Any]:
        """The row as JSON: NaN becomes null."""
        values = asdict(self) | self.perplexity.document("perplexity") | self.entropy.document("entropy")
        values["distinct"] = {n: share if math.isfinite(share) else None for n, share in self.distinct.items()}
        values["longest_repeat"] = self.longest_repeat if math.isfinite(self.longest_repeat) else None
        values.pop("longest_match")
        return values | ({} if self.longest_match is None else self.longest_match.document("longest_match"))


def perplexity(nll_B: np.ndarray, tokens_B: np.ndarray) -> Estimate:
    """exp(sum NLL / sum tokens)."""
    return ratio_of_sums(nll_B, tokens_B).through(math.exp)


def measure(
    samples: SampleSet,
    judge: Judge | None,
    progress: Callable[[int, int], None] | None = None,
    real_ND: np.ndarray | None = None,
    corpus: Blocks | None = None,
) -> TextScore:
    """All numbers of a set; without a judge, all but the perplexity. `real_ND` are the judge's features of
    real text to compare with, `corpus` is the text that is searched for runs of the samples.
    """
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
    ordered = samples.kind != "shuffled"  # their tokens are in the real text's order: runs mean nothing
    return TextScore(
        kind=samples.kind,
        settings=samples.settings,
        n=len(tokens_BL),
        entropy=mean(entropies(tokens_BL)),
        distinct={str(n): float(distinct(tokens_BL, n).mean()) if ordered or n == 1 else math.nan for n in _NGRAMS},
        longest_repeat=float(longest_repeats(tokens_BL).mean()) if ordered else math.nan,
        unique=unique_share(tokens_BL),
        nfe=samples.nfe,
        seconds=samples.seconds,
        mauve=None if judge is None or real_ND is None else mauve(judge.features(samples.texts), real_ND),
        longest_match=mean(longest_matches(tokens_BL, corpus)) if corpus is not None and ordered else None,
        **judged,
    )


def other_text(task: TextTask, n: int) -> SampleSet | None:
    """Held-out text that is not among the `references`; None if there is too little."""
    total = len(task.held_out)
    if total < 2 * n:
        return None
    rest = np.setdiff1d(np.arange(total), spread(n, total))
    tokens_BL = task.held_out[rest[spread(n, len(rest))]]
    return SampleSet(tokens_BL, task.decode(tokens_BL), "real")


def references(task: TextTask, n: int, seed: int = 0) -> list[SampleSet]:
    """Held-out text, the target for samples, and the same text with the words of every sample shuffled.

    Shuffling changes only the order of the words, which only a judge measures. So both sets have the tokens of the
    original text.
    """
    try:
        held_out = task.held_out
    except UsageError as error:
        raise NoReferenceError(f"no real text to compare with: {str(error).removeprefix('no text: ')}") from None
    if not len(held_out):
        raise NoReferenceError("no real text to compare with: nothing was held out")
    tokens_BL = held_out[spread(n, len(held_out))]
    texts = task.decode(tokens_BL)
    shuffle = np.random.default_rng(seed)
    shuffled = [" ".join(shuffle.permutation(text.split()).tolist()) for text in texts]
    origin = task.source() if hasattr(task, "source") else {}
    return [
        SampleSet(tokens_BL, texts, "real", origin=origin),
        SampleSet(tokens_BL, shuffled, "shuffled", {"seed": seed}, origin),
    ]
