"""Descriptions of models from their configuration alone, without reading weights."""

from dataclasses import dataclass, fields
from typing import Any

from dbtm.checkpoint.loading import find, load
from dbtm.checkpoint.migrate import read_config
from dbtm.core.registry import METHODS
from dbtm.sampling import Sampler

__all__ = ["ModelCard", "Sampler", "describe_model", "load_model"]

ROOMS = {"sudoku": "sudoku", "text": "text", "gsm8k": "maths", "categorical": "simplex"}
"""The room of the studio for a task's models."""
_ASKED = ("nfe", "kappa", "scorer", "temperature", "top_p", "repetition_penalty", "order")


@dataclass(frozen=True)
class ModelCard:
    """The description of a model on a page."""

    name: str
    task: str
    method: str
    room: str
    """'' if no room shows models of this task."""
    length: int
    vocab: int
    size: int
    """Cells of a Sudoku, 0 for other tasks."""
    quality: bool
    """Whether the model has a quality head to choose commits."""
    options: dict[str, Any]
    """The sampler's options, with the checkpoint's values."""


def describe_model(name: str, checkpoint: str) -> ModelCard:
    """The card of a checkpoint, of a run's newest one, or of a packaged model."""
    config = read_config(find(checkpoint))
    known = {f.name for f in fields(METHODS.get(config.method_name).Options)}
    options = {key: getattr(config.sample, key) for key in _ASKED if key in known}
    quality = getattr(getattr(config.method, "quality", None), "enabled", False)
    box = getattr(config.task, "box", 0) if config.task.name == "sudoku" else 0
    room, shape = ROOMS.get(config.task.name, ""), config.shape
    return ModelCard(
        name, config.task.name, config.method_name, room, shape.length, shape.vocab, box**4, bool(quality), options
    )


def load_model(checkpoint: str, device: str = "auto") -> Sampler:
    """The sampler of a checkpoint."""
    return load(checkpoint, device)
