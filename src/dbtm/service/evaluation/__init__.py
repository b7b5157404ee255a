"""Evaluation of a checkpoint: solved Sudokus, solved word problems, and its text under a judge.

An evaluation yields its result so far after each part of the work, so that it can be saved. The last result is
complete: `*_, result = evaluate_text(request)`.
"""

from dbtm.service.progress import Cancelled, Progress


class Meter:
    """A callback that reports the progress of a stage, `before` included, and ends cancelled work."""

    def __init__(self, progress: Progress):
        self.progress, self.before = progress, 0

    def __call__(self, done: int, total: int | None = None) -> None:
        self.progress.advance(self.before + done, total)
        if self.progress.cancelled():
            raise Cancelled
