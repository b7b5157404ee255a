"""A prepared set: a folder of token shards with the tokenizer and a manifest.

DIR/
  manifest.json          sizes, counts, sha256 of all files, how documents were cut into blocks
  tokenizer.json
  train-00000.bin        whole blocks of `length` tokens, little-endian uint16 or uint32, nothing else
  validation-00000.bin
"""

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.tasks.folder import MANIFEST, file_name, read_manifest, recover, whole_number
from dbtm.tasks.text.borders import Borders
from dbtm.tasks.text.streams import first_line

FORMAT = 1
SPLITS = ("train", "validation")
SHARD_TOKENS = 1 << 27
DTYPES = {"uint16": "<u2", "uint32": "<u4"}


class Writer:
    """Appends a stream of tokens to the shards of one split, in full blocks; the rest is left over.

    With `edges`, (bos, eos), every block begins and ends with these and holds length - 2 tokens of the stream.
    """

    def __init__(self, folder: Path, split: str, dtype: str, length: int, edges: tuple[int, int] | None = None):
        self.folder, self.split, self.dtype = folder, split, np.dtype(DTYPES[dtype])
        self.length, self.edges = length, edges
        self.rest = np.empty(0, self.dtype)
        self.per_shard = max(1, SHARD_TOKENS // length)  # blocks
        self.shards: list[dict[str, Any]] = []
        self.file: BinaryIO | None = None

    def add(self, tokens: np.ndarray) -> None:
        stream = np.concatenate([self.rest, tokens.astype(self.dtype, copy=False)])
        content = self.length - 2 if self.edges else self.length
        n = len(stream) // content
        blocks_NL, self.rest = stream[: n * content].reshape(n, content), stream[n * content :].copy()
        if self.edges:
            bos, eos = (np.full((n, 1), token, self.dtype) for token in self.edges)
            blocks_NL = np.concatenate([bos, blocks_NL, eos], axis=1)
        while len(blocks_NL):
            room = self.per_shard - self.shards[-1]["blocks"] if self.file else 0
            if not room:
                self._next_shard()
                room = self.per_shard
            self._write(blocks_NL[:room])
            blocks_NL = blocks_NL[room:]

    def close(self) -> dict[str, Any]:
        """This split's entry of the manifest."""
        self._finish_shard()
        blocks = sum(shard["blocks"] for shard in self.shards)
        return {
            "blocks": blocks,
            "tokens": blocks * self.length,
            "tokens_left_over": len(self.rest),
            "shards": self.shards,
        }

    def _write(self, blocks_NL: np.ndarray) -> None:
        assert self.file is not None
        data = blocks_NL.tobytes()
        self.file.write(data)
        self.digest.update(data)
        self.shards[-1]["blocks"] += len(blocks_NL)

    def _next_shard(self) -> None:
        self._finish_shard()
        name = f"{self.split}-{len(self.shards):05d}.bin"
        self.file, self.digest = open(self.folder / name, "wb"), hashlib.sha256()  # noqa: SIM115 - open until full
        self.shards.append({"file": name, "blocks": 0, "sha256": ""})

    def _finish_shard(self) -> None:
        if self.file is not None:
            self.file.close()
            self.shards[-1]["sha256"] = self.digest.hexdigest()
            self.file = None


def spread(n: int, among: int) -> np.ndarray:
    """n rows evenly spread over `among`, with the first and the last; all if there are fewer."""
    return np.linspace(0, among - 1, min(n, among)).astype(np.int64)


class Blocks:
    """(N, L) tokens over memory-mapped shards; `blocks[rows]` gives int64 rows of tokens in the vocabulary."""

    def __init__(self, shards: list[np.ndarray], length: int, vocab: int, paths: list[Path]):
        self.shards, self.length, self.vocab, self.paths = shards, length, vocab, paths
        self.ends = np.cumsum([len(shard) for shard in shards], dtype=np.int64)

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        which = np.searchsorted(self.ends, rows, side="right")
        out = np.empty((len(rows), self.length), dtype=np.int64)
        for i in np.unique(which):
            chosen = which == i
            blocks = self.shards[i][rows[chosen] - (self.ends[i] - len(self.shards[i]))]
            if blocks.size and blocks.max() >= self.vocab:
                raise UsageError(
                    f"{self.paths[i]} is damaged: it has the token {blocks.max()}, but the vocabulary ends at "
                    f"{self.vocab - 1}: prepare the text again"
                )
            out[chosen] = blocks
        return out


class Prepared:
    """A prepared set, opened for reading. Missing, truncated or altered files are refused by name.

    Opening a set verifies the sha256 of its tokenizer, but only the file sizes of the training split, which may be
    large; `verify` reads all of them.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        recover(self.folder)
        path = self.folder / MANIFEST
        if not path.is_file():
            raise UsageError(
                f"{self.folder} is not prepared text: it has no {MANIFEST}; make one with `dbtm data text`"
            )
        try:
            self.manifest = read_manifest(self.folder)
            if {"kind", "config.json"} & {*self.manifest}:  # problems, a checkpoint
                raise UsageError(f"{self.folder} is not prepared text: make one with `dbtm data text`")
            form = self.manifest["format"]
            if form != FORMAT:
                raise UsageError(
                    f"{path} has format {str(form)[:40]!r}, but this version reads {FORMAT}: prepare the text again"
                )
            self._read_sizes()
        except UsageError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"{path} is damaged: {type(error).__name__} {first_line(error)}") from None
        self._compare(*self.tokenizer)

    def _read_sizes(self) -> None:
        """Parse the manifest; a ValueError, KeyError or TypeError if it is invalid."""
        said = self.manifest
        self.length = whole_number(said, "length", 1, SHARD_TOKENS)
        self.vocab = whole_number(said, "vocab", 1, 1 << 32)
        self.borders, self.dtype = Borders.of_set(said, self.vocab), np.dtype(DTYPES[said["dtype"]])
        self.tokenizer = file_name(said["tokenizer"]["file"]), said["tokenizer"]["sha256"]
        self.files = {
            split: [
                (file_name(s["file"]), whole_number(s, "blocks", 0, 1 << 40), s["sha256"])
                for s in said[split]["shards"]
            ]
            for split in SPLITS
        }

    @cached_property
    def train(self) -> Blocks:
        return self._blocks("train")

    @cached_property
    def validation(self) -> Blocks:
        self.verify("validation")  # evaluations use it
        return self._blocks("validation")

    def verify(self, *splits: str) -> None:
        """Verify the sha256 of the tokenizer and of every shard, of all splits unless some are named."""
        self._compare(*self.tokenizer)
        for name, _, digest in (shard for split in splits or SPLITS for shard in self.files[split]):
            self._compare(name, digest)

    def _compare(self, name: str, digest: str) -> None:
        path = self._there(name)
        if sha256(path) != digest:
            raise UsageError(f"{path} is damaged: its sha256 is not the one in {MANIFEST}")

    def _there(self, name: str) -> Path:
        if not (self.folder / name).is_file():
            raise UsageError(f"{self.folder} is damaged: {name} is missing")
        return self.folder / name

    def _blocks(self, split: str) -> Blocks:
        shards, paths = list[np.ndarray](), list[Path]()
        for name, blocks, _ in self.files[split]:
            if not blocks:  # an empty file cannot be mapped
                continue
            path = self._there(name)
            size, wanted = path.stat().st_size, blocks * self.length * self.dtype.itemsize
            if size != wanted:
                raise UsageError(f"{path} is damaged: it has {size} bytes, not {wanted}")
            shards.append(np.memmap(path, self.dtype, "r", shape=(blocks, self.length)))
            paths.append(path)
        if split == "train" and not shards:
            raise UsageError(f"{self.folder} is damaged: it has no blocks to train on")
        return Blocks(shards, self.length, self.vocab, paths)
