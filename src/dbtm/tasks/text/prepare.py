"""Documents to a prepared set: streamed, independent of the number of processes, written atomically."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from dbtm.core.errors import UsageError
from dbtm.tasks.folder import published
from dbtm.tasks.text import tokenizer as tokenizers
from dbtm.tasks.text.encode import Coding, Detokenizer, Item, encoded
from dbtm.tasks.text.shards import DTYPES, FORMAT, MANIFEST, SHARD_TOKENS, SPLITS, Writer
from dbtm.tasks.text.sources import Piece

SPLIT_BY = 4096  # characters of a document that determine its split: the first piece always has them
Part = tuple[str | None, Iterable[Piece]]  # documents of one split; None: chosen per document


@dataclass(frozen=True)
class Layout:
    """How documents become blocks, and which of them are held out."""

    length: int
    edges: bool = False  # every block begins with BOS and ends with EOS
    validation: float = 0.01  # share of the documents
    seed: int = 0  # of the choice of documents
    dtype: str = "auto"

    def __post_init__(self):
        fewest = 3 if self.edges else 1
        if self.length < fewest:
            raise UsageError(f"length {self.length} is too short: blocks need at least {fewest} tokens")
        if self.length > SHARD_TOKENS:
            raise UsageError(f"length {self.length} is too long: blocks hold at most {SHARD_TOKENS} tokens")
        if not 0 <= self.validation < 1:
            raise UsageError(f"validation {self.validation} must be a share of the documents, from 0 to below 1")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"seed {self.seed} must be from 0 to 2^63 - 1")
        if self.dtype not in ("auto", *DTYPES):
            raise UsageError(f"dtype {self.dtype} is not a choice; choose one of: auto, {', '.join(DTYPES)}")

    def split_of(self, text: str) -> str:
        """A document's split depends on how its text begins: equal documents are in the same split."""
        digest = hashlib.blake2b(text[:SPLIT_BY].encode(), digest_size=8, key=self.seed.to_bytes(8, "little")).digest()
        return "validation" if int.from_bytes(digest, "little") < self.validation * 2**64 else "train"

    def dtype_for(self, vocab: int) -> str:
        """The requested dtype, or the smallest that holds every token."""
        dtype = ("uint16" if vocab <= 1 << 16 else "uint32") if self.dtype == "auto" else self.dtype
        most = 1 << (8 * np.dtype(DTYPES[dtype]).itemsize)
        if vocab > most:
            raise UsageError(f"a vocabulary of {vocab} does not fit {dtype}, which holds {most}: use dtype uint32")
        return dtype


def assigned(parts: Iterable[Part], layout: Layout) -> Iterator[Item]:
    """Each piece with its document's split, which depends on the first piece."""
    for fixed, pieces in parts:
        split = fixed
        for text, ends in pieces:
            split = split or layout.split_of(text)
            yield Item(split, text, ends)
            split = fixed if ends else split


def prepare(
    parts: Iterable[Part],
    tokenizer: Tokenizer,
    out: Path,
    layout: Layout,
    *,
    eos: str | None = None,
    detokenize: Detokenizer | None = None,
    workers: int = 1,
    about: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write a prepared set and return its manifest, which includes `about`, the description of the source."""
    vocab, edges = tokenizers.size(tokenizer), tokenizers.edges(tokenizer, eos)
    coding = Coding(tokenizer.to_str(), edges.eos, layout.dtype_for(vocab), detokenize)
    with published(out) as temporary:
        counts = _write_shards(temporary, assigned(parts, layout), coding, layout, edges, workers)
        manifest = {
            "format": FORMAT,
            "dtype": coding.dtype,
            "length": layout.length,
            "vocab": vocab,
            "eos": {"id": edges.eos, "token": tokenizer.id_to_token(edges.eos)},
            "bos": {"id": edges.bos, "token": tokenizer.id_to_token(edges.bos)},
            "tokenizer": {"file": tokenizers.FILE, "sha256": hashlib.sha256(coding.json.encode()).hexdigest()},
            "wrap": {"eos_after_document": True, "across_documents": True, "bos_eos_around_block": layout.edges},
            "split": {"validation": layout.validation, "seed": layout.seed},
            **(about or {}),
            **counts,
        }
        (temporary / tokenizers.FILE).write_text(coding.json, encoding="utf-8")
        (temporary / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return manifest


def _write_shards(
    folder: Path, items: Iterable[Item], coding: Coding, layout: Layout, edges: tokenizers.Edges, workers: int
) -> dict[str, Any]:
    """Write the shards of both splits; return their entries of the manifest."""
    around = edges if layout.edges else None
    writers = {split: Writer(folder, split, coding.dtype, layout.length, around) for split in SPLITS}
    documents, characters = Counter[str](), Counter[str]()
    with closing(encoded(items, coding, workers)) as results:
        for result in results:
            for split, tokens in result.tokens.items():
                writers[split].add(tokens)
            documents.update(result.documents)
            characters.update(result.characters)
    counts = {}
    for split, writer in writers.items():
        values = {"documents": documents[split], "characters": characters[split], **writer.close()}
        wanted = split == "train" or layout.validation or documents[split]
        if wanted and not values["blocks"]:
            raise UsageError(
                f"too little text for {split}: {documents[split]} documents of {values['tokens_left_over']} tokens do "
                f"not fill a block of {layout.length}: use more text, a smaller length or another validation share"
            )
        counts[split] = values
    return counts
