"""Evaluating a checkpoint: Sudoku puzzles it solves, word problems its programs solve, its text under a judge.

An evaluation yields its result so far after every part of the work, so that what is done can be kept. The last result
is the whole one: `*_, result = evaluate_text(request)`.
"""

from dbtm.service.progress import Cancelled, Progress


class Meter:
    """A callback that tells a listener how much of a stage is done, `before` included, and ends cancelled work."""

    def __init__(self, progress: Progress):
        self.progress, self.before = progress, 0

    def __call__(self, done: int, total: int | None = None) -> None:
        self.progress.advance(self.before + done, total)
        if self.progress.cancelled():
            raise Cancelled
