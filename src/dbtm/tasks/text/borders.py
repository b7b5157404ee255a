"""What stands at the borders of documents and blocks. A checkpoint carries it: a prompt must know where it begins."""

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

    @staticmethod
    def of_set(manifest: dict[str, Any]) -> "Borders":
        """Those of a prepared set."""
        return Borders(
            int(manifest["bos"]["id"]), int(manifest["eos"]["id"]), bool(manifest["wrap"]["bos_eos_around_block"])
        )

    @staticmethod
    def read(path: Path) -> "Borders":
        """Those that a checkpoint carries."""
        try:
            return Borders(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            raise UsageError(f"{path} is damaged: it does not tell bos, eos and around") from None
