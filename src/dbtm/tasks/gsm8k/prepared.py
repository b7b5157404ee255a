"""A prepared set: a folder of examples as tokens, with their tokenizer.

    DIR/
      manifest.json     sizes, counts, sources and files with their sha256
      tokenizer.json
      tokens.bin        all examples, concatenated without padding, little-endian uint16
      starts.bin        start of each example and end of the last, little-endian int64
      prompts.bin       number of given tokens per example, little-endian uint16

It is written under a temporary name, synced, and renamed: a folder of that name is complete (dbtm.tasks.folder).
"""

import json
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dbtm.core.digest import sha256
from dbtm.core.errors import UsageError
from dbtm.tasks.folder import MANIFEST, published, read_manifest, recover, whole_number
from dbtm.tasks.gsm8k.data import Example
from dbtm.tasks.gsm8k.layout import Layout, Row

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER = "tokenizer.json"
FILES = ("tokens.bin", "starts.bin", "prompts.bin")
KIND = "gsm8k"
CHUNK = 1024
MOST_VOCAB = 1 << 16


class Source(NamedTuple):
    """The source of examples, described for the manifest, and the examples; None is one without a program."""

    about: dict[str, Any]
    examples: Iterable[Example | None]


# -- writing -----------------------------------------------------------------------------------------------------------


def write(
    out: Path,
    tokenizer: "Tokenizer",
    length: int,
    sources: Iterable[Source],
    about: dict[str, Any] | None = None,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Write a prepared set and return its manifest; too long examples and non-programs are left out and counted."""
    from dbtm.tasks.text.tokenizer import size

    if size(tokenizer) > MOST_VOCAB:
        raise UsageError(f"the tokenizer has {size(tokenizer)} entries, but prepared sets hold at most {MOST_VOCAB}")
    layout = Layout(tokenizer, length)
    with published(out) as temporary:
        counts = _write_tokens(temporary, layout, sources, progress or (lambda _: None))
        (temporary / TOKENIZER).write_text(tokenizer.to_str(), encoding="utf-8")
        manifest = {
            "kind": KIND,
            "vocab": size(tokenizer),
            "length": length,
            "end": layout.end,
            "pad": layout.pad,
            **(about or {}),
            **counts,
            "files": {name: sha256(temporary / name) for name in (*FILES, TOKENIZER)},
        }
        (temporary / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return manifest


def _write_tokens(
    folder: Path, layout: Layout, sources: Iterable[Source], progress: Callable[[int], None]
) -> dict[str, Any]:
    """Write tokens.bin, starts.bin and prompts.bin; return their entries of the manifest."""
    starts, prompts, told = array("q", [0]), array("H"), []
    read = 0
    with open(folder / "tokens.bin", "wb") as file:
        for source in sources:
            seen = too_long = kept = 0
            for chunk in _chunks(source.examples):
                examples = [example for example in chunk if example is not None]
                for row in layout.rows(examples):
                    if row is None:
                        too_long += 1
                        continue
                    file.write(np.asarray(row.tokens, "<u2").tobytes())
                    starts.append(starts[-1] + len(row.tokens))
                    prompts.append(row.prompt)
                    kept += 1
                seen += len(chunk)
                progress(read + seen)
            read += seen
            left_out = {"too_long": too_long, "not_programs": seen - kept - too_long}
            told.append({**source.about, "examples": kept, **left_out})
    left_out = {name: sum(source[name] for source in told) for name in ("too_long", "not_programs")}
    if not prompts and left_out["too_long"]:
        raise UsageError(f"no example fits into {layout.length} tokens: give a larger length")
    if not prompts:
        raise UsageError(
            f"none of the {read} examples gives a Python program: correct their code, or the steps of their solutions"
        )
    np.asarray(starts, "<i8").tofile(folder / "starts.bin")
    np.asarray(prompts, "<u2").tofile(folder / "prompts.bin")
    return {"examples": len(prompts), **left_out, "tokens": starts[-1], "sources": told}


def _chunks(examples: Iterable[Example | None]) -> Iterator[list[Example | None]]:
    source = iter(examples)
    while chunk := list(islice(source, CHUNK)):
        yield chunk


# -- reading -----------------------------------------------------------------------------------------------------------


class Prepared:
    """A prepared set, opened for reading."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        recover(self.folder)
        try:
            manifest = read_manifest(self.folder)
            kind, files = manifest["kind"], manifest.get("files", {})
            self.files: dict[str, str] = dict(files) if isinstance(files, dict) else {}
            self.vocab = whole_number(manifest, "vocab", 1, MOST_VOCAB)
            self.length = whole_number(manifest, "length", 1, MOST_VOCAB)  # prompts.bin holds no longer ones
            self.examples = whole_number(manifest, "examples", 1, 1 << 40)
            self.tokens = whole_number(manifest, "tokens", 1, 1 << 50)
        except OSError:
            raise UsageError(f"{folder} is not a prepared set: make one with `dbtm data gsm8k`") from None
        except (ValueError, KeyError, TypeError):
            raise UsageError(f"{folder} is not a prepared set of gsm8k: make one with `dbtm data gsm8k`") from None
        if kind != KIND:
            raise UsageError(f"{folder} is a prepared set of another kind: make one with `dbtm data gsm8k`")

    def __len__(self) -> int:
        return self.examples

    def row(self, i: int) -> Row:
        tokens, starts, prompts = self._arrays
        begin, end, prompt = int(starts[i]), int(starts[i + 1]), int(prompts[i])
        if not 0 <= begin <= end <= begin + self.length or end > len(tokens):
            raise UsageError(f"{self.folder / 'starts.bin'} is damaged: example {i} is from {begin} to {end}")
        row = tokens[begin:end]
        if prompt > len(row):
            raise UsageError(
                f"{self.folder / 'prompts.bin'} is damaged: example {i} has {len(row)} tokens, {prompt} of them given"
            )
        if len(row) and row.max() >= self.vocab:
            raise UsageError(
                f"{self.folder / 'tokens.bin'} is damaged: it has the token {row.max()}, but the vocabulary ends at "
                f"{self.vocab - 1}"
            )
        return Row(row.tolist(), prompt)

    def verify(self) -> None:
        """Verify the sha256 of all files. Opening a set only compares sizes: TinyGSM's has gigabytes."""
        _ = self._arrays
        for name in (*FILES, TOKENIZER) if TOKENIZER in self.files else FILES:  # older sets do not list the tokenizer
            path = self.folder / name
            if not path.is_file():
                raise UsageError(f"{self.folder} is damaged: {name} is missing")
            if sha256(path) != self.files.get(name):
                raise UsageError(f"{path} is damaged: its sha256 is not the one in {MANIFEST}")

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Memory-mapped files of the sizes in the manifest."""
        return (
            self._map("tokens.bin", "<u2", self.tokens),
            self._map("starts.bin", "<i8", self.examples + 1),
            self._map("prompts.bin", "<u2", self.examples),
        )

    def _map(self, name: str, dtype: str, n: int) -> np.ndarray:
        path = self.folder / name
        if not path.is_file() or path.stat().st_size != n * np.dtype(dtype).itemsize:
            raise UsageError(f"{path} is missing or has another size than in {MANIFEST}: prepare the set again")
        return np.memmap(path, dtype, mode="r")
