"""Locations of prepared text: folders or fsspec URLs (s3://bucket/set), separated by semicolons.

Of a remote set only the manifest, the tokenizer and the validation split are fetched; training blocks are read one by
one on demand, so each process reads only its own rows.
"""

import hashlib
import re
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.tasks.folder import MANIFEST, MOST_MANIFEST, file_name, read_manifest
from dbtm.tasks.text.shards import Blocks, Prepared

_URL = re.compile(r"[a-z][a-z0-9+.-]+://")
_CUT = re.compile(r"^([a-z][a-z0-9+.-]+):/(?!/)")  # as a path spells a URL


def places(data: str) -> list[str]:
    """The locations in a setting."""
    return [_CUT.sub(r"\1://", place.strip()) for place in data.split(";") if place.strip()]


def on_this_machine(data: str) -> bool:
    """A single local folder."""
    found = places(data)
    return len(found) == 1 and not _URL.match(found[0])


def opened(data: str) -> Prepared:
    """The prepared set, or several as one."""
    sets = [Remote(place) if _URL.match(place) else Prepared(place) for place in places(data)]
    return sets[0] if len(sets) == 1 else Joined(sets)


class Joined(Prepared):
    """Several sets with the same tokenizer and length, concatenated."""

    def __init__(self, sets: list[Prepared]):
        if not sets:
            raise UsageError("no prepared text is given: set task.data")
        first = sets[0]
        for other in sets[1:]:
            for name in ("length", "vocab", "borders"):
                if getattr(first, name) != getattr(other, name):
                    raise UsageError(f"{first.folder} and {other.folder} differ in {name}: prepare them alike")
            if first.tokenizer[1] != other.tokenizer[1]:
                raise UsageError(f"{first.folder} and {other.folder} differ in their tokenizers: prepare them alike")
        self.sets, self.folder = sets, first.folder
        self.length, self.vocab = first.length, first.vocab
        self.borders, self.tokenizer = first.borders, first.tokenizer

    @cached_property
    def train(self) -> Blocks:
        return self._joined([each.train for each in self.sets])

    @cached_property
    def validation(self) -> Blocks:
        return self._joined([each.validation for each in self.sets])

    def _joined(self, blocks: list[Blocks]) -> Blocks:
        shards = [shard for each in blocks for shard in each.shards]
        return Blocks(shards, self.length, self.vocab, [path for each in blocks for path in each.paths])

    def verify(self, *splits: str) -> None:
        for each in self.sets:
            each.verify(*splits)

    def digest(self) -> str:
        return hashlib.sha256("".join(manifest_sha256(each) for each in self.sets).encode()).hexdigest()


class Remote(Prepared):
    """A set at an fsspec URL."""

    def __init__(self, url: str):
        self.url = url.rstrip("/")
        self.files_here = tempfile.TemporaryDirectory(prefix="dbtm-set-")
        here = Path(self.files_here.name)
        try:
            import fsspec

            self.system, self.path = fsspec.core.url_to_fs(self.url)
            if self.system.size(f"{self.path}/{MANIFEST}") > MOST_MANIFEST:
                raise UsageError(f"{self.url}/{MANIFEST} is damaged: it has more than {MOST_MANIFEST >> 20} MiB")
            self._fetch(MANIFEST, here)
            self._fetch(file_name(read_manifest(here)["tokenizer"]["file"]), here)
        except UsageError:
            raise
        except FileNotFoundError:
            raise UsageError(f"{self.url} is not prepared text: it has no {MANIFEST}, or lacks its tokenizer") from None
        except Exception as error:  # errors of the file system's library, the network or the manifest
            reason = str(error).strip().split("\n")[0][:200] or type(error).__name__
            raise UsageError(f"cannot read {self.url}: {reason}") from None
        super().__init__(here)

    def _fetch(self, name: str, here: Path) -> None:
        self.system.get_file(f"{self.path}/{name}", str(here / name))

    def _there(self, name: str) -> Path:
        """Small files and the validation split, fetched on demand."""
        if not (self.folder / name).is_file():
            try:
                self._fetch(name, self.folder)
            except Exception as error:
                raise UsageError(f"{self.url} is damaged: {name} cannot be read ({type(error).__name__})") from None
        return super()._there(name)

    @cached_property
    def train(self) -> Blocks:
        shards: list[Any] = []
        for name, blocks, _ in self.files["train"]:
            if not blocks:
                continue
            path, wanted = f"{self.path}/{name}", blocks * self.length * self.dtype.itemsize
            try:
                size = self.system.size(path)
            except Exception as error:
                raise UsageError(f"{self.url} is damaged: {name} cannot be read ({type(error).__name__})") from None
            if size != wanted:
                raise UsageError(f"{self.url}/{name} is damaged: it has {size} bytes, not {wanted}")
            shards.append(RemoteShard(self.system, path, blocks, self.length, self.dtype))
        if not shards:
            raise UsageError(f"{self.url} is damaged: it has no blocks to train on")
        return Blocks(shards, self.length, self.vocab, [Path(shard.path) for shard in shards])


class RemoteShard:
    """A shard whose blocks are read by number, all requested ones at once."""

    def __init__(self, system: Any, path: str, blocks: int, length: int, dtype: np.dtype):
        self.system, self.path, self.blocks, self.length, self.dtype = system, path, blocks, length, dtype

    def __len__(self) -> int:
        return self.blocks

    def __getitem__(self, rows: np.ndarray) -> np.ndarray:
        size = self.length * self.dtype.itemsize
        starts = [int(row) * size for row in rows]
        try:
            found = self.system.cat_ranges([self.path] * len(starts), starts, [start + size for start in starts])
            return np.stack([np.frombuffer(piece, self.dtype).reshape(self.length) for piece in found])
        except Exception as error:
            raise UsageError(f"cannot read {self.path}: {type(error).__name__} {str(error)[:200]}") from None


def manifest_sha256(prepared: Prepared) -> str:
    """sha256 of all contents of a set, wherever it is stored."""
    return prepared.digest() if isinstance(prepared, Joined) else sha256(prepared.folder / MANIFEST)
