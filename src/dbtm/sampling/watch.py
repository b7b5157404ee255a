"""Observing a running sampler: evaluations are counted, rounds are kept or shown, and it can be cancelled."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dbtm.sampling.trace import Round, Trace


class Cancelled(Exception):
    """Sampling was cancelled."""


class Watch:
    """The observer of one batch of samples."""

    def __init__(
        self,
        samples: int,
        device: torch.device | str = "cpu",
        trace: bool = False,
        cancelled: Callable[[], bool] | None = None,
        on_round: Callable[[Round], None] | None = None,
        others: int = 0,
    ):
        self.tracing = trace or on_round is not None
        self.keep, self.cancelled, self.on_round = trace, cancelled, on_round
        self.others = others  # number of most likely tokens per round, if the method supports it
        self.nfe_B = torch.zeros(samples, dtype=torch.int64, device=device)
        self.rounds: list[Round] = []

    def counted(self, network: Callable[..., Any]) -> Callable[..., Any]:
        """A network whose every call counts as one evaluation of the samples in `rows` (default: all)."""

        def evaluate(*inputs: Any, rows: Tensor | None = None, **more: Any) -> Any:
            if self.cancelled is not None and self.cancelled():
                raise Cancelled
            if rows is None:
                self.nfe_B += 1
            else:
                self.nfe_B[rows] += 1
            return network(*inputs, **more)

        return evaluate

    def round(
        self,
        tokens: Tensor,
        committed: Tensor | None = None,
        score: Tensor | None = None,
        time: float | None = None,
        others: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        """Record the state after a round, for all samples; called if `tracing`."""
        likely = None if others is None else (_copy(others[0]), _copy(others[1]))
        state = Round(_copy(tokens), _copy(committed), _copy(score), time, likely)
        if self.keep:
            self.rounds.append(state)
        if self.on_round is not None:
            self.on_round(state)

    def trace(self, tokens: Tensor, clean: Tensor, stable: Tensor | None = None) -> Trace:
        """The result of the batch."""
        arrays = (tokens.cpu().numpy(), self.nfe_B.cpu().numpy(), clean.cpu().numpy())
        return Trace(*arrays, self.rounds, None if stable is None else stable.cpu().numpy())


def _copy(x: Tensor | None) -> Any:
    return None if x is None else np.array(x.cpu().numpy())
