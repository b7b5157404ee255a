"""Training a run, with quick evaluations on the way."""

from pathlib import Path

from dbtm.config import RunConfig
from dbtm.evals import quick
from dbtm.train import loop


def fit(
    config: RunConfig,
    out: str | Path,
    resume: bool = False,
    max_seconds: float | None = None,
    minutes: float | None = None,
) -> Path:
    """Train a run and return the folder of its last checkpoint.

    With `minutes`, train.steps is set to what fits into them, measured as the run goes.
    """
    return loop.fit(config, out, resume, max_seconds, minutes, quick.evaluate)
