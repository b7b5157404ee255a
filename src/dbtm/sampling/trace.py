"""What a sampler returns: the sequences, the network evaluations each took, and how they came about."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Round:
    """The state after one round, for all samples."""

    tokens: np.ndarray  # (B, L) int64: the proposal; final where committed
    committed: np.ndarray  # (B, L) bool: C_r, the prompt in it
    score: np.ndarray  # (B, L) float32: q, 1 on the prompt


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
        rounds = [
            Round(
                *(
                    np.concatenate([getattr(t.rounds[min(r, len(t.rounds) - 1)], name) for t in traces])
                    for name in ("tokens", "committed", "score")
                )
            )
            for r in range(depth)
        ]
        return Trace(
            np.concatenate([t.tokens for t in traces]),
            np.concatenate([t.nfe for t in traces]),
            np.concatenate([t.prompt for t in traces]),
            rounds,
        )
