"""The result of a sampler: the sequences, the network evaluations of each, and their rounds."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Round:
    """The state after one round, for all samples. Fields that a method does not define are None."""

    tokens: np.ndarray  # (B, L) int64: the proposal; final where committed
    committed: np.ndarray | None = None  # (B, L) bool: final positions, including the prompt
    score: np.ndarray | None = None  # (B, L) float32: the method's confidence in its proposal, 1 on the prompt
    time: float | None = None  # on the method's own clock
    others: tuple[np.ndarray, np.ndarray] | None = None
    """The K most likely tokens and their probabilities, (B, L, K) each, if requested; 0 at final positions."""


@dataclass(frozen=True)
class Trace:
    """The result of sampling."""

    tokens: np.ndarray  # (B, L) int64
    nfe: np.ndarray  # (B,) int64: network evaluations of this sample
    prompt: np.ndarray  # (B, L) bool
    rounds: list[Round] = field(default_factory=list)  # filled if a trace was requested
    stable: np.ndarray | None = None  # (B,) bool: the sampler's check confirmed the answer; None if not checked

    @staticmethod
    def concatenate(traces: list["Trace"]) -> "Trace":
        """One trace of several batches. A batch that finished early repeats its last round; a batch without rounds
        shows its given tokens.
        """
        depth = max(len(t.rounds) for t in traces)
        rounds = []
        for r in range(depth):
            states = [t.rounds[min(r, len(t.rounds) - 1)] if t.rounds else _settled(t) for t in traces]
            tokens = np.concatenate([state.tokens for state in states])
            committed, score = (_joined([getattr(state, name) for state in states]) for name in ("committed", "score"))
            time = next(t.rounds[r].time for t in traces if len(t.rounds) > r)  # of a batch that is not finished
            rounds.append(Round(tokens, committed, score, time))
        return Trace(
            np.concatenate([t.tokens for t in traces]),
            np.concatenate([t.nfe for t in traces]),
            np.concatenate([t.prompt for t in traces]),
            rounds,
            _joined([t.stable for t in traces]),
        )


def _settled(trace: Trace) -> Round:
    """The state of a batch without rounds, in which all tokens were given."""
    return Round(trace.tokens, np.ones_like(trace.prompt), np.ones(trace.prompt.shape, dtype=np.float32))


def _joined(arrays: list[np.ndarray | None]) -> np.ndarray | None:
    """All arrays as one, or None if one is missing."""
    known = [array for array in arrays if array is not None]
    return np.concatenate(known) if len(known) == len(arrays) else None
