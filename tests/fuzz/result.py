"""What was shown, in one file: results/hardening.json, which docs/security.md quotes."""

import json
from pathlib import Path
from typing import Any

import torch

from dbtm.core.atomic import write_bytes
from dbtm.evals.provenance import made


def add(path: Path | None, section: str, numbers: dict[str, Any]) -> None:
    """Put the numbers of one tool into the file, with the machine, the commit and the date; the others stay."""
    if path is None:
        return
    whole = json.loads(path.read_text()) if path.is_file() else {}
    whole[section] = numbers | made(torch.device("cpu"))
    write_bytes(path, (json.dumps(whole, indent=2) + "\n").encode())
