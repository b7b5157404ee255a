"""Distillation in rounds: a frozen teacher, which the student replaces after every round.

A round is a function of the step alone and the teacher is saved with the run, so that a run resumes in the middle of a
round as if it had not stopped.
"""

import copy
from dataclasses import dataclass

from dbtm.config import MethodConfig
from dbtm.core.errors import UsageError
from dbtm.methods.base import Method
from dbtm.nn import Backbone

MOST_DOUBLINGS = 60  # of a step: 2 to this power is still a number of 63 bits
MOST_STEPS = 10**8  # a run that is longer has no length yet: it goes by the clock


@dataclass(frozen=True)
class RoundsConfig(MethodConfig):
    """How a distillation is cut into rounds."""

    rounds: int = 1
    """Rounds of distillation; after each, the student becomes the teacher and steps become twice as long."""
    round_steps: int = 0
    """Optimizer steps of a round; 0: the run's length divided by the number of rounds."""
    grid: int = 1_024
    """Steps of the first round's length from t = 1 to t = 0."""

    def __post_init__(self):
        self.in_range(1, MOST_DOUBLINGS, "rounds")
        self.not_negative("round_steps")
        if self.grid < 2**self.rounds:
            raise UsageError(f"method.rounds={self.rounds} double a step of 1/{self.grid} beyond 1: take fewer rounds")


@dataclass(frozen=True)
class Rounds:
    """Rounds of so many optimizer steps; the last one has no end."""

    count: int
    steps: int

    @staticmethod
    def of(settings: RoundsConfig, run_steps: int) -> "Rounds":
        return Rounds(settings.rounds, settings.round_steps or max(1, run_steps // settings.rounds))

    def number(self, step: int) -> int:
        """The round, from 0, that optimizer step `step` (from 0) belongs to."""
        return min(step // self.steps, self.count - 1)

    def ends(self, done: int) -> bool:
        """Whether a round ends when `done` steps have been made, and another follows."""
        return done % self.steps == 0 and 0 < done // self.steps < self.count


class InRounds(Method):
    """A method distilled in rounds; the method that is extended comes behind it among the bases."""

    needs = frozenset({"teacher"})
    settings: RoundsConfig

    @property
    def rounds(self) -> Rounds:
        return Rounds.of(self.settings, self.config.train.steps)

    def start(self) -> "InRounds":
        """The teacher is never trained, and has no dropout."""
        super().start()
        self.frozen["teacher"] = copy.deepcopy(self.network).requires_grad_(False).eval()
        return self

    def check_start(self, initialised: bool) -> None:
        """A run by the clock does not know its length, so that rounds must be given in steps."""
        super().check_start(initialised)
        if not self.settings.round_steps and self.config.train.steps > MOST_STEPS:
            raise UsageError("a run by the clock needs rounds of a known length: set method.round_steps")

    def phase(self, step: int) -> tuple[int, ...]:
        """The round, whose step size is a constant of the pass."""
        return (self.rounds.number(step),)

    def after_step(self, step: int, ema: Backbone) -> None:
        """The student's live weights become the teacher's when a round ends."""
        if self.rounds.ends(step):
            self.frozen["teacher"].load_state_dict(self.network.state_dict())
