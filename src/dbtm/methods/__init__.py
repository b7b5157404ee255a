"""Methods: a loss in named terms and a sampler, on a common backbone, trainer and evaluation."""

from typing import TYPE_CHECKING

from dbtm.core.errors import UsageError, nearest

if TYPE_CHECKING:
    from dbtm.methods.base import Method

_METHODS: "dict[str, type[Method]]" = {}


def register_method(cls: "type[Method]") -> "type[Method]":
    """Make a method known by its name, so that runs can ask for it and checkpoints of it can be loaded."""
    if not cls.name:
        raise UsageError(f"the method {cls.__name__} needs a name")
    _METHODS[cls.name] = cls
    return cls


def method_class(name: str) -> "type[Method]":
    """The class of a registered method."""
    from dbtm.methods import dbtm  # noqa: F401 - registers itself

    if name not in _METHODS:
        hint = nearest(name, _METHODS)
        raise UsageError(f"unknown method '{name}'{hint} (a method of your own must be imported and registered first)")
    return _METHODS[name]
