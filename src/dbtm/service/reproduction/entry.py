"""The registry's entry for a table or figure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from matplotlib.figure import Figure

from dbtm.service.reproduction.steps.base import Resources, Step, digest, in_order
from dbtm.service.reproduction.steps.programs import Answered
from dbtm.service.reproduction.steps.text import Judged
from dbtm.service.reproduction.steps.training import Train
from dbtm.service.reproduction.table import Table

Found = Mapping[str, dict[str, Any]]
"""The results of a plan's steps, by name."""
SCALES = ("small", "paper")


@dataclass(frozen=True)
class Size:
    """The size of a small plan. `TRIAL` is for tests: it does every step and learns nothing."""

    name: str
    text_steps: int = 400
    ril_steps: int = 100
    """Steps of the second stage, and of a distilled rival."""
    samples: int = 32
    sudoku_steps: int = 300
    puzzles: int = 40
    gsm_steps: int = 500
    problems: int = 50
    budgets: tuple[int, ...] = (1, 4, 16)
    width: int = 64


SMALL = Size("small")
TRIAL = Size("trial", 6, 4, 2, 6, 4, 4, 4, (1, 2), 16)


@dataclass(frozen=True)
class Plan:
    """The work at one scale, and how its results become a table."""

    steps: Mapping[str, Step]
    table: Callable[[Found], Table]
    differs: str = ""
    """How the setting differs from the paper's, in a sentence."""
    tag: str = ""
    """What our numbers are measured on, in two or three words, if it differs from the paper."""
    notes: tuple[str, ...] = ()
    draw: Callable[[Found], Figure] | None = None
    texts: Callable[[Found], dict[str, str]] | None = None
    files: tuple[str, ...] = ()
    """Steps whose drawings are the figure."""

    def order(self) -> list[Step]:
        return in_order(self.steps)

    def fingerprint(self) -> str:
        """A digest of the work, independent of the user's data."""
        return digest([step.identity(Resources()) for step in self.order()])

    def recipes(self) -> list[str]:
        """The trained recipes, with their methods."""
        runs = (step for step in self.order() if isinstance(step, Train))
        return list(dict.fromkeys(step.about().removeprefix("training ") for step in runs))

    def models(self) -> list[str]:
        """Packaged models that are sampled."""
        named = (getattr(step, "model", None) for step in self.order())
        return list(dict.fromkeys(name for name in named if isinstance(name, str)))

    def data(self) -> list[str]:
        """Names of the user's data that it needs."""
        steps = [step for step in self.order() if isinstance(step, Train | Answered)]
        return list(dict.fromkeys(step.data for step in steps if isinstance(step.data, str)))

    def judge(self) -> str | None:
        return next((step.judge for step in self.order() if isinstance(step, Judged)), None)

    def gpu(self) -> bool:
        """Whether it needs a GPU."""
        return any(isinstance(step, Train) and not step.small for step in self.order())


@dataclass(frozen=True)
class Entry:
    """A table or figure of the paper."""

    label: str
    caption: str
    """What it shows, in our words."""
    small: Callable[[Size], Plan]
    paper: Callable[[], Plan] | None = None
    """None: the small plan is the paper's."""
    standing: Callable[[], Table] | None = None
    """Our numbers in results/."""
    sources: tuple[str, ...] = field(default=())
    """The files there that `standing` reads."""
    standing_of: str = ""
    """What those numbers are measured on, if it differs from the paper."""

    def plan(self, scale: str) -> Plan:
        if scale == "paper" and self.paper is not None:
            return self.paper()
        return self.small(TRIAL if scale == "trial" else SMALL)

    @property
    def exact(self) -> bool:
        """Whether it is the same at both scales."""
        return self.paper is None
