"""A run that has to fit into some minutes: its speed is measured over its first steps, then its length is set."""

import time

import torch

SETTLING, MEASURED = 20, 80  # steps: the first ones compile and warm up
RESERVE = 0.97  # of the time: evaluations, checkpoints
OPEN = 10**9  # steps of a run whose length is not known yet


class Pace:
    """Call `steps` after every step; the answer comes once."""

    def __init__(self, minutes: float, first_step: int):
        self.deadline = time.monotonic() + 60 * minutes
        self.first_step = first_step
        self.since = 0.0

    def steps(self, step: int, device: torch.device) -> int | None:
        """How many steps the whole run can have, as soon as that is known."""
        done = step - self.first_step
        if done not in (SETTLING, SETTLING + MEASURED):
            return None
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        now = time.monotonic()
        if done == SETTLING:
            self.since = now
            return None
        left = max(0.0, self.deadline - now)
        return step + int(RESERVE * left * MEASURED / (now - self.since))
