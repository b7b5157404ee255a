"""Tokenizes documents in several processes; results come in the order of the input."""

import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from dbtm.core.errors import UsageError
from dbtm.tasks.text import tokenizer as tokenizers
from dbtm.tasks.text.shards import DTYPES, SPLITS

JOB = 1 << 19  # characters per job

Detokenizer = Callable[[str], str]


class Item(NamedTuple):
    """A piece of a document, with the document's split."""

    split: str
    text: str
    ends: bool


class Encoded(NamedTuple):
    """Tokens by split, in order, and counts of their source."""

    tokens: dict[str, np.ndarray]
    documents: Counter[str]
    characters: Counter[str]


class Coding(NamedTuple):
    """Everything a process needs: the tokenizer as JSON, the end-of-text token, the dtype of the tokens."""

    json: str
    eos: int
    dtype: str
    detokenize: Detokenizer | None = None


def encoded(items: Iterable[Item], coding: Coding, workers: int) -> Generator[Encoded, None, None]:
    """Encode all items, with only a few jobs in memory at a time."""
    if workers == 1:
        yield from map(partial(_encode, coding, _tokenizer(coding)), _jobs(items))
        return
    waiting: deque[Future[Encoded]] = deque()
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _start, (coding,))
    try:
        for job in _jobs(items):
            waiting.append(pool.submit(_encode_here, job))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise UsageError("a process died, perhaps out of memory: use fewer workers") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _jobs(items: Iterable[Item]) -> Iterator[list[Item]]:
    job: list[Item] = []
    size = 0
    for item in items:
        job.append(item)
        size += len(item.text) + 1
        if size >= JOB:
            yield job
            job, size = [], 0
    if job:
        yield job


def _encode(coding: Coding, tokenizer: Tokenizer, job: list[Item]) -> Encoded:
    texts = [coding.detokenize(item.text) if coding.detokenize else item.text for item in job]
    tokens: dict[str, list[np.ndarray]] = {split: [] for split in SPLITS}
    out = Encoded({}, Counter(), Counter())
    dtype = np.dtype(DTYPES[coding.dtype])
    end = np.array([coding.eos], dtype)
    encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    for item, text, encoding in zip(job, texts, encodings, strict=True):
        tokens[item.split].append(np.array(encoding.ids, dtype))
        out.characters[item.split] += len(text)
        if item.ends:
            tokens[item.split].append(end)
            out.documents[item.split] += 1
    out.tokens.update({split: np.concatenate(parts) for split, parts in tokens.items() if parts})
    return out


# -- in a worker process -----------------------------------------------------------------------------------------------

_here: tuple[Coding, Tokenizer] | None = None


def _start(coding: Coding) -> None:
    global _here
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent handles Ctrl-C
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    _here = coding, _tokenizer(coding)


def _end_with_parent() -> None:
    """End with the parent: a killed parent cannot stop its workers, which would wait forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _encode_here(job: list[Item]) -> Encoded:
    assert _here is not None
    return _encode(*_here, job)


def _tokenizer(coding: Coding) -> Tokenizer:
    return tokenizers.plain(Tokenizer.from_str(coding.json))
