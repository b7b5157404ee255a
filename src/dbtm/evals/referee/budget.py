"""Training budgets: counted FLOPs, or minutes of the device; they include a distilled method's teacher."""

from dataclasses import dataclass, replace
from typing import Any

from dbtm.config import RunConfig
from dbtm.core.errors import UsageError
from dbtm.core.numbers import is_number
from dbtm.evals.training_cost import run_flops

TEACHER_SHARE = 0.8
"""The teacher's share of a distilled method's budget."""


@dataclass(frozen=True)
class Budget:
    """The training budget per run of a comparison: one of the two."""

    flops: float | None = None
    minutes: float | None = None

    def __post_init__(self):
        if (self.flops is None) == (self.minutes is None):
            raise UsageError("the budget is either training FLOPs or minutes of the device: give exactly one")
        given = self.flops if self.flops is not None else self.minutes
        if not is_number(given) or given <= 0:
            raise UsageError(f"a budget of {str(given)[:40]} is invalid: it must be positive")

    def share(self, part: float) -> "Budget":
        """A share of the budget."""
        scale = lambda x: None if x is None else part * x  # noqa: E731
        return Budget(scale(self.flops), scale(self.minutes))

    def document(self) -> dict[str, Any]:
        return {"flops": self.flops, "minutes": self.minutes}


def fitted(config: RunConfig, flops: float) -> RunConfig:
    """The run with the most steps that cost at most `flops`.

    Phases of a method may begin at a share of its run, so the cost of a step depends on the run's length, found by
    bisection on the cost of the whole run.
    """
    low, high = 0, 1
    while _fits(config, high, flops):
        low, high = high, 2 * high
        if high > 10**8:
            raise UsageError(f"{flops:.3g} FLOPs are more than 100 million steps of '{config.method_name}'")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(config, middle, flops) else (low, middle)
    if not low:
        one = run_flops(with_steps(config, 1))
        raise UsageError(
            f"one step of '{config.method_name}' costs {one:.3g} FLOPs, more than the budget of {flops:.3g}: raise it"
        )
    return with_steps(config, low)


def _fits(config: RunConfig, steps: int, flops: float) -> bool:
    """Whether a run of this length costs at most `flops`, or is too short for a phase of the method to begin."""
    try:
        run = with_steps(config, steps)
    except UsageError:
        return True
    return run_flops(run) <= flops


def with_steps(config: RunConfig, steps: int) -> RunConfig:
    """The run at another length, with a warm-up of at most a tenth and at least five checkpoints."""
    optim = replace(config.optim, warmup=min(config.optim.warmup, steps // 10))
    every = min(config.train.checkpoint_every, max(50, -(-steps // 5)))
    train = replace(config.train, steps=steps, checkpoint_every=every, log_every=min(config.train.log_every, every))
    return replace(config, optim=optim, train=train)
