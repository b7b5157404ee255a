"""Tokens at the borders of documents and blocks; stored in checkpoints, as prompts need them."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from dbtm.core.errors import UsageError

BORDERS = "borders.json"


class Borders(NamedTuple):
    """The tokens at borders, and whether every block begins with bos and ends with eos."""

    bos: int
    eos: int
    around: bool

    def text(self) -> str:
        return json.dumps(self._asdict()) + "\n"

    def checked(self, vocab: int) -> "Borders":
        """Check that these are tokens of the vocabulary; else a ValueError."""
        if not all(type(token) is int and 0 <= token < vocab for token in (self.bos, self.eos)):
            raise ValueError("bos and eos are not tokens")
        if type(self.around) is not bool:
            raise ValueError("around must be true or false")
        return self

    @staticmethod
    def of_set(manifest: dict[str, Any], vocab: int) -> "Borders":
        """The borders of a prepared set."""
        bos, eos, wrap = manifest["bos"]["id"], manifest["eos"]["id"], manifest["wrap"]
        return Borders(bos, eos, wrap["bos_eos_around_block"]).checked(vocab)

    @staticmethod
    def read(path: Path, vocab: int) -> "Borders":
        """The borders in a checkpoint."""
        try:
            return Borders(**json.loads(path.read_text(encoding="utf-8"))).checked(vocab)
        except (OSError, ValueError, TypeError, RecursionError):
            raise UsageError(f"{path} is damaged: it lacks bos, eos or around") from None
