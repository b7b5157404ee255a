"""A judge: a causal language model that measures how unlikely a text is.

The protocol is that of papers on discrete diffusion. A text contains its special tokens as text and is tokenized with
the judge's own tokenizer. Every token but the first is scored given all previous ones. All tokens count that are not
the judge's end of sequence, plus the first one that is. Nothing is dropped: the last, smaller batch counts, and text
beyond the judge's context is read in windows that overlap by half.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dbtm.train.team import Team, current

MOST_TOKENS = {"cuda": 8_192}  # of one batch, by device


@dataclass(frozen=True)
class Scores:
    """A judge's scores of some texts."""

    nll_B: np.ndarray  # float64: the sum of a text's negative log-likelihoods, in nats
    tokens_B: np.ndarray  # int64: the number of the judge's tokens in that sum
    windowed: int  # texts longer than the judge's context, read in several windows


class Window(NamedTuple):
    """The tokens start..end of a text, of which those from `fresh` on are scored."""

    text: int
    start: int
    end: int
    fresh: int


def windows(text: int, length: int, context: int) -> Iterator[Window]:
    """Windows that score every token but the first once; in later ones each has at least half a context before it."""
    start, fresh = 0, 1
    while fresh < length:
        end = min(start + context, length)
        yield Window(text, start, end, fresh)
        start, fresh = end - context // 2, end


def counted(ids: Sequence[int], ends: frozenset[int]) -> np.ndarray:
    """(L,) bool: every token but the first that is not an end of sequence, and the first end of sequence."""
    is_end = np.isin(ids, list(ends))
    mask = ~is_end
    if is_end.any():
        mask[is_end.argmax()] = True
    mask[:1] = False  # nothing comes before it
    return mask


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """The number of equal tokens at the start of two texts."""
    return next((i for i, (a, b) in enumerate(zip(first, second)) if a != b), min(len(first), len(second)))


class Judge(ABC):
    """A causal language model with its tokenizer."""

    name: str
    """Part of every number: perplexities under different judges cannot be compared."""
    context: int
    ends: frozenset[int]
    """The token that ends a sequence, and <|endoftext|> if that is a different one."""
    device: torch.device
    dtype: torch.dtype
    source: tuple[str, str] | None = None
    """The name and the device that `load_judge` was given."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The judge's tokens of every text; special tokens written in a text are read as such."""

    @abstractmethod
    def token_nll(self, ids_BL: Tensor) -> Tensor:
        """-log p(token | all before it) of every token but a row's first, (B, L - 1); rows are padded on the right."""

    @abstractmethod
    def states(self, ids_BL: Tensor) -> Tensor:
        """(B, L, D) the states of the last layer."""

    def describe(self) -> dict[str, Any]:
        """What is needed to get the same numbers again."""
        return {"name": self.name, "dtype": str(self.dtype).removeprefix("torch."), "context": self.context}

    def score(
        self,
        texts: Sequence[str],
        progress: Callable[[int, int], None] | None = None,
        after: Sequence[str] | None = None,
    ) -> Scores:
        """Score texts in batches of similar length; `progress` gets the tokens done and the total.

        With `after`, the beginning of every text, only later tokens count: from the first one that differs from the
        tokens of the beginning alone.
        """
        ids = self.encode(texts)
        masks = [counted(row, self.ends) for row in ids]
        for mask, row, beginning in zip(masks, ids, self.encode(after) if after else []):
            mask[: _common(row, beginning)] = False
        pieces = [list(windows(b, len(row), self.context)) for b, row in enumerate(ids)]
        batches = list(self._batches([window for piece in pieces for window in piece]))
        nll_B, total = np.zeros(len(ids)), sum(map(len, ids))
        shares = self._everywhere(_sums, ids, masks, batches, progress=progress)
        for number, batch in enumerate(batches):  # in a fixed order, whichever process read them
            for window, value in zip(batch, shares[number % len(shares)][number // len(shares)], strict=True):
                nll_B[window.text] += value
        if progress is not None:
            progress(total, total)
        return Scores(nll_B, np.array([mask.sum() for mask in masks], dtype=np.int64), sum(len(p) > 1 for p in pieces))

    def features(self, texts: Sequence[str]) -> np.ndarray:
        """(N, D): the last layer's state at every text's last token, within the judge's context."""
        ids = [row[: self.context] or [0] for row in self.encode(texts)]
        batches = list(self._batches([Window(b, 0, len(row), 1) for b, row in enumerate(ids)]))
        rows: dict[int, np.ndarray] = {}
        for share in self._everywhere(_last_states, ids, batches):
            rows |= share
        return np.stack([rows[b] for b in range(len(ids))])

    def _everywhere(self, work: Callable[..., Any], *args: Any, **own: Any) -> list[Any]:
        """`work(judge, rank, size, *args, **own)` of all processes that can load this judge, or of this one."""
        team = current()
        if team is None or self.source is None:
            return [work(self, 0, 1, *args, **own)]
        team.held["judge"] = self
        return team.everywhere(_with_judge, self.source, work, args, **own)

    def _batches(self, pieces: list[Window]) -> Iterator[list[Window]]:
        """Windows sorted by length, longest first, in batches of bounded size, padding counted."""
        limit = MOST_TOKENS.get(self.device.type, 2_048)
        batch: list[Window] = []
        for window in sorted(pieces, key=lambda w: w.start - w.end):
            if batch and (len(batch) + 1) * (batch[0].end - batch[0].start) > limit:
                yield batch
                batch = []
            batch.append(window)
        if batch:
            yield batch


def _with_judge(team: Team, source: tuple[str, str], work: Any, args: tuple[Any, ...], **own: Any) -> Any:
    if getattr(team.held.get("judge"), "source", None) != source:
        from dbtm.evals.judges import load_judge

        team.held["judge"] = load_judge(*source)
    return work(team.held["judge"], team.rank, team.size, *args, **own)


def _sums(
    judge: Judge,
    rank: int,
    size: int,
    ids: list[list[int]],
    masks: list[np.ndarray],
    batches: list[list[Window]],
    progress: Callable[[int, int], None] | None = None,
) -> list[list[float]]:
    """The summed -log p of every window in one process's batches. Its progress is reported as that of all."""
    sums, total, done = list[list[float]](), sum(map(len, ids)), 0
    for batch in batches[rank::size]:
        rows = [torch.tensor(ids[w.text][w.start : w.end]) for w in batch]
        padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        with torch.inference_mode():
            nll = judge.token_nll(padded.to(judge.device)).cpu().double().numpy()
        fresh = [row[w.fresh - w.start - 1 : w.end - w.start - 1] for w, row in zip(batch, nll)]
        sums.append([x[masks[w.text][w.fresh : w.end]].sum() for w, x in zip(batch, fresh, strict=True)])
        done += sum(w.end - w.fresh for w in batch)
        if progress is not None:
            progress(min(done * size, total), total)
    return sums


def _last_states(
    judge: Judge, rank: int, size: int, ids: list[list[int]], batches: list[list[Window]]
) -> dict[int, np.ndarray]:
    """By text, for one process's batches."""
    found: dict[int, np.ndarray] = {}
    for batch in batches[rank::size]:
        padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(ids[w.text]) for w in batch], batch_first=True)
        with torch.inference_mode():
            states = judge.states(padded.to(judge.device))
            last = states[range(len(batch)), [w.end - 1 for w in batch]].cpu().double().numpy()
        found |= {w.text: row for w, row in zip(batch, last, strict=True)}
    return found
