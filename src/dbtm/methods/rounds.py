"""Distillation in rounds: a frozen teacher, replaced by the student after every round.

The round depends only on the step, and the teacher is saved with the run, so a run resumes exactly in the middle of a
round.
"""

import copy
from dataclasses import dataclass

from dbtm.config import MethodConfig
from dbtm.core.errors import UsageError
from dbtm.methods.base import Method
from dbtm.nn import Backbone

MOST_DOUBLINGS = 60  # of a step: 2 to this power still fits into 63 bits
MOST_STEPS = 10**8  # a longer run has a time limit, and its length is not yet known


@dataclass(frozen=True)
class RoundsConfig(MethodConfig):
    """Settings of the rounds of a distillation."""

    rounds: int = 1
    """Rounds of distillation; after each, the student becomes the teacher and steps become twice as long."""
    round_steps: int = 0
    """Optimizer steps per round; 0: the run's length divided by the number of rounds."""
    grid: int = 1_024
    """Inverse of the first round's step size: steps from t = 1 to t = 0."""

    def __post_init__(self):
        self.in_range(1, MOST_DOUBLINGS, "rounds")
        self.not_negative("round_steps")
        if self.grid < 2**self.rounds:
            raise UsageError(f"method.rounds={self.rounds} double a step of 1/{self.grid} beyond 1: take fewer rounds")


@dataclass(frozen=True)
class Rounds:
    """Rounds of so many optimizer steps; the last one is open-ended."""

    count: int
    steps: int

    @staticmethod
    def of(settings: RoundsConfig, run_steps: int) -> "Rounds":
        return Rounds(settings.rounds, settings.round_steps or max(1, run_steps // settings.rounds))

    def number(self, step: int) -> int:
        """The round, from 0, of optimizer step `step` (from 0)."""
        return min(step // self.steps, self.count - 1)

    def ends(self, done: int) -> bool:
        """Whether a round ends after `done` steps and another follows."""
        return done % self.steps == 0 and 0 < done // self.steps < self.count


class InRounds(Method):
    """A method distilled in rounds; the extended method is the second base class."""

    needs = frozenset({"teacher"})
    settings: RoundsConfig

    @property
    def rounds(self) -> Rounds:
        return Rounds.of(self.settings, self.config.train.steps)

    def start(self) -> "InRounds":
        """Build the student and a teacher, which is never trained and has no dropout."""
        super().start()
        self.frozen["teacher"] = copy.deepcopy(self.network).requires_grad_(False).eval()
        return self

    def check_start(self, initialised: bool) -> None:
        """The length of a run with a time limit is unknown, so its rounds must be given in steps."""
        super().check_start(initialised)
        if not self.settings.round_steps and self.config.train.steps > MOST_STEPS:
            raise UsageError("a run with a time limit needs rounds of a known length: set method.round_steps")

    def phase(self, step: int) -> tuple[int, ...]:
        """The round, whose step size is a constant of the pass."""
        return (self.rounds.number(step),)

    def after_step(self, step: int, ema: Backbone) -> None:
        """Copy the student's current weights (not averaged) to the teacher when a round ends."""
        if self.rounds.ends(step):
            self.frozen["teacher"].load_state_dict(self.network.state_dict())
