"""The complete configuration of a run: saved as JSON with every checkpoint, changed by dotted overrides."""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from dbtm.config.method import MethodConfig, SampleConfig
from dbtm.config.model import ModelConfig, Shape
from dbtm.config.train import OptimConfig, TrainConfig
from dbtm.core import settings
from dbtm.core.errors import UsageError, nearest
from dbtm.core.registry import METHODS, TASKS
from dbtm.tasks.base import Task

SECTIONS = ("task", "model", "method", "sample", "optim", "train")


@dataclass(frozen=True)
class RunConfig:
    """A task, a network, a method with its sampler, and the training settings."""

    recipe: str
    task: Task
    model: ModelConfig
    method: MethodConfig
    sample: SampleConfig
    optim: OptimConfig = field(default_factory=OptimConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        options = METHODS.get(self.method_name).Options
        if not isinstance(self.sample, options):
            raise UsageError(
                f"the options in sample are {type(self.sample).__qualname__}, which the method '{self.method_name}' "
                "does not take"
            )
        if self.optim.warmup > self.train.steps:
            raise UsageError(f"optim.warmup={self.optim.warmup} is longer than the run, train.steps={self.train.steps}")
        self.method.check(self)

    @property
    def method_name(self) -> str:
        return self.method.name

    @property
    def shape(self) -> Shape:
        """Vocabulary and length of the network, from the task."""
        return Shape(self.task.vocab, self.task.length)

    def on(self, task: Task) -> "RunConfig":
        """The same run on another task."""
        return dataclasses.replace(self, task=task)

    def by(self, method: str) -> "RunConfig":
        """The same task, network and training with another method and its default settings."""
        if method == self.method_name:
            return self
        cls = METHODS.get(method)
        own = cls.Config()
        batch, micro_batch = _divided(self.train.batch, self.train.micro_batch, own.copies)
        train = dataclasses.replace(self.train, batch=batch, micro_batch=micro_batch)
        return dataclasses.replace(self, method=own, sample=cls.Options(), train=train)


def _divided(batch: int, micro_batch: int, copies: int) -> tuple[int, int]:
    """The batch of a method with several rows per sequence, so that a step costs about the same."""
    return max(1, batch // copies), max(1, micro_batch // copies) if micro_batch else 0


# -- as JSON -----------------------------------------------------------------------------------------------------------


def to_dict(config: RunConfig) -> dict[str, Any]:
    """A plain dictionary, the inverse of `from_dict`."""
    out: dict[str, Any] = {"recipe": config.recipe}
    for name in SECTIONS:
        section = getattr(config, name)
        tag = {"name": section.name} if name in ("task", "method") else {}
        out[name] = tag | settings.to_dict(section)
    return out


def dumps(config: RunConfig) -> str:
    return json.dumps(to_dict(config), indent=2) + "\n"


def loads(text: str) -> RunConfig:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the configuration is not JSON: {error}") from None
    return from_dict(values)


def from_dict(values: Any) -> RunConfig:
    """A configuration from plain values; errors name unknown and missing keys and wrong types."""
    if not isinstance(values, dict):
        raise UsageError(f"the configuration must be a JSON object, not {values!r}")
    for name in values:
        if name not in ("recipe", *SECTIONS):
            raise UsageError(f"unknown key '{name}'{nearest(str(name), SECTIONS)}")
    for name in ("recipe", "task", "model", "method"):
        if name not in values:
            raise UsageError(f"missing key '{name}'")
    task, rest = _tagged(TASKS, values["task"], "task")
    method, own = _tagged(METHODS, values["method"], "method")
    return RunConfig(
        recipe=settings.read_value(str, values["recipe"], "recipe"),
        task=settings.read(task, rest, "task"),
        model=settings.read(ModelConfig, values["model"], "model"),
        method=settings.read(method.Config, own, "method"),
        sample=settings.read(method.Options, values.get("sample", {}), "sample"),
        optim=settings.read(OptimConfig, values.get("optim", {}), "optim"),
        train=settings.read(TrainConfig, values.get("train", {}), "train"),
    )


def _tagged(registry: Any, values: Any, where: str) -> tuple[Any, dict[str, Any]]:
    """The class of a section's `name`, and the other values."""
    if not isinstance(values, dict) or not isinstance(values.get("name"), str):
        raise UsageError(f"{where} must be a JSON object with a name, not {values!r}")
    rest = dict(values)
    return registry.get(rest.pop("name")), rest


# -- overrides ---------------------------------------------------------------------------------------------------------


def override(config: RunConfig, assignments: list[str]) -> RunConfig:
    """Apply `section.key=value` assignments in order; values are JSON, or plain words for strings.

    `method=NAME` switches to another method, with its default settings. A warm-up longer than a changed train.steps is
    shortened to a tenth of them, unless it is among the assignments.
    """
    values, given = to_dict(config), set[str]()
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            raise UsageError(f"a setting is changed by section.key=value, not by '{assignment}'")
        given.add(path)
        if path == "method":
            if text == values["method"]["name"]:
                continue
            cls = METHODS.get(text)
            values["method"] = {"name": text, **settings.to_dict(cls.Config())}
            values["sample"] = settings.to_dict(cls.Options())
            train = values["train"]
            if isinstance(train["batch"], int) and isinstance(train["micro_batch"], int):  # refused below otherwise
                divided = _divided(train["batch"], train["micro_batch"], cls.Config().copies)
                train["batch"], train["micro_batch"] = divided
            continue
        _assign(values, path, _word(text), assignment)
    steps = values["train"]["steps"]
    if "optim.warmup" not in given and isinstance(steps, int) and 0 < steps < config.optim.warmup:
        values["optim"]["warmup"] = max(1, steps // 10)
    return from_dict(values)


def _assign(values: dict[str, Any], path: str, value: Any, assignment: str) -> None:
    first, *rest = path.split(".")
    if first in values["method"] and first not in SECTIONS:
        raise UsageError(f"unknown section '{first}' in {assignment}; did you mean method.{path}?")
    if first not in SECTIONS:
        raise UsageError(f"unknown section '{first}' in {assignment}{nearest(first, SECTIONS)}")
    if not rest:
        raise UsageError(f"a setting is changed by section.key=value, not by '{assignment}'")
    section, tags = values[first], ("name",) if first in ("task", "method") else ()
    for depth, key in enumerate(rest, 1):
        if not isinstance(section, dict) or key not in section or (depth == 1 and key in tags):
            choices = [k for k in section if k not in tags or depth > 1] if isinstance(section, dict) else []
            raise UsageError(f"unknown key '{path}'{nearest(key, choices) if choices else ''}")
        if depth == len(rest):
            if isinstance(section[key], dict):
                raise UsageError(f"'{path}' is a group of settings: {', '.join(section[key])}")
            section[key] = value
        section = section[key]


def _word(text: str) -> Any:
    """The value of JSON (3, 0.5, true, [1,2], null), else the word itself."""
    try:
        return json.loads(text)
    except RecursionError:
        raise UsageError(f"'{text[:40]}...' has too deeply nested brackets") from None
    except ValueError:  # not JSON, or a number of thousands of digits
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        try:
            return float(text)  # .5 and 1e-3, which JSON does not know
        except (ValueError, OverflowError):
            return text
