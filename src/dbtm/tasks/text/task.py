"""Text as a task: blocks of a prepared set, all of them generated."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dbtm.core import rng
from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.tasks.base import Batch, Task, register
from dbtm.tasks.text.borders import BORDERS, Borders
from dbtm.tasks.text.shards import MANIFEST, Blocks, Prepared, spread

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from dbtm.sampling.sampler import Sampler

BUDGETS = (1, 4)  # of the quick evaluation
GRAMS = (1, 2)
MOST_LOGITS = 1 << 28  # of one evaluation batch, 1 GiB in float32


@lru_cache(maxsize=2)  # a batch may straddle two epochs
def _permutation(seed: int, epoch: int, n: int) -> np.ndarray:
    """An order of n blocks by our own random numbers, which no version of a library changes."""
    return np.argsort(rng.bits(rng.fold(seed, epoch)[None], n)[0].numpy(), kind="stable")


@register
@dataclass(frozen=True)
class Text(Task):
    """Blocks of `length` tokens from the folder that `dbtm data text` wrote; every epoch in an order of its own."""

    name = "text"
    of_evaluation = ("evaluate_n",)
    data: str = ""  # folder of the prepared set
    vocab: int = 8192
    length: int = 128
    seed: int = 0  # of the order
    tokenizer: str = ""  # file of the tokenizer; empty: the one in `data`
    evaluate_n: int = 256  # samples of the quick evaluation

    def __post_init__(self):
        if self.vocab < 2 or self.length < 1:
            raise UsageError(f"task.vocab={self.vocab} and task.length={self.length} must be at least 2 and 1")
        if self.evaluate_n < 1 or self.seed < 0:
            raise UsageError(f"task.evaluate_n={self.evaluate_n} must be at least 1, task.seed={self.seed} at least 0")

    # -- data ------------------------------------------------------------------------------------------------------

    @cached_property
    def prepared(self) -> Prepared:
        if not self.data:
            words = self.tokenizer or "train:8192"
            raise UsageError(
                f"no text: prepare some (dbtm data text --input FILE --tokenizer {words} --length {self.length} "
                "--out DIR) and name it with --data DIR"
            )
        found = Prepared(self.data)
        if (found.vocab, found.length) != (self.vocab, self.length):
            raise UsageError(
                f"{self.data} has vocabulary {found.vocab} and length {found.length}, but task.vocab={self.vocab} and "
                f"task.length={self.length}: prepare the text anew, or change these settings"
            )
        return found

    @property
    def train(self) -> Blocks:
        return self.prepared.train

    @property
    def held_out(self) -> Blocks:
        """Blocks of documents that are never trained on; there may be none."""
        return self.prepared.validation

    def source(self) -> dict[str, str]:
        """What the blocks are from: the folder, and the sha256 of its manifest, which has those of all its files."""
        return {"data": self.data, "sha256": self.data_sha256()}

    def data_sha256(self) -> str:
        return sha256(Path(self.data, MANIFEST))

    def at(self, data: str) -> "Text":
        """The same task where its data lies now; data of another tokenizer is refused."""
        from dbtm.tasks.text import tokenizer as tokenizers

        moved = replace(self, data=data)
        if tokenizers.load(str(moved.prepared.folder)).get_vocab() != moved.words.get_vocab():
            raise UsageError(f"{data} was prepared with another tokenizer than this model's, {self.tokenizer}")
        return moved

    def validation(self, n: int) -> np.ndarray:
        """n held-out blocks from all over the split (or all, where there are fewer), (B, L) tokens."""
        return self.held_out[spread(n, len(self.held_out))]

    def order(self, index: np.ndarray) -> np.ndarray:
        """Blocks for global sample indices: every epoch visits each block once."""
        n = len(self.train)
        epoch, place = np.divmod(index, n)
        rows = np.empty_like(place)
        for e in np.unique(epoch):
            rows[epoch == e] = _permutation(self.seed, int(e), n)[place[epoch == e]]
        return rows

    def batch(self, index: np.ndarray) -> Batch:
        return Batch(self.train[self.order(np.asarray(index))])

    # -- words -----------------------------------------------------------------------------------------------------

    @cached_property
    def words(self) -> "Tokenizer":
        from dbtm.tasks.text import tokenizer as tokenizers

        if not self.tokenizer and not self.data:
            raise UsageError("this model's tokenizer is not known: name its file with task.tokenizer")
        found = tokenizers.load(self.tokenizer or self.data)
        if tokenizers.size(found) != self.vocab:
            raise UsageError(
                f"the tokenizer in {self.tokenizer or self.data} has {tokenizers.size(found)} entries, but "
                f"task.vocab={self.vocab}: it belongs to another model"
            )
        return found

    def encode(self, text: str) -> list[int]:
        """Tokens of a text, without any special ones."""
        return self.words.encode(text, add_special_tokens=False).ids

    def decode(self, tokens_BL: np.ndarray) -> list[str]:
        """The texts of many samples, special tokens spelled out."""
        return self.words.decode_batch(np.asarray(tokens_BL).tolist(), skip_special_tokens=False)

    def text(self, tokens: np.ndarray) -> str:
        return self.decode(np.asarray(tokens)[None])[0]

    @cached_property
    def borders(self) -> Borders:
        """What stands at the borders of blocks: as the checkpoint or the data tell it, else ends of text by name."""
        from dbtm.tasks.text import tokenizer as tokenizers

        carried = Path(self.tokenizer).with_name(BORDERS) if self.tokenizer else None
        if carried is not None and carried.is_file():
            return Borders.read(carried)
        if self.data and Path(self.data, MANIFEST).is_file():
            return self.prepared.borders
        return Borders(*tokenizers.edges(self.words), around=False)

    def files(self) -> dict[str, str]:
        from dbtm.tasks.text import tokenizer as tokenizers

        return {tokenizers.FILE: self.words.to_str(), BORDERS: self.borders.text()}

    def with_files(self, found: Mapping[str, Path]) -> "Text":
        from dbtm.tasks.text import tokenizer as tokenizers

        return replace(self, tokenizer=str(found[tokenizers.FILE])) if tokenizers.FILE in found else self

    # -- quick evaluation ------------------------------------------------------------------------------------------

    @cached_property
    def reference(self) -> dict[str, float]:
        """The measures of as many held-out blocks as are sampled; empty where nothing is held out."""
        return _measures(self.validation(self.evaluate_n)) if len(self.held_out) else {}

    def prepare_evaluation(self) -> None:
        _ = self.reference

    def evaluate(self, sampler: "Sampler", seed: int) -> dict[str, float]:
        """Variety of samples at 1 and 4 evaluations: entropy, its distance to held-out text's, distinct-n.

        None of these says that the text is good; they show at once when one-step samples collapse.
        """
        from dbtm.sampling.sampler import Sampler

        size = max(1, min(sampler.batch, MOST_LOGITS // (self.length * self.vocab)))
        sampler = Sampler(sampler.model, sampler.options, self, batch=size)
        out = {f"{name}_data": value for name, value in self.reference.items()}
        for nfe in BUDGETS:
            found = _measures(sampler.sample(self.evaluate_n, nfe=nfe, seed=seed).tokens)
            out |= {f"{name}_{nfe}": value for name, value in found.items()}
            if self.reference:
                out[f"entropy_distance_{nfe}"] = found["entropy"] - self.reference["entropy"]
        return out


def _measures(tokens_BL: np.ndarray) -> dict[str, float]:
    """Entropy within a sample and of all samples together (the same words in every sample), distinct-n within one."""
    from dbtm.evals.diversity import distinct, entropies

    return {
        "entropy": float(entropies(tokens_BL).mean()),
        "entropy_together": float(entropies(tokens_BL.reshape(1, -1))[0]),
        **{f"distinct{n}": float(distinct(tokens_BL, n).mean()) for n in GRAMS},
    }
