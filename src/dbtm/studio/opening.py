"""Opens a studio from a user's arguments: models by name, and folders of runs."""

from pathlib import Path

from dbtm.core.errors import UsageError
from dbtm.studio.shelf import Shelf, name_models
from dbtm.studio.state import Studio


def open_studio(named: list[str], places: list[Path], device: str = "auto") -> Studio:
    """A studio with the packaged models and the given checkpoints, runs, or folders of runs.

    Only names are checked here; weights are read when needed.
    """
    checkpoints, folders = [], []
    for name in named:
        path = Path(name)
        if not path.is_dir():
            raise UsageError(f"there is no folder {name}: give a run, a checkpoint, or a folder of runs")
        if (path / "manifest.json").is_file():
            checkpoints.append(name)
            continue
        if any(path.glob("step-*")):
            checkpoints.append(name)
        folders.append(path)
    runs = list({path.resolve(): path for path in (*folders, *places)}.values())
    return Studio(Shelf(name_models(checkpoints, packaged()), device), runs)


def packaged() -> list[str]:
    """Names of the packaged models, without importing the loader."""
    from importlib.resources import files

    models = files("dbtm") / "models"
    return sorted(folder.name for folder in models.iterdir() if (folder / "manifest.json").is_file())
