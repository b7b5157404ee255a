"""Settings: frozen dataclasses that are strictly read from JSON, written back, checked, and explained.

Reading never guesses: an unknown key, a wrong type or a value out of range is a UsageError that names the setting, the
problem, and the nearest valid name. A field's meaning is the string below it.
"""

import ast
import dataclasses
import inspect
import math
import textwrap
import types
import typing
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, Literal, Union, get_args, get_origin

from dbtm.core.errors import UsageError, nearest


class Section:
    """Base of the sections of a configuration: `section` is its dotted name in messages."""

    section: ClassVar[str] = ""

    def positive(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) <= 0:
                raise UsageError(f"{self.section}.{name}={getattr(self, name)} must be positive")

    def not_negative(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) < 0:
                raise UsageError(f"{self.section}.{name}={getattr(self, name)} must not be negative")

    def in_range(self, low: float, high: float, *names: str) -> None:
        for name in names:
            if not low <= getattr(self, name) <= high:
                raise UsageError(f"{self.section}.{name}={getattr(self, name)} must be between {low} and {high}")

    def up_to_one(self, *names: str) -> None:
        for name in names:
            if not 0 < getattr(self, name) <= 1:
                raise UsageError(f"{self.section}.{name}={getattr(self, name)} must be above 0 and at most 1")


def to_dict(settings: Any) -> dict[str, Any]:
    """A plain dictionary, the inverse of `read`."""
    return {f.name: _plain(getattr(settings, f.name)) for f in dataclasses.fields(settings)}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def read(cls: Any, values: Any, where: str = "") -> Any:
    """Build a settings dataclass; `where` is the dotted name of the section, for messages."""
    if not isinstance(values, dict):
        raise UsageError(f"{where or 'the configuration'} must be a JSON object, not {values!r}")
    prefix, hints, fields = where and f"{where}.", _hints(cls), {f.name: f for f in dataclasses.fields(cls)}
    for name in values:
        if name not in fields:
            raise UsageError(f"unknown key '{prefix}{name}'{nearest(str(name), fields)}")
    arguments = {}
    for name, f in fields.items():
        if name in values:
            arguments[name] = read_value(hints[name], values[name], prefix + name)
        elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise UsageError(f"missing key '{prefix}{name}'")
    return cls(**arguments)


@cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def read_value(kind: Any, value: Any, where: str) -> Any:
    """One value of the required type, or a UsageError that names the type."""
    if dataclasses.is_dataclass(kind):
        return read(kind, value, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return read_value(next(k for k in arguments if k is not type(None)), value, where)
    if origin is Literal:
        if value in arguments:
            return value
        raise UsageError(f"{where}={value!r} is not a choice{nearest(str(value), [str(a) for a in arguments])}")
    if origin is tuple:
        return _read_tuple(arguments, value, where)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        raise UsageError(f"{where} is an integer of {len(hex(value)) * 4} bits: at most 63 are allowed")
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{where}={value} must be a finite number")
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UsageError(f"{where}={value!r} must be of type {kind.__name__}")
    return value


def _read_tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple:
    if not isinstance(value, list | tuple):
        raise UsageError(f"{where}={value!r} must be a list, such as [1,2]")
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(value) != len(kinds):
        raise UsageError(f"{where}={value!r} must have {len(kinds)} entries")
    return tuple(read_value(k, v, f"{where}[{i}]") for i, (k, v) in enumerate(zip(kinds, value, strict=True)))


@cache
def meanings(cls: type) -> dict[str, str]:
    """{field: meaning} from the strings below the fields, including those of base classes."""
    out: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            out |= _strings_below_fields(base)
    return out


def _strings_below_fields(cls: type) -> dict[str, str]:
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # defined in an interactive interpreter
        return {}
    body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    pairs = pairwise(body)
    return {
        field.target.id: inspect.cleandoc(below.value.value).replace("\n", " ")
        for field, below in pairs
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def changed_keys(old: Any, new: Any, path: str = "", skip: Callable[[str], bool] = lambda path: False) -> list[str]:
    """Dotted names of the settings that differ between two dictionaries."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [] if old == new or skip(path) else [path]
    keys = [f"{path}.{key}" if path else key for key in old | new]
    return [name for key, name in zip(old | new, keys) for name in changed_keys(old.get(key), new.get(key), name, skip)]
