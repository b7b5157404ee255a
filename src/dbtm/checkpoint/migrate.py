"""Configurations of earlier versions, brought to today's form before they are read."""

from pathlib import Path
from typing import Any

from dbtm.checkpoint.folder import read_document
from dbtm.config import RunConfig, from_dict

_DBTM = ("path", "loss", "ril", "distill")


def read_config(folder: Path) -> RunConfig:
    """The configuration of a checkpoint, whichever version wrote it."""
    return from_dict(migrated(read_document(folder / "config.json")))


def migrated(values: Any) -> Any:
    """Values as they are read today. Anything that does not look like an earlier version is left as it is."""
    if isinstance(values, dict) and not isinstance(values.get("method"), dict):
        return _methods_own_their_settings(values)
    return values


def _methods_own_their_settings(values: dict[str, Any]) -> dict[str, Any]:
    """Version 0.1: one method's settings stood in every run, the quality head in the model, the task's sizes too."""
    out = {name: value for name, value in values.items() if name not in _DBTM}
    model = dict(values["model"]) if isinstance(values.get("model"), dict) else {}
    for name in ("vocab", "length"):
        model.pop(name, None)
    if "taps" in model:
        model["conv_width"] = model.pop("taps")
    quality = {"enabled": model.pop("quality", True)}
    for name in ("width", "depth", "heads"):
        if f"quality_{name}" in model:
            quality[name] = model.pop(f"quality_{name}")
    sections = {name: dict(values[name]) for name in _DBTM if isinstance(values.get(name), dict)}
    for section in sections.values():
        if "count_committed_now" in section:
            section["supervise"] = "uncommitted" if section.pop("count_committed_now") else "remaining"
    method = values.get("method", "dbtm")
    settings = {**sections, "quality": quality} if method == "dbtm" else {}
    return {**out, "model": model, "method": {"name": method, **settings}}
