"""Classes by their name in configurations: tasks and methods, of the package or the user's."""

import importlib
from typing import Any, TypeVar

from dbtm.core.errors import UsageError, nearest

Class = TypeVar("Class", bound=type[Any])


class Registry:
    """Names to classes. The package lists its own in `BUILT_IN`, name to module, and imports them on demand."""

    def __init__(self, kind: str, package: str):
        self.kind, self.package = kind, package
        self.known: dict[str, Any] = {}

    def add(self, cls: Class) -> Class:
        """Register a class by its `name`; a decorator."""
        if not cls.name:
            raise UsageError(f"the {self.kind} {cls.__name__} needs a name")
        self.known[cls.name] = cls
        return cls

    def built_in(self) -> dict[str, str]:
        """The package's own names, and their modules."""
        names: dict[str, str] = importlib.import_module(self.package).BUILT_IN
        return names

    def names(self) -> list[str]:
        return sorted({*self.known, *self.built_in()})

    def get(self, name: str) -> Any:
        if name not in self.known and name in self.built_in():
            importlib.import_module(self.built_in()[name])
        if name not in self.known:
            raise UsageError(
                f"unknown {self.kind} '{name}'{nearest(name, self.names())} (a {self.kind} of your own must be "
                "imported and registered first)"
            )
        return self.known[name]


TASKS = Registry("task", "dbtm.tasks")
METHODS = Registry("method", "dbtm.methods")
