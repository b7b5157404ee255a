"""A configuration as strict JSON, and changed by dotted overrides.

Reading never guesses: an unknown key, a wrong type or an impossible combination is a UsageError that names it and the
nearest valid name.
"""

import dataclasses
import json
import math
import types
import typing
from typing import Any, Literal, Union, get_args, get_origin

from dbtm.config.sections import RunConfig
from dbtm.core.errors import UsageError, nearest
from dbtm.tasks.base import Task, task_class


def to_dict(config: Any) -> dict[str, Any]:
    """A plain dictionary that `from_dict` turns back into the same configuration."""
    out = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    for name, value in out.items():
        if name == "task":
            out[name] = {"name": value.name, **to_dict(value)}
        elif dataclasses.is_dataclass(value):
            out[name] = to_dict(value)
        elif isinstance(value, tuple):
            out[name] = [list(v) if isinstance(v, tuple) else v for v in value]
    return out


def dumps(config: RunConfig) -> str:
    return json.dumps(to_dict(config), indent=2) + "\n"


def loads(text: str) -> RunConfig:
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"the configuration is not JSON: {error}") from None
    return from_dict(RunConfig, values)


def from_dict(cls: type, values: Any, where: str = "") -> Any:
    """Build a configuration dataclass, naming every unknown or missing key and every wrong type."""
    if not isinstance(values, dict):
        raise UsageError(f"{where or 'the configuration'} must be a JSON object, not {values!r}")
    hints = typing.get_type_hints(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    for name in values:
        if name not in fields:
            raise UsageError(f"unknown key '{where}{name}'{nearest(name, fields)}")
    arguments = {}
    for name, f in fields.items():
        if name in values:
            arguments[name] = _read(hints[name], values[name], where + name)
        elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise UsageError(f"missing key '{where}{name}'")
    return cls(**arguments)


def _read(kind: Any, value: Any, where: str) -> Any:
    """One value of the wanted type, or a UsageError that says which type it should have."""
    if kind is Task:
        values = dict(value) if isinstance(value, dict) else {}
        return from_dict(task_class(str(values.pop("name", ""))), values, where + ".")
    if dataclasses.is_dataclass(kind):
        return from_dict(typing.cast(type, kind), value, where + ".")
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _read(next(k for k in arguments if k is not type(None)), value, where)
    if origin is Literal:
        if value in arguments:
            return value
        raise UsageError(f"{where}={value!r} is not a choice{nearest(str(value), [str(a) for a in arguments])}")
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise UsageError(f"{where}={value!r} must be a list, such as [1,2]")
        if arguments[-1] is not Ellipsis and len(value) != len(arguments):
            raise UsageError(f"{where}={value!r} must have {len(arguments)} entries")
        kinds = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else arguments
        return tuple(_read(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, value, strict=True)))
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{where}={value} must be a finite number")
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UsageError(f"{where}={value!r} must be of type {kind.__name__}")
    return value


def override(config: RunConfig, assignments: list[str]) -> RunConfig:
    """Apply `section.key=value` assignments, and `method=name`; values are JSON, or plain words for strings.

    Overriding the task's vocabulary or length carries over to the model, so that one assignment is enough.
    """
    values = to_dict(config)
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            raise UsageError(f"--set takes section.key=value, not '{assignment}'")
        if path == "method":
            values[path] = text
            continue
        section, dot, key = path.partition(".")
        if section not in values:
            raise UsageError(f"unknown section '{section}' in --set {assignment}{nearest(section, values)}")
        if not isinstance(values[section], dict) or not dot:
            raise UsageError(f"--set takes section.key=value, not '{assignment}'")
        if key not in values[section] or (key == "name" and section == "task"):
            raise UsageError(f"unknown key '{path}'{nearest(key, [k for k in values[section] if k != 'name'])}")
        values[section][key] = _word(text)
    task = _read(Task, values["task"], "task")
    values["model"] |= {
        name: getattr(task, name)
        for name in ("vocab", "length")
        if values["model"][name] == getattr(config.model, name)
    }
    return from_dict(RunConfig, values)


def _word(text: str) -> Any:
    """JSON where it is JSON (3, 0.5, true, [1,2], null), else the word itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        try:
            return float(text)  # .5 and 1e-3, which JSON does not know
        except ValueError:
            return text
