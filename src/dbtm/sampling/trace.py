"""What a sampler returns: the sequences, the network evaluations each took, and how they came about."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Round:
    """The state after one round, for all samples. What a method has no notion of is None."""

    tokens: np.ndarray  # (B, L) int64: the proposal; final where committed
    committed: np.ndarray | None = None  # (B, L) bool: what will not change any more, the prompt in it
    score: np.ndarray | None = None  # (B, L) float32: how sure the method is of its proposal, 1 on the prompt
    time: float | None = None  # of the method's own clock


@dataclass(frozen=True)
class Trace:
    """The result of sampling."""

    tokens: np.ndarray  # (B, L) int64
    nfe: np.ndarray  # (B,) int64: network evaluations this sample needed
    prompt: np.ndarray  # (B, L) bool
    rounds: list[Round] = field(default_factory=list)  # filled where a trace was asked for

    @staticmethod
    def concatenate(traces: list["Trace"]) -> "Trace":
        """One trace of several batches. A batch that finished early repeats its last round."""
        depth = max(len(t.rounds) for t in traces)
        rounds = []
        for r in range(depth):
            states = [t.rounds[min(r, len(t.rounds) - 1)] for t in traces]
            arrays = [[getattr(state, name) for state in states] for name in ("tokens", "committed", "score")]
            joined = [None if any(a is None for a in each) else np.concatenate(each) for each in arrays]
            rounds.append(Round(*joined, time=states[0].time))  # type: ignore[arg-type]
        return Trace(
            np.concatenate([t.tokens for t in traces]),
            np.concatenate([t.nfe for t in traces]),
            np.concatenate([t.prompt for t in traces]),
            rounds,
        )
