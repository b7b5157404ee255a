"""FLOPs of DBTM's training step from the sizes of a run: `dbtm bench` and plans need neither data nor a pass.

`training_cost` instead counts the passes of any method by running them once, which needs the run's data.
"""

from dataclasses import replace
from itertools import pairwise

from dbtm.config import RunConfig
from dbtm.core.errors import UsageError
from dbtm.evals.cost import map_flops
from dbtm.methods.dbtm import Config, DistillConfig, ReflowConfig, RilConfig
from dbtm.methods.dbtm.training import SHARED_PASS_LIMIT


def settings(config: RunConfig) -> Config:
    """The settings of DBTM, the only method whose step is measured against plain cross-entropy."""
    if not isinstance(config.method, Config):
        raise UsageError(f"the recipe '{config.recipe}' uses the method '{config.method_name}': choose one of dbtm")
    return config.method


def step_flops(config: RunConfig, batch: int) -> float:
    """FLOPs of the matrix products of a step, in units that `map_flops` counts: forward 1, tangent 1, backward 2.

    Head and embedding are separate: the head computes the share `head_rows` of the positions, with one more product for
    a tangent; x0 W is computed once, and its gradient once.
    """
    L, V, D = config.task.length, config.task.vocab, config.model.width
    method = settings(config)
    loss, ril = method.loss, method.ril
    product = 2 * L * V * D
    trunk = map_flops(config.model, config.shape) - 2 * product
    at_state, at_data, at_mean, rounds = head_rows(config)
    share = loss.interpolant_fraction
    tangent = bool(loss.transport)
    riding = tangent and boundary_share(config) <= SHARED_PASS_LIMIT * share  # few rows share the pass at I_t
    passes = (3 + tangent) * share + (3 + riding) * boundary_share(config) + 3 * posterior_share(config)
    passes += 3 * (sum(ril.depths) if rounds else 0)
    head = (3 + tangent) * at_state + (3 + riding) * at_data + 3 * (at_mean + rounds)
    everywhere = config.shape.small_vocab or config.train.graph
    for more_passes, more_head in (_distillation(method.distill), _reflow(method.reflow, everywhere)):
        passes, head = passes + more_passes, head + more_head
    return batch * (trunk * passes + product * (head + 2))


def _distillation(distill: DistillConfig) -> tuple[float, float]:
    """Passes of the trunk and of the head: the teacher's k rounds forward, the student's forward and backward."""
    if not distill.weight:
        return 0.0, 0.0
    k = distill.depth
    rounds = k if distill.supervise == "uncommitted" else k - 1
    return k + 3 * rounds, (k + 1) / 2 * (1 + 3 * rounds / k)


def _reflow(reflow: ReflowConfig, everywhere: bool) -> tuple[float, float]:
    """The copy's rounds, whose heads visit every position once, x0 W and its products with W, and the map's passes."""
    if not reflow.weight:
        return 0.0, 0.0
    unknown = reflow.states if everywhere else (1 + reflow.states) / 2
    return reflow.fraction * (reflow.rounds + 3 * reflow.states), reflow.fraction * (3 + 3 * unknown)


def boundary_share(config: RunConfig) -> float:
    loss = settings(config).loss
    return loss.boundary_fraction if loss.boundary else 0.0


def posterior_share(config: RunConfig) -> float:
    posterior = settings(config).posterior
    return posterior.fraction if posterior.weight else 0.0


def head_rows(config: RunConfig) -> tuple[float, float, float, float]:
    """Positions that the head computes, over B L, on average: at I_t, at the data, at the prior's mean, and in all
    rounds of the rollouts.

    All for a small vocabulary, and in a recorded step. Else those with a loss: half of them if the context is partial;
    in round r of k, for a map that is never confident, those that the floor has not committed yet.
    """
    method = settings(config)
    at_state, at_data, at_mean = method.loss.interpolant_fraction, boundary_share(config), posterior_share(config)
    depths = method.ril.depths if method.ril.weight else ()
    if config.shape.small_vocab or config.train.graph:
        return at_state, at_data, at_mean, float(sum(depths))
    return at_state * (0.5 if method.path.context else 1.0), at_data, at_mean / 2, sum((k + 1) / 2 for k in depths)


def planned_flops(config: RunConfig) -> float:
    """FLOPs of a whole run: rollouts and self-distillation count from their first step on."""
    method, steps, batch = settings(config), config.train.steps, config.train.batch
    starts = {0, steps, *(part.start for part in (method.ril, method.distill, method.reflow) if part.weight)}
    total = 0.0
    for begin, end in pairwise(sorted(step for step in starts if 0 <= step <= steps)):
        ril = method.ril if method.ril.start <= begin else RilConfig()
        distill = method.distill if method.distill.start <= begin else DistillConfig()
        reflow = method.reflow if method.reflow.start <= begin else ReflowConfig()
        now = replace(config, method=replace(method, ril=ril, distill=distill, reflow=reflow))
        total += (end - begin) * step_flops(now, batch)
    return total
