"""Recipes that read a prepared set: `dbtm train RECIPE --data DIR`."""

import importlib
import json

from dbtm.config import RunConfig
from dbtm.core.errors import UsageError

READERS = {"text": "dbtm.tasks.text.shards", "gsm8k": "dbtm.tasks.gsm8k.prepared"}  # by task
PAPER = {
    "lm1b": "lm1b",
    "owt": "owt",
    "tinygsm": "gsm8k",
}  # recipes for one vocabulary and length, and who makes their data


def on_data(config: RunConfig, folder: str) -> list[str]:
    """The settings that put a recipe on a prepared set; the paper's recipes take only what they were written for."""
    found = importlib.import_module(READERS[config.task.name]).Prepared(folder)
    settings = {"data": folder, "vocab": found.vocab, "length": found.length}
    fits = (found.vocab, found.length) == (config.task.vocab, config.task.length)
    maker = PAPER.get(config.recipe.partition("-")[0])
    if maker and not fits:
        raise UsageError(
            f"{folder} has vocabulary {found.vocab} and length {found.length}, but '{config.recipe}' is for "
            f"{config.task.vocab} and {config.task.length}: prepare its data with `dbtm data {maker}`"
        )
    return [f"task.{name}={json.dumps(value)}" for name, value in settings.items()]
