"""A run that has to fit into some minutes: its speed is measured as it goes, and its length is set to what fits."""

import time
from collections import deque

SETTLING = 20  # steps that compile and warm up, and are not measured
RESERVE = 0.95  # of the time that is left
WINDOW = 6  # last reports that speed is measured over, to notice a slower phase
OPEN = 10**9  # steps of a run whose length is not known yet


class Pace:
    """Asked at every report, when the GPU has caught up, while the learning rate does not depend on the answer.

    Speed is that of the whole loop, evaluations and checkpoints included: the lower one of the last reports', among
    which there may be no evaluation, and the whole run's, which may know nothing of a phase that has just begun.
    """

    def __init__(self, minutes: float, first_step: int):
        self.started = time.monotonic()
        self.seconds = 60 * minutes
        self.first_step = first_step
        self.first: tuple[int, float] | None = None
        self.reports: deque[tuple[int, float]] = deque(maxlen=WINDOW)

    def over(self) -> bool:
        """Whether the time is up: the hard limit."""
        return time.monotonic() - self.started >= self.seconds

    def steps(self, step: int) -> int | None:
        """How many steps the whole run can have, once that is known."""
        now, before = time.monotonic(), [self.first, self.reports[0]] if self.first and self.reports else []
        if step - self.first_step >= SETTLING:
            self.first = self.first or (step, now)
            self.reports.append((step, now))
        if not before:
            return None
        speed = min((step - then[0]) / (now - then[1]) for then in before)
        left = max(0.0, self.seconds - (now - self.started))
        return step + int(RESERVE * left * speed)
