"""Sets of text samples, and the file that carries them from the machine that samples to the one that judges.

The file is JSON lines (.jsonl, or .jsonl.gz), one set of samples per line:

    {"kind": "sample", "settings": {"sampler": "refine", "nfe": 4, "kappa": 0.9, ...}, "nfe": 3.4, "seconds": 1.2,
     "origin": {"checkpoint": ..., "sha256": ..., "seed": 0, ...}, "tokens": [[17, 4, ...], ...], "texts": ["...", ...]}

Only `tokens` (the model's ids, all rows of one length) and `texts` (special tokens written out) must be there, so that
samples of other programs can be judged too.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dbtm.core.errors import UsageError, nearest
from dbtm.evals.sweep import journal

KINDS = {"sample": "samples", "real": "real text", "shuffled": "real text, words shuffled"}
_NUMBERS = ("nfe", "sigma", "kappa", "temperature", "top_p", "repetition_penalty", "horizon")  # settings that we print
_TEXTS = ("sampler", "scorer", "order")


@dataclass(frozen=True)
class SampleSet:
    """Samples that were drawn together, or text to compare them with."""

    tokens_BL: np.ndarray
    texts: list[str]
    kind: str = "sample"
    settings: dict[str, Any] = field(default_factory=dict)
    """How they were drawn: all that matters for it, nothing that does not."""
    origin: dict[str, Any] = field(default_factory=dict)
    """What they were drawn from, and on what."""
    nfe: float | None = None
    """Network evaluations used on average."""
    seconds: float | None = None

    def record(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in ("kind", "settings", "origin", "nfe", "seconds", "texts")}
        return {**values, "tokens": self.tokens_BL.tolist()}


def key(settings: dict[str, Any]) -> str:
    """The same for equal settings, whatever their order."""
    return json.dumps(settings, sort_keys=True)


def from_record(record: dict[str, Any], where: str) -> SampleSet:
    """A set from a line of a file, or a UsageError that says where the line is wrong."""
    kind = record.get("kind", "sample")
    if kind not in [*KINDS]:
        raise UsageError(f"{where}: the kind '{kind}' is not known{nearest(str(kind), KINDS)}")
    tokens, texts = record.get("tokens"), record.get("texts")
    try:
        tokens_BL = np.array(tokens)
    except ValueError:
        tokens_BL = np.empty(0)
    if tokens_BL.ndim != 2 or tokens_BL.dtype.kind not in "iu" or not tokens_BL.size:
        raise UsageError(f"{where}: `tokens` must be a list of samples, each a list of ids, all of one length")
    if not isinstance(texts, list) or len(texts) != len(tokens_BL) or not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{where}: `texts` must be a list of {len(tokens_BL)} strings, one for every sample")
    rest = {name: record.get(name, {}) for name in ("settings", "origin")}
    if not all(isinstance(value, dict) for value in rest.values()):
        raise UsageError(f"{where}: `settings` and `origin` must be JSON objects")
    for name in ("nfe", "seconds"):
        if record.get(name) is not None and not _is_number(record[name]):
            raise UsageError(f"{where}: `{name}` must be a number")
    _check_settings(rest["settings"], where)
    _check_text([texts, rest], where)
    return SampleSet(tokens_BL, texts, kind, **rest, nfe=record.get("nfe"), seconds=record.get("seconds"))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300  # NaN is not


def _check_settings(settings: dict[str, Any], where: str) -> None:
    for name in _NUMBERS:
        if name in settings and not _is_number(settings[name]):
            raise UsageError(f"{where}: `settings.{name}` must be a number")
    for name in _TEXTS:
        if name in settings and not isinstance(settings[name], str):
            raise UsageError(f"{where}: `settings.{name}` must be a text")


def _check_text(values: Any, where: str) -> None:
    """Refuse what could be read but neither printed, judged nor written again."""
    try:
        json.dumps(values, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise UsageError(f"{where} has half of a surrogate pair: it is not valid Unicode") from None
    except ValueError:
        raise UsageError(f"{where} has a number that is not finite") from None


def read_sets(path: Path) -> list[SampleSet]:
    """All sets of a file."""
    sets = [from_record(record, f"{path}, line {number}") for number, record in journal.read_records(path)]
    if not sets:
        raise UsageError(f"{path} holds no samples")
    return sets


def write_sets(path: Path, sets: Iterable[SampleSet]) -> None:
    """A file of sets, whole or not at all."""
    journal.write_records(path, (each.record() for each in sets))
