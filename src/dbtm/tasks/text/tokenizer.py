"""Tokenizers through the `tokenizers` library: by name, from a file, or trained from the input.

The library is written in Rust, where a bug ends in a panic: a BaseException, and lines on stderr. Untrusted files may
cause one, so they are tested when opened, and `Text` encodes and decodes `guarded`.
"""

import logging
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from dbtm.core.errors import UsageError

FILE = "tokenizer.json"
END = "<|endoftext|>"  # of the tokenizers that we train
MOST_TRAINING = 1_000_000_000  # training characters: more only take more time
MOST_SIZE = 1 << 20  # entries of a trained one: memory for all is allocated in advance
MOST_FILE = 256 << 20  # bytes
_BYTES = 256
_TRIAL = "A naïve fox, 北京 12\n \t\0 🦊 don't <|endoftext|></s>"  # test input for every tokenizer
_ENDS = (END, "</s>", "[SEP]", "<eos>", "[EOS]", "<|end_of_text|>", "<|eot_id|>")
_BEGINNINGS = ("[CLS]", "<s>", "<bos>", "[BOS]", "<|begin_of_text|>")


class Edges(NamedTuple):
    """The tokens at the borders of documents: beginning (or the end, if the tokenizer has none) and end."""

    bos: int
    eos: int


def asked_size(name: str) -> int | None:
    """8192 for `train:8192`; None for an existing tokenizer."""
    if not name.startswith("train:"):
        return None
    size = name.removeprefix("train:")
    if not (re.fullmatch(r"\d{1,9}", size, re.ASCII) and _BYTES < int(size) <= MOST_SIZE):
        raise UsageError(
            f"tokenizer {name}: a trained vocabulary has at least {_BYTES + 1} entries (all bytes and the end of "
            f"text) and at most {MOST_SIZE}, as in train:8192"
        )
    return int(size)


def train(texts: Iterable[str], size: int) -> Tokenizer:
    """Byte-level BPE: it encodes any text without loss or an unknown token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=[END], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(_first(texts, MOST_TRAINING), trainer)
    return plain(tokenizer)


def load(name: str) -> Tokenizer:
    """From a file, a folder with a tokenizer.json, or by its name on the Hugging Face hub (or in its local cache)."""
    path = Path(name)
    if path.is_dir():
        path = path / FILE
    if path.is_file():
        return _from_file(path)
    if path.suffix == ".json" or name.startswith((".", "/", "~")):
        raise UsageError(f"no such tokenizer file: {path}")
    try:
        with quiet_hub():
            return plain(Tokenizer.from_pretrained(name))
    except Exception as error:
        raise UsageError(
            f"the tokenizer '{name}' is neither a local file nor on the Hugging Face hub ({_line(error)}): give a "
            f"local file, PATH/{FILE}, or train one"
        ) from None


def load_file(name: str) -> Tokenizer:
    """From a file or a folder, never from the network: for the tokenizers of checkpoints and prepared sets."""
    path = Path(name) / FILE if Path(name).is_dir() else Path(name)
    if not path.is_file():
        raise UsageError(
            f"no such tokenizer file: {name}; loading is offline: set task.tokenizer to a local file, PATH/{FILE}"
        )
    return _from_file(path)


def _from_file(path: Path) -> Tokenizer:
    """Load and test a tokenizer file; files of /proc have no size, and some never end."""
    size = path.stat().st_size
    if not 0 < size <= MOST_FILE:
        raise UsageError(f"{path} is not a tokenizer: it has {size} bytes, more than {MOST_FILE >> 20} MiB")
    with guarded(path):
        tokenizer = plain(Tokenizer.from_file(str(path)))
        # one without an unknown token cannot encode everything; a panic is not suppressed
        with suppress(Exception):
            ids = tokenizer.encode(_TRIAL, add_special_tokens=False).ids
            tokenizer.decode_batch([ids, [0]], skip_special_tokens=False)
        return tokenizer


@contextmanager
def guarded(what: object) -> Iterator[None]:
    """Turn any error of the library into one line about `what`, and hide the output of a panic.

    For one thread at a time: it redirects stderr of the whole process.
    """
    try:
        with _held_back_errors():
            yield
    except (UsageError, MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # the library raises bare Exceptions, and panics
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise UsageError(f"{what} is not a tokenizer of the `tokenizers` library: {_line(error)}") from None
        raise


@contextmanager
def _held_back_errors() -> Iterator[None]:
    """Hold back stderr, and show it afterwards unless there is an error."""
    with tempfile.TemporaryFile() as held:
        try:
            before = os.dup(2)
        except OSError:  # there is none
            yield
            return
        os.dup2(held.fileno(), 2)
        try:
            yield
            shown = True
        except BaseException:
            shown = False
            raise
        finally:
            os.dup2(before, 2)
            os.close(before)
        held.seek(0)
        if shown and (said := held.read()):
            os.write(2, said)


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Silence the hub client's line per retry; one line at the end is enough."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # all loggers: importing the client resets the levels of its own
    try:
        yield
    finally:
        logging.disable(before)


def plain(tokenizer: Tokenizer) -> Tokenizer:
    """Encode whole texts without truncation or padding. A special token spelled in a text is plain text: only we write
    an end of text.
    """
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def size(tokenizer: Tokenizer) -> int:
    """V: one more than the largest id; ids may have gaps."""
    return max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1


def edges(tokenizer: Tokenizer, eos: str | None = None) -> Edges:
    """The tokens at document borders: the usual names, or the requested end of text."""
    names = _ENDS if eos is None else (eos,)
    end = next((i for i in map(tokenizer.token_to_id, names) if i is not None), None)
    if end is None:
        unknown = "none of " + ", ".join(_ENDS) if eos is None else f"no '{eos}'"
        raise UsageError(f"the tokenizer has {unknown}: give its end-of-text token")
    begin = next((i for i in map(tokenizer.token_to_id, _BEGINNINGS) if i is not None), end)
    return Edges(begin, end)


def _first(texts: Iterable[str], most: int) -> Iterator[str]:
    """Texts up to a total number of characters; no text at all is refused."""
    rest = iter(texts)
    head = next(rest, None)
    if head is None:
        raise UsageError("there is no text to train a tokenizer on")
    for text in chain([head], rest):
        yield text
        most -= len(text)
        if most <= 0:
            return


def _line(error: BaseException) -> str:
    """The first sentence of a library's message."""
    said = str(error).strip().split("\n")[0].split(". ")[0].rstrip(".")[:300]
    return said if said.isprintable() and said else repr(said or type(error).__name__)[1:-1]
