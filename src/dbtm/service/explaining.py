"""The explanation of a configuration: each setting with its meaning, its default, and the recipe's value."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from dbtm.config import RunConfig
from dbtm.config.run import SECTIONS
from dbtm.core.settings import meanings


@dataclass(frozen=True)
class Setting:
    """One setting of a run."""

    name: str
    """Dotted, as in --set: method.ril.depths."""
    value: Any
    default: Any
    meaning: str

    @property
    def changed(self) -> bool:
        return self.value != self.default


def explain(config: RunConfig) -> list[Setting]:
    """All settings of a run, section by section; defaults are those of the sections, not of a recipe."""
    return [setting for name in SECTIONS for setting in _settings(name, getattr(config, name))]


def _settings(path: str, section: Any) -> list[Setting]:
    kind: Any = type(section)
    out, words = [], meanings(kind)
    for field in dataclasses.fields(section):
        value, default = getattr(section, field.name), _default(field)
        if dataclasses.is_dataclass(value):
            out += _settings(f"{path}.{field.name}", value)
        else:
            out.append(Setting(f"{path}.{field.name}", value, default, words.get(field.name, "")))
    return out


def _default(field: dataclasses.Field) -> Any:
    return field.default if field.default is not dataclasses.MISSING else None
