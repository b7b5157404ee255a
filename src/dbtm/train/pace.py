"""A run that has to fit into some minutes: its speed is measured as it goes, and its length is set to what fits."""

import time
from collections import deque

SETTLING = 20  # steps that compile and warm up, and are not measured
RESERVE = 0.95  # of the time that is left
WINDOW = 6  # reports that speed is measured over: few, to notice a new phase; several, since one may hold an evaluation
OPEN = 10**9  # steps of a run whose length is not known yet


class Pace:
    """Asked at every report, when the GPU has caught up, while the learning rate does not depend on the answer.

    Speed is that of the whole loop over the last reports, evaluations and checkpoints included.
    """

    def __init__(self, minutes: float, first_step: int):
        self.started = time.monotonic()
        self.seconds = 60 * minutes
        self.first_step = first_step
        self.reports: deque[tuple[int, float]] = deque(maxlen=WINDOW)

    def over(self) -> bool:
        """Whether the time is up: the hard limit."""
        return time.monotonic() - self.started >= self.seconds

    def steps(self, step: int) -> int | None:
        """How many steps the whole run can have, once that is known."""
        now, before = time.monotonic(), self.reports[0] if self.reports else None
        if step - self.first_step >= SETTLING:
            self.reports.append((step, now))
        if before is None:
            return None
        left = max(0.0, self.seconds - (now - self.started))
        return step + int(RESERVE * left * (step - before[0]) / (now - before[1]))
