"""The checkpoint to return to if a run diverges: the newest one may have been saved while the loss was rising."""

import math
from collections.abc import Mapping
from pathlib import Path

from dbtm.checkpoint import folder as checkpoint

RISE = 0.1  # a mean loss above the lowest one (between two checkpoints) by more than this share counts as risen


class SteadyCheckpoint:
    """Judges every checkpoint by the mean loss of the steps after it, up to the next checkpoint.

    The last checkpoint with no risen loss after it is recorded in the run's folder and never pruned. A term that starts
    during the run changes the loss permanently, so the comparison restarts with it.
    """

    def __init__(self, run: Path):
        self.run, self.newest = run, checkpoint.latest(run)
        note = checkpoint.steady(run) or {}
        self.lowest: float = note.get("lowest", math.inf)
        self.terms: list[str] = note.get("terms", [])
        self._clear()

    def _clear(self) -> None:
        self.total, self.steps = 0.0, 0
        self.seen: set[str] = set()

    def add(self, terms: Mapping[str, float], steps: int) -> None:
        """Add a report: the mean terms of so many steps."""
        self.total += terms["loss"] * steps
        self.steps += steps
        self.seen |= terms.keys()

    def saved(self, folder: Path) -> None:
        """Called after writing a checkpoint: the loss since the previous one decides whether that one is steady."""
        if self.steps:
            loss, terms = self.total / self.steps, sorted(self.seen)
            limit = self.lowest + RISE * abs(self.lowest)
            self.lowest = min(self.lowest, loss)
            if self.terms and terms != self.terms:  # a term started in between: this mean is not comparable
                limit = self.lowest = math.inf
            self.terms = terms
            if self.newest is not None and loss <= limit:
                checkpoint.set_steady(self.run, self.newest, self.lowest, terms)
        self.newest = folder
        self._clear()


def ways_back(run: Path) -> str:
    """The checkpoints to resume from after a divergence, in words."""
    newest, note = checkpoint.latest(run), checkpoint.steady(run)
    if newest is None:
        return "no checkpoint had been written yet"
    before = run / note["checkpoint"] if note else None
    if before not in checkpoint.all_in(run):
        return f"the only checkpoints are from the steps before that, the last is {newest}"
    if before == newest:
        return f"the last checkpoint, {newest}, is from before the loss rose"
    return f"{before} is from before the loss rose, the last checkpoint is {newest}"
