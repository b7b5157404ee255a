"""Loading a run's state from a folder: resuming it, or starting another run from its weights; and their checks."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from dbtm import config as configuration
from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint import weights as averaged
from dbtm.checkpoint.loading import put, put_rows
from dbtm.checkpoint.migrate import read_config
from dbtm.checkpoint.parts import Part
from dbtm.config import RunConfig
from dbtm.core.errors import UsageError
from dbtm.core.settings import changed_keys
from dbtm.methods.base import Method
from dbtm.train.distributed import rows_here
from dbtm.train.optim import load_state

# -- resuming ----------------------------------------------------------------------------------------------------------


def resumed(config: RunConfig, folder: Path, data_sha256: str) -> RunConfig:
    """The configuration to resume a checkpoint with, which must have been trained with the same settings."""
    saved, state = read_config(folder), checkpoint.read_state(folder)
    _refuse_changes(saved, config, folder, () if "data" not in state else ("data",))
    if state.get("data", data_sha256) != data_sha256:
        raise UsageError(f"{folder} was trained on other data: resume it with the same data, at any path")
    return replace(config, train=replace(config.train, init=saved.train.init))


def load_networks(folder: Path, networks: Mapping[str, nn.Module], sharded: bool) -> None:
    """Load weights; if they are sharded, each process reads its own rows."""
    for name, module in networks.items():
        with Part(folder, name) as part:
            if sharded:
                put_rows(module, part, rows_here)
            else:
                put(module, {key: part.read(key) for key in part.entries}, part.where)


def load_optimizers(folder: Path, optimizers: list[Optimizer], model: nn.Module) -> None:
    with Part(folder, "optim") as part:
        try:
            load_state(optimizers, model, part.shapes(), part.read)
        except (KeyError, ValueError):
            raise UsageError(f"{part.where} is damaged: it is not the state of these optimizers") from None


def step_of(folder: Path, config: RunConfig) -> int:
    """The step after which a checkpoint was written."""
    step: int = checkpoint.read_state(folder)["step"]
    if step > config.train.steps:
        raise UsageError(f"{folder} is already past train.steps={config.train.steps}: set more steps")
    return step


def _refuse_changes(saved: RunConfig, now: RunConfig, folder: Path, free: tuple[str, ...] = ()) -> None:
    """A resumed run keeps its data and its objective; its length, its speed and its evaluation may change, and so may
    the task's settings in `free`.
    """
    fixed = {"train": {"train.seed", "train.batch", "train.micro_batch"}, "optim": {"optim.name"}}
    free_settings = {f"task.{name}" for name in (*now.task.evaluation_settings, *free)}
    old, new = configuration.to_dict(saved), configuration.to_dict(now)
    for section in ("method", "task", "model", "train", "optim"):
        changed = changed_keys(old[section], new[section], section, free_settings.__contains__)
        changed = [name for name in changed if section not in fixed or name in fixed[section]]
        if changed:
            name = "method" if changed[0] == "method.name" else changed[0]
            raise UsageError(f"{folder} was trained with another {name}: resume it with its original settings")


# -- starting from other weights ---------------------------------------------------------------------------------------


def start_from(method: Method[Any, Any], folder: Path, files: Mapping[str, str]) -> None:
    """Fine-tuning or distillation: load the averaged weights of another run into the method. `files` are those of the
    task (a tokenizer), which must be the same.
    """
    names = {"config.json", *averaged.names(folder), *files.keys() & checkpoint.listed(folder, ()).keys()}
    checkpoint.verify(folder, names)
    config = read_config(folder)
    method.check_teacher(config)
    saved, now = configuration.to_dict(config), configuration.to_dict(method.config)
    if method.config.model.self_condition:
        saved["model"]["self_condition"] = True  # a self-conditioning table missing in the checkpoint starts at zero
    for name in changed_keys(saved["model"], now["model"], "model"):
        raise UsageError(f"{folder} has another {name} than this run: they must be the same")
    for name in names & files.keys():
        if (folder / name).read_text(encoding="utf-8") != files[name]:
            raise UsageError(f"{folder} was trained with another {name}: prepare the data in the same way")
    weights = averaged.read(folder)
    try:
        method.adopt(weights)
    except RuntimeError:
        whose = f"'{saved['method']['name']}' on '{saved['task']['name']}'"
        raise UsageError(f"{folder} is a network of {whose}, whose weights do not fit this run's") from None
