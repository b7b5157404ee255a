"""From what a user names to a studio: models by their names, and folders to look into."""

from pathlib import Path

from dbtm.core.errors import UsageError
from dbtm.studio.shelf import Shelf, name_models
from dbtm.studio.state import Studio


def open_studio(named: list[str], places: list[Path], device: str = "auto") -> Studio:
    """A studio with the package's models, and with what is named: checkpoints, runs, or folders of runs.

    Only names are looked at here; weights are read when they are needed.
    """
    checkpoints, folders = [], []
    for name in named:
        path = Path(name)
        if not path.is_dir():
            raise UsageError(f"there is no folder {name}: name a run, a checkpoint, or a folder of runs")
        if (path / "manifest.json").is_file():
            checkpoints.append(name)
            continue
        if any(path.glob("step-*")):
            checkpoints.append(name)
        folders.append(path)
    runs = list({path.resolve(): path for path in (*folders, *places)}.values())
    return Studio(Shelf(name_models(checkpoints, packaged()), device), runs)


def packaged() -> list[str]:
    """Names of the models in the package, found without importing what loads them."""
    from importlib.resources import files

    models = files("dbtm") / "models"
    return sorted(folder.name for folder in models.iterdir() if (folder / "manifest.json").is_file())
