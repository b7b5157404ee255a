"""Steps that train and sample nothing: figures of the theory, and settings read off the recipes."""

import json
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from dbtm.service.progress import Cancelled, Progress
from dbtm.service.reproduction.steps.base import Resources, Step, Workspace


@dataclass(frozen=True, kw_only=True)
class TheoryFigure(Step):
    """A figure of `dbtm theory`: exact fields, no model."""

    figure: str

    def title(self, resources: Resources) -> str:
        return f"theory-{self.figure}"

    def about(self) -> str:
        return f"computing the figure '{self.figure}' of the theory"

    def run(self, space: Workspace, progress: Progress) -> dict[str, Any]:
        from dbtm.service.theory import FigureRequest, draw_figure

        progress.stage(self.about())
        if progress.cancelled():
            raise Cancelled
        drawn = draw_figure(FigureRequest(self.figure, folder=space.folder(self)))
        numbers = json.loads((space.folder(self) / f"{self.figure}.json").read_text(encoding="utf-8"))["numbers"]
        return {"numbers": numbers, "files": [path.name for path in drawn.paths if path.suffix != ".json"]}


@dataclass(frozen=True, kw_only=True)
class Computed(Step):
    """The numbers returned by a function of the package, given by its dotted name."""

    function: str

    def title(self, resources: Resources) -> str:
        return self.function.rpartition(".")[2].replace("_", "-")

    def about(self) -> str:
        return f"computing {self.function.rpartition('.')[2].replace('_', ' ')}"

    def run(self, space: Workspace, progress: Progress) -> dict[str, Any]:
        module, _, name = self.function.rpartition(".")
        space.folder(self).mkdir(parents=True, exist_ok=True)
        return {"rows": getattr(import_module(module), name)()}
