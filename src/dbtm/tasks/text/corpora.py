"""The paper's corpora: LM1B and OpenWebText, from Hugging Face `datasets` or from a local copy."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbtm.core.errors import UsageError
from dbtm.tasks.hub import load_dataset
from dbtm.tasks.text.prepare import Part
from dbtm.tasks.text.sources import Documents, find, pieces, whole
from dbtm.tasks.text.streams import Tick
from dbtm.tasks.text.tokenizer import quiet_hub

# LM1B separates words and punctuation by spaces. These are the rules, in order, of published discrete diffusion
# models, gaps included: other rules would change the numbers.
_LM1B_RULES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"(https?) : / / ", r"\1://"),
        (r" '(\w+)", r"'\1"),  # they 're
        (r" (\w+) \. ", r" \1. "),
        (r" (\w+) \.$", r" \1."),
        (r" \? ", "? "),
        (r" \?$", "?"),
        (r" ! ", "! "),
        (r" !$", "!"),
        (r" , ", ", "),
        (r" : ", ": "),
        (r" ; ", "; "),
        (r" / ", "/"),
        (r'" ([^"]+) "', r'"\1"'),
        (r"' ([^']+) '", r"'\1'"),
        (r"\( ([^()]+) \)", r"(\1)"),
        (r"\[ ([^\[\]]+) \]", r"[\1]"),
        (r"([$£]) ", r"\1"),
    ]
]


def detokenize_lm1b(text: str) -> str:
    """A sentence of LM1B with its punctuation back in place."""
    for pattern, replacement in _LM1B_RULES:
        text = pattern.sub(replacement, text)
    return text


@dataclass(frozen=True)
class Corpus:
    """The source of a corpus, the names of its splits there, and how its text is read."""

    name: str
    hub: str
    splits: tuple[tuple[str, str], ...]  # (ours, the hub's)
    revision: str | None = None
    detokenize: Callable[[str], str] | None = None
    documents: Documents = "line"  # in local plain text
    pattern: str = ""  # local files without a known extension
    held_out: str = ""  # local files of the validation split, a regular expression; empty: chosen by document

    def from_hub(self) -> list[Part]:
        """All splits through `datasets`, which keeps them on disk."""
        loaded = []
        for ours, theirs in self.splits:
            try:
                with quiet_hub():
                    loaded.append((ours, load_dataset(self.hub, split=theirs, revision=self.revision)))
            except ImportError:
                raise UsageError(
                    f"{self.name} needs Hugging Face datasets: pip install 'dbtm[hf]', or give a local copy"
                ) from None
            except Exception as error:  # no network, no such revision ...: the library has many
                reason = str(error).strip().split("\n")[0]
                raise UsageError(f"cannot load {self.hub} ({reason}): give a local copy") from None
        return [(ours, whole(_rows(dataset))) for ours, dataset in loaded]

    def files(self, folder: str) -> tuple[list[tuple[str | None, str]], list[str]]:
        """The files of a local copy with their split, None if it is chosen per document; and the skipped files."""
        paths, passed_over = find([folder], self.pattern)
        if not self.held_out:
            return [(None, path) for path in paths], passed_over
        out: list[tuple[str | None, str]] = []
        for path in paths:
            held_out = re.search(self.held_out, str(Path(path).relative_to(folder)))
            out.append(("validation" if held_out else "train", path))
        if len({split for split, _ in out}) < 2:
            raise UsageError(
                f"{folder} does not look like {self.name}: it needs training files, and held-out ones with "
                "heldout, test or valid in their name or folder"
            )
        return out, passed_over

    def from_files(self, files: list[tuple[str | None, str]], tick: Tick) -> list[Part]:
        return [(split, pieces(path, tick, documents=self.documents)) for split, path in files]


def _rows(dataset: Any) -> Iterator[str]:
    for batch in dataset.iter(batch_size=1024):
        yield from (text for text in batch["text"] if text.strip())


LM1B = Corpus(
    "lm1b",
    "billion-word-benchmark/lm1b",
    (("train", "train"), ("validation", "test")),
    revision="refs/convert/parquet",  # the main branch is a script, which `datasets` no longer runs
    detokenize=detokenize_lm1b,
    pattern="news.en*",
    held_out="(?<![a-z])(heldout|test|valid)",
)
OWT = Corpus(
    "owt",
    "Skylion007/openwebtext",
    (("train", "train[:-100000]"), ("validation", "train[-100000:]")),  # it has no validation split: the customary one
    documents="file",
)
