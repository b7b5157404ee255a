"""Distillation in rounds: a frozen teacher, which the student replaces after every round.

A round is a function of the step alone and the teacher is saved with the run, so that a run resumes in the middle of a
round as if it had not stopped.
"""

import copy
from dataclasses import dataclass

from dbtm.config import MethodConfig
from dbtm.core.errors import UsageError
from dbtm.nn import Backbone

MOST_STEPS = 10**8  # a run that is longer has no length yet: it goes by the clock


@dataclass(frozen=True)
class RoundsConfig(MethodConfig):
    """How a distillation is cut into rounds."""

    rounds: int = 1
    """Rounds of distillation; after each, the student becomes the teacher and steps become twice as long."""
    round_steps: int = 0
    """Optimizer steps of a round; 0: the run's length divided by the number of rounds."""

    def __post_init__(self):
        self.positive("rounds")
        self.not_negative("round_steps")


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


def check_clock(settings: RoundsConfig, run_steps: int) -> None:
    """A run by the clock does not know its length, so that rounds must be given in steps."""
    if not settings.round_steps and run_steps > MOST_STEPS:
        raise UsageError("a run by the clock needs rounds of a known length: set method.round_steps")


def frozen_copy(network: Backbone) -> Backbone:
    """A teacher: never trained, without dropout."""
    return copy.deepcopy(network).requires_grad_(False).eval()


def replace_teacher(teacher: Backbone, student: Backbone) -> None:
    """The student's live weights become the teacher's."""
    teacher.load_state_dict(student.state_dict())
