"""Other receivers of a run's metrics: TensorBoard, Weights & Biases, MLflow, or your own class.

    class Print(dbtm.Callback):
        def record(self, step, values):
            print(step, values["loss"] if "loss" in values else values)

    dbtm.fit(config, "runs/mine", callbacks=[Print()])

The services are imported only if selected (`train.track`).
"""

import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dbtm.core.errors import UsageError, nearest


class Callback:
    """Base class of all receivers; does nothing. Only the first process calls it."""

    def start(self, config: Mapping[str, Any], folder: Path) -> None:
        """The run starts or resumes: its complete configuration, and its folder."""

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Metrics after a step: losses, or `eval/...` of a quick evaluation."""

    def end(self) -> None:
        """The run has ended, been stopped, or failed."""


def _import(module: str, name: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UsageError(f"train.track={name} needs {package}: pip install '{package}'") from None


class TensorBoard(Callback):
    """Files in the run's folder: `tensorboard --logdir runs`."""

    def __init__(self) -> None:
        self.module = _import("torch.utils.tensorboard", "tensorboard", "dbtm[tensorboard]")

    def start(self, config: Mapping[str, Any], folder: Path) -> None:
        self.writer = self.module.SummaryWriter(str(folder / "tensorboard"))

    def record(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def end(self) -> None:
        if hasattr(self, "writer"):
            self.writer.close()


class WandB(Callback):
    """A run of Weights & Biases, named after the folder; a resumed run continues there.

    Project, entity and mode are W&B's own settings (WANDB_PROJECT, WANDB_MODE=offline ...).
    """

    def __init__(self) -> None:
        self.module = _import("wandb", "wandb", "wandb")

    def start(self, config: Mapping[str, Any], folder: Path) -> None:
        name = f"{folder.parent.name}-{folder.name}" if folder.parent.name else folder.name
        about = {"name": folder.name, "id": "".join(c if c.isalnum() or c in "-_" else "-" for c in name)}
        self.run = self.module.init(config=dict(config), dir=str(folder), resume="allow", **about)

    def record(self, step: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=step)

    def end(self) -> None:
        if hasattr(self, "run"):
            self.run.finish()


class MLflow(Callback):
    """A run of MLflow; server and experiment are MLflow's own settings (MLFLOW_TRACKING_URI ...)."""

    def __init__(self) -> None:
        self.module = _import("mlflow", "mlflow", "mlflow")

    def start(self, config: Mapping[str, Any], folder: Path) -> None:
        self.run = self.module.start_run(run_name=folder.name)
        self.module.log_params({name: str(value)[:500] for name, value in _flat(config)})  # its limit

    def record(self, step: int, values: Mapping[str, float]) -> None:
        self.module.log_metrics(dict(values), step=step)

    def end(self) -> None:
        if hasattr(self, "run"):
            self.module.end_run()


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


SERVICES: dict[str, type[Callback]] = {"tensorboard": TensorBoard, "wandb": WandB, "mlflow": MLflow}


def services(names: Iterable[str]) -> list[Callback]:
    """The services named in `train.track`."""
    for name in names:
        if name not in SERVICES:
            raise UsageError(f"train.track={name} is not a choice{nearest(name, SERVICES)}")
    return [SERVICES[name]() for name in dict.fromkeys(names)]
