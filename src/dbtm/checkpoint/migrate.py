"""Migration of configurations of earlier versions to the current format."""

from pathlib import Path
from typing import Any

from dbtm.checkpoint.folder import read_document
from dbtm.config import RunConfig, from_dict
from dbtm.core.errors import UsageError

_DBTM = ("path", "loss", "ril", "distill")
_REMOVED: dict[tuple[str, ...], Any] = {
    ("model", "rotary"): True,
    ("method", "distill", "fraction"): 1.0,
    ("sample", "penalty_by_nfe"): [],
}
"""Removed settings, and the only value that the current code supports."""


def read_config(folder: Path) -> RunConfig:
    """The configuration of a checkpoint of any version."""
    return from_dict(migrated(read_document(folder / "config.json")))


def migrated(values: Any) -> Any:
    """Values in the current format. Anything that does not look like an earlier version is unchanged: reading it
    reports what is wrong.
    """
    if isinstance(values, dict) and isinstance(values.get("method", "dbtm"), str) and "model" in values:
        values = _methods_own_their_settings(values)
    task = values.get("task") if isinstance(values, dict) else None
    if isinstance(task, dict) and task.get("name") == "own" and "held_out" not in task:
        values = {**values, "task": {**task, "held_out": 0.0}}  # such runs were trained on every row
    return _without_removed(values)


def _without_removed(values: Any) -> Any:
    """Values without the removed settings; a checkpoint that used one cannot be loaded."""
    for path, only in _REMOVED.items():
        section = _section(values, path[:-1])
        if section is None or path[-1] not in section:
            continue
        if section[path[-1]] != only:
            raise UsageError(
                f"{'.'.join(path)}={section[path[-1]]!r} is no longer supported: load this checkpoint with dbtm 0.1"
            )
        values = _less(values, path)
    return values


def _section(values: Any, path: tuple[str, ...]) -> dict[str, Any] | None:
    """The JSON object at a path, or None if there is none."""
    for name in path:
        values = values.get(name) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else None


def _less(values: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """A copy without the value at a path."""
    name, *rest = path
    if not rest:
        return {key: value for key, value in values.items() if key != name}
    return {**values, name: _less(values[name], tuple(rest))}


def _methods_own_their_settings(values: dict[str, Any]) -> dict[str, Any]:
    """Version 0.1: every run had DBTM's settings, and the model had the quality head and the task's sizes."""
    method = values.get("method", "dbtm")
    theirs = _DBTM if method == "dbtm" else (*_DBTM, "sample")  # other methods had DBTM's sampler, which is gone
    out = {name: value for name, value in values.items() if name not in theirs}
    if not isinstance(values["model"], dict):
        return {**out, "method": {"name": method}}
    model = dict(values["model"])
    for name in ("vocab", "length"):
        model.pop(name, None)
    if "taps" in model:
        model["conv_width"] = model.pop("taps")
    quality = {"enabled": model.pop("quality", True)}
    for name in ("width", "depth", "heads"):
        if f"quality_{name}" in model:
            quality[name] = model.pop(f"quality_{name}")
    sections = {name: _supervised(values[name]) for name in _DBTM if name in values}
    settings = {**sections, "quality": quality} if method == "dbtm" else {}
    return {**out, "model": model, "method": {"name": method, **settings}}


def _supervised(section: Any) -> Any:
    """A section in which the switch for the positions of a round's loss became a choice."""
    if not isinstance(section, dict) or not isinstance(section.get("count_committed_now"), bool):
        return section
    rest = {name: value for name, value in section.items() if name != "count_committed_now"}
    return {**rest, "supervise": "uncommitted" if section["count_committed_now"] else "remaining"}
