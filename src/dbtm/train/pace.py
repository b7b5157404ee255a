"""A run with a time limit: its speed is measured during the run, and its length is set to fit."""

import time
from collections import deque

SETTLING = 20  # steps for compilation and warm-up, not measured
RESERVE = 0.95  # share of the remaining time to use
WINDOW = 6  # number of last reports for measuring speed, to notice a slower phase
OPEN = 10**9  # steps of a run whose length is not yet known


class Pace:
    """Called at every report, when the GPU is synchronized, as long as the learning rate does not depend on the length.

    Speed is that of the whole loop, including evaluations and checkpoints. It is the lower of two: that of the last
    reports, which may contain no evaluation, and that of the whole run, which may not reflect a new phase.
    """

    def __init__(self, minutes: float, first_step: int):
        self.started = time.monotonic()
        self.seconds = 60 * minutes
        self.first_step = first_step
        self.first: tuple[int, float] | None = None
        self.reports: deque[tuple[int, float]] = deque(maxlen=WINDOW)

    def over(self) -> bool:
        """Whether the time is up, a hard limit."""
        return time.monotonic() - self.started >= self.seconds

    def steps(self, step: int) -> int | None:
        """The number of steps of the whole run that fit, or None while unknown."""
        now, before = time.monotonic(), [self.first, self.reports[0]] if self.first and self.reports else []
        if step - self.first_step >= SETTLING:
            self.first = self.first or (step, now)
            self.reports.append((step, now))
        if not before:
            return None
        speed = min((step - then[0]) / (now - then[1]) for then in before)
        left = max(0.0, self.seconds - (now - self.started))
        return step + int(RESERVE * left * speed)
