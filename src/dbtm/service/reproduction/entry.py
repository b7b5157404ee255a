"""What the registry says of a table or figure: one small entry each."""

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
"""The results of a plan's steps, by the names they have there."""
SCALES = ("small", "paper")


@dataclass(frozen=True)
class Size:
    """How much work a small plan is. `TRIAL` is for tests: it does everything and learns nothing."""

    name: str
    text_steps: int = 400
    ril_steps: int = 100
    """Of the second stage, and of a rival that is distilled."""
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
    """What our numbers are of, in two or three words, where that is not what the paper's are of."""
    notes: tuple[str, ...] = ()
    draw: Callable[[Found], Figure] | None = None
    texts: Callable[[Found], dict[str, str]] | None = None
    files: tuple[str, ...] = ()
    """Steps whose own drawings are the figure."""

    def order(self) -> list[Step]:
        return in_order(self.steps)

    def fingerprint(self) -> str:
        """The same as long as the work is the same, whatever a user brings along."""
        return digest([step.identity(Resources()) for step in self.order()])

    def recipes(self) -> list[str]:
        """The recipes that are trained, with their methods."""
        runs = (step for step in self.order() if isinstance(step, Train))
        return list(dict.fromkeys(step.about().removeprefix("training ") for step in runs))

    def models(self) -> list[str]:
        """Models of the package that are sampled."""
        named = (getattr(step, "model", None) for step in self.order())
        return list(dict.fromkeys(name for name in named if isinstance(name, str)))

    def data(self) -> list[str]:
        """A user's data that it needs, by name."""
        steps = [step for step in self.order() if isinstance(step, Train | Answered)]
        return list(dict.fromkeys(step.data for step in steps if isinstance(step.data, str)))

    def judge(self) -> str | None:
        return next((step.judge for step in self.order() if isinstance(step, Judged)), None)

    def gpu(self) -> bool:
        """Whether it is of a size that only a GPU trains."""
        return any(isinstance(step, Train) and not step.small for step in self.order())


@dataclass(frozen=True)
class Entry:
    """A table or figure of the paper."""

    label: str
    caption: str
    """What it shows, in our words."""
    small: Callable[[Size], Plan]
    paper: Callable[[], Plan] | None = None
    """None: the small one is the paper's already."""
    standing: Callable[[], Table] | None = None
    """Our numbers that stand in results/."""
    sources: tuple[str, ...] = field(default=())
    """The files there that `standing` reads."""
    standing_of: str = ""
    """What those numbers are of, where that is not what the paper's are of."""

    def plan(self, scale: str) -> Plan:
        if scale == "paper" and self.paper is not None:
            return self.paper()
        return self.small(TRIAL if scale == "trial" else SMALL)

    @property
    def exact(self) -> bool:
        """Whether nothing in it depends on a scale."""
        return self.paper is None
