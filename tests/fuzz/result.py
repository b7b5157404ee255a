"""What was shown, in one file: results/hardening.json, which docs/security.md quotes."""

import json
from pathlib import Path
from typing import Any

import torch

from dbtm.core.atomic import write_bytes
from dbtm.evals.provenance import made


def add(path: Path | None, section: str, numbers: dict[str, Any]) -> None:
    """Put the numbers of one tool into the file, with the machine, the commit and the date; the others stay."""
    if path is not None:
        whole = _read(path)
        whole[section] = numbers | made(torch.device("cpu"))
        _write(path, whole)


def add_shares(path: Path | None, limits: dict[str, Any], shares: list[dict[str, Any]]) -> None:
    """Put counts of the fuzzer into the file, each with the code it is of: a share with the same first seed takes the
    place of an earlier one, so that a reader that was mended is run again by itself.
    """
    if path is None:
        return
    whole, now = _read(path), made(torch.device("cpu"))
    told = {(share["reader"], share["first"]): share for share in whole.get("fuzz", {}).get("rows", [])}
    for share in shares:
        told[share["reader"], share["first"]] = share | {"commit": now["commit"], "date": now["date"]}
    rows = sorted(told.values(), key=lambda row: (row["reader"], row["first"]))
    totals = {name: sum(row[name] for row in rows) for name in ("inputs", "accepted", "refused", "failed")}
    most = {name: max(row[name] for row in rows) for name in ("slowest_seconds", "most_mib")}
    readers = {"readers": len({row["reader"] for row in rows})}
    whole["fuzz"] = readers | totals | most | {"limits": limits, "rows": rows} | now
    _write(path, whole)


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.is_file() else {}


def _write(path: Path, whole: dict[str, Any]) -> None:
    write_bytes(path, (json.dumps(whole, indent=2) + "\n").encode())
