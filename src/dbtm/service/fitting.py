"""Training from Python: `dbtm.fit`."""

from collections.abc import Sequence
from pathlib import Path

from dbtm.config import RunConfig
from dbtm.core.errors import UsageError
from dbtm.service import training
from dbtm.tasks.own import Own
from dbtm.train.callbacks import Callback


def fit(
    config: RunConfig | str,
    out: str | Path | None = None,
    resume: bool = False,
    max_seconds: float | None = None,
    minutes: float | None = None,
    callbacks: Sequence[Callback] = (),
    *,
    data: str | Path | None = None,
    method: str | None = None,
    changes: Sequence[str] = (),
    size: str = "auto",
    init: str | Path | None = None,
) -> Path:
    """Train a run and return the folder of its last checkpoint, which `dbtm.load` reads.

    The task is evaluated during the run and at the end. Sampler options that depend on the trained weights are tuned at
    the end.

    Args:
        config: the name of a recipe, or a complete configuration (`dbtm.recipe`, `dbtm.override`).
        out: folder of the run; None: runs/RECIPE.
        resume: continue the run in `out`, if there is one.
        max_seconds: stop and save after this many seconds.
        minutes: set train.steps to fit into this time, from the measured speed.
        callbacks: receive every number of the run.
        data: with a recipe's name: prepared text or problems; for the recipe 'own', a file of rows, which gives
            vocabulary and length.
        method: with a recipe's name: a method instead of the recipe's, with its default settings.
        changes: with a recipe's name: settings, each "section.key=value".
        size: with the recipe 'own': tiny, small, medium or large; auto chooses for the device and the data.
        init: with a recipe's name: a checkpoint or run whose averaged weights the run starts from.
    """
    if isinstance(config, RunConfig):
        given = {"data": data, "method": method, "changes": changes, "size": size != "auto", "init": init}
        _refuse([name for name, value in given.items() if value], config)
        folder = Path("runs") / config.recipe if out is None else Path(out)
        return training.fit(config, folder, resume, max_seconds, minutes, callbacks)
    request = training.TrainRequest(
        config,
        method=method,
        changes=tuple(changes),
        out=None if out is None else Path(out),
        resume=resume,
        init=None if init is None else Path(init),
        data=None if data is None else Path(data),
        size=size,
    )
    complete = training.configuration(request)
    return training.fit(complete, request.folder, resume, max_seconds, minutes, callbacks)


def _refuse(given: list[str], config: RunConfig) -> None:
    """Refuse arguments that need a recipe's name, and the recipe 'own' without the sizes of its rows."""
    if given:
        raise UsageError(
            f"{', '.join(given)}: only with the name of a recipe, as in dbtm.fit('{config.recipe}', {given[0]}=...)"
        )
    task = config.task
    if isinstance(task, Own) and (task.vocab, task.length) == (Own.vocab, Own.length):
        raise UsageError(
            "task.vocab and task.length are not set: dbtm.fit('own', data='rows.txt') reads them from the file of rows"
        )
