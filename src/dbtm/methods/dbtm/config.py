"""The settings of DBTM's training."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from dbtm.config import MethodConfig
from dbtm.config.model import check_heads
from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_ROUNDS
from dbtm.core.settings import Section
from dbtm.methods.dbtm.options import MOST_LOOPS, Options

if TYPE_CHECKING:
    from dbtm.config import RunConfig


NO_POSTERIOR = "sample.mean_from needs a map that was trained there: set method.posterior.weight=1"


def _are_rounds(depths: tuple[int, ...]) -> bool:
    return bool(depths) and all(1 <= depth <= MOST_ROUNDS for depth in depths)


@dataclass(frozen=True)
class PathConfig(Section):
    """From noise to data: prior, interpolant, coupling, context."""

    section: ClassVar[str] = "method.path"

    sigma: float = 1.0
    """Scale of the prior N(0, sigma^2 I)."""
    a: float = 1.0
    """Exponent of the schedule alpha_t = (1 - t)^a."""
    coupling: Literal["ot", "independent"] = "ot"
    """Which noise goes with which data: minibatch optimal transport, or any."""
    context: bool = True
    """Clean context: f ~ U(0, 1), then Bernoulli(f) per position."""
    t_anchor: float | None = None
    """Time from which the anchor supervises; null: the commitment time t*."""

    def __post_init__(self):
        self.positive("sigma")
        if self.a < 1:
            raise UsageError("method.path.a must be at least 1")
        if self.t_anchor is not None:
            self.in_range(0, 1, "t_anchor")


@dataclass(frozen=True)
class LossConfig(Section):
    """Weights of the full objective (end of sec:refinement-in-loop), and the adaptive weight's c and r."""

    section: ClassVar[str] = "method.loss"

    transport: float = 1.0
    """Weight of the transport loss."""
    boundary: float = 1.0
    """Weight of the boundary loss CE(T(x1), x1)."""
    anchor: float = 1.0
    """Weight of the anchor loss."""
    anchor_context: bool = False
    """The anchor also supervises clean context, whose time is 1, as eq:anchor-loss reads literally; else noisy
    positions alone."""
    semigroup: float = 0.0
    """Weight of the semigroup loss."""
    quality: float = 1.0
    """Weight of the quality head's loss at the interpolant."""
    c: float = 1.0
    """c of the adaptive weight of transport."""
    r: float = 0.5
    """r of the adaptive weight of transport."""
    endpoint_c: float = 1.0
    """c of the adaptive weight of the cross-entropies."""
    endpoint_r: float = 0.5
    """r of the adaptive weight of the cross-entropies."""
    interpolant_fraction: float = 1.0
    """Share of the batch's rows in the pass at I_t."""
    boundary_fraction: float = 1.0
    """Share of the batch's rows in the pass at x1."""
    positive_weight: float = 1.0
    """Weight of right tokens in the quality head's cross-entropy."""
    semigroup_depths: tuple[int, ...] = (4,)
    """K of the semigroup loss."""
    semigroup_start: int = 0
    """First step with the semigroup loss."""

    def __post_init__(self):
        self.not_negative("transport", "boundary", "anchor", "semigroup", "quality", "r", "endpoint_r")
        if self.semigroup and not _are_rounds(self.semigroup_depths):
            raise UsageError(
                f"method.loss.semigroup_depths needs numbers of applications, each from 1 to {MOST_ROUNDS}"
            )
        self.positive("c", "endpoint_c", "positive_weight", "boundary_fraction", "interpolant_fraction")
        self.in_range(0, 1, "boundary_fraction", "interpolant_fraction")


@dataclass(frozen=True)
class PosteriorConfig(Section):
    """The posterior at the prior's mean (beyond the paper); weight 0 is off.

    At noisy states two terms compete: transport wants one answer per x0, cross-entropy the distribution of all answers
    that the context allows. Unknown positions at 1/V, the prior's mean up to a shift, carry no x0, so cross-entropy
    alone applies: T(context, 1/V) learns p(x1 | context). The sampler's later rounds draw from it (sample.mean_from).
    """

    section: ClassVar[str] = "method.posterior"

    weight: float = 0.0
    """Weight of the cross-entropy; 0 is off."""
    fraction: float = 1.0
    """Share of the batch's rows in this pass."""
    spread: float = 0.0
    """Share of these rows whose context is the positions that scorer=spread commits first, instead of random ones."""
    late: float = 1.0
    """The share of known positions is drawn from Beta(late, 1), whose mean is late / (late + 1): 1 is uniform. Above 1,
    more rows are states of late rounds, where a token depends on many others; early rounds need fewer rows."""

    def __post_init__(self):
        self.not_negative("weight")
        self.positive("fraction", "late")
        self.in_range(0, 1, "fraction", "spread")
        self.in_range(0, 100, "late")


@dataclass(frozen=True)
class RilConfig(Section):
    """Refinement in the loop (loss:ril), supervised by data; weight 0 is off."""

    section: ClassVar[str] = "method.ril"

    weight: float = 0.0
    """Weight of the loss; 0 is off."""
    quality: float = 1.0
    """lambda_quality of loss:ril-phi."""
    depths: tuple[int, ...] = (4,)
    """K: budgets k of the rollouts."""
    rounds: Literal["all", "one"] = "all"
    """Supervise all rounds of a rollout, or one of them, drawn in every step; its loss is not scaled by k."""
    samples: int = 1
    """Rollouts per datum, each from noise of its own; their mean counts."""
    kappa: float = 0.9
    """Commit threshold of the rollouts."""
    commit: bool = True
    """Commit tokens (ril-c), or hold distributions (ril-nc)."""
    supervise: Literal["uncommitted", "remaining"] = "uncommitted"
    """Positions with a loss in round r: those not in C_{r-1}, or those that remain after its commits, not in C_r."""
    fresh_noise: bool = False
    """Renoise with new noise instead of x0 again."""
    later_fraction: float = 1.0
    """Share of the batch's rows that go on after the first round."""
    context: float = 0.0
    """Least share of positions that are clean when a rollout starts; 0: rollouts start from noise."""
    spread: float = 0.0
    """Share of rows whose rollouts start with what scorer=spread commits first, instead of positions at random: the
    states that this sampler visits."""
    own: float = 0.0
    """Share of rows whose rollouts hold the map's own choices, chosen anew in every round, right or wrong, and learn at
    every position: the map learns to change its mind (sample.rule=revise). 0 is the paper's."""
    uncommit: bool = True
    """Rows with the map's own choices choose anew in every round what they hold; else what they hold stays."""
    quality_on: Literal["supervised", "open", "all"] = "supervised"
    """Where the quality head learns: where the map does, at what is not held alone, or at all that is generated."""
    start: int = 0
    """First step with rollouts."""
    transport: float = 0.0
    """Weight of the transport loss at I_t(C_r), with the contexts that rollouts made."""
    anchor: float = 0.0
    """Weight of the anchor loss there."""
    semigroup: float = 0.0
    """Weight of semi-r: every round learns what the map itself makes of the last round's state."""
    semigroup_start: int = 0
    """First step with semi-r."""

    def __post_init__(self):
        self.not_negative("weight", "quality", "transport", "anchor", "semigroup")
        self.in_range(0, 1, "kappa")
        if not _are_rounds(self.depths):
            raise UsageError(f"method.ril.depths needs at least one rollout depth, each from 1 to {MOST_ROUNDS}")
        self.positive("later_fraction", "samples")
        self.in_range(1, MOST_ROUNDS, "samples")
        self.in_range(0, 1, "later_fraction", "context", "own", "spread")
        if self.spread and not self.context:
            raise UsageError("method.ril.spread chooses what is clean at the start: set method.ril.context too")
        if self.own and (not self.commit or self.semigroup or self.on_contexts):
            raise UsageError(
                "method.ril.own holds tokens: set method.ril.commit=true, and leave method.ril.semigroup, "
                "method.ril.transport and method.ril.anchor at 0"
            )
        if self.semigroup and self.later_fraction < 1:
            raise UsageError("method.ril.semigroup needs the last round of every row: set method.ril.later_fraction=1")
        if self.on_contexts and not self.commit:
            raise UsageError(
                "method.ril.transport and method.ril.anchor need contexts of clean tokens: set method.ril.commit=true"
            )

    @property
    def on_contexts(self) -> bool:
        """Whether something is learned at the contexts that rollouts made."""
        return bool(self.transport or self.anchor)

    @property
    def on(self) -> bool:
        """Whether there are rollouts at all."""
        return bool(self.weight or self.semigroup or self.on_contexts)


@dataclass(frozen=True)
class DistillConfig(Section):
    """Self-distillation from a frozen EMA copy (loss:soft-ril-c, loss:soft-ril-nc); weight 0 is off."""

    section: ClassVar[str] = "method.distill"

    weight: float = 0.0
    """Weight of the loss; 0 is off."""
    depth: int = 4
    """Rounds of the teacher."""
    kappa: float = 0.9
    """Commit threshold of the teacher."""
    scorer: Literal["confidence", "spread"] = "confidence"
    """The positions that the teacher commits first."""
    commit: bool = True
    """The teacher commits tokens, or holds distributions."""
    supervise: Literal["uncommitted", "remaining"] = "uncommitted"
    """What a state learns: everything not committed there, or only what the teacher decides in later rounds."""
    temperature: float = 0.7
    """Temperature of the teacher's soft target."""
    start: int = 100_000
    """First step with self-distillation."""
    refresh: int = 5_000
    """Steps between copies of the EMA into the teacher."""

    def __post_init__(self):
        self.not_negative("weight")
        self.positive("depth", "temperature", "refresh")
        self.in_range(1, MOST_ROUNDS, "depth")
        self.in_range(0, 1, "kappa")
        if self.supervise == "remaining" and (self.depth == 1 or not self.commit):
            raise UsageError(
                "method.distill.supervise=remaining needs rounds that commit, and method.distill.depth of at least 2"
            )


@dataclass(frozen=True)
class ReflowConfig(Section):
    """Reflow (beyond the paper): one evaluation learns what a frozen EMA copy draws in many rounds at the prior's mean,
    with random choices that are a function of the noise; weight 0 is off."""

    section: ClassVar[str] = "method.reflow"

    weight: float = 0.0
    """Weight of the cross-entropy; 0 is off."""
    rounds: int = 16
    """Rounds of the copy."""
    temperature: float = 1.0
    """Temperature of its draws."""
    fraction: float = 1.0
    """Share of the batch's rows."""
    states: int = 2
    """States of an answer that the map learns at: noise alone, then the answer of some rounds, each from its own range
    of rounds."""
    start: int = 0
    """First step with reflow."""
    refresh: int = 1_000_000
    """Steps between copies of the EMA."""

    def __post_init__(self):
        self.not_negative("weight", "start")
        self.positive("rounds", "temperature", "fraction", "refresh")
        self.in_range(2, MOST_ROUNDS, "rounds")
        self.in_range(0, 1, "fraction")
        self.in_range(1, self.rounds, "states")


@dataclass(frozen=True)
class QualityConfig(Section):
    """The quality head (sec:quality-correct)."""

    section: ClassVar[str] = "method.quality"

    enabled: bool = True
    """Whether the map has a quality head."""
    width: int = 256
    """Width of the quality head."""
    depth: int = 4
    """Layers of the quality head."""
    heads: int = 4
    """Attention heads of the quality head."""

    def __post_init__(self):
        self.positive("width", "depth", "heads")
        self.in_range(1, 1 << 14, "width", "heads")
        self.in_range(1, 256, "depth")
        check_heads("method.quality", self.width, self.heads)


@dataclass(frozen=True)
class Config(MethodConfig):
    """Discrete Beckmann Transport Models: losses on one time-free map."""

    name: ClassVar[str] = "dbtm"

    path: PathConfig = field(default_factory=PathConfig)
    """From noise to data: prior, interpolant, coupling, context."""
    loss: LossConfig = field(default_factory=LossConfig)
    """Weights of the objective's terms."""
    posterior: PosteriorConfig = field(default_factory=PosteriorConfig)
    """p(x1 | context), learned at the prior's mean."""
    ril: RilConfig = field(default_factory=RilConfig)
    """Refinement in the loop, supervised by data."""
    distill: DistillConfig = field(default_factory=DistillConfig)
    """Self-distillation from a frozen copy."""
    reflow: ReflowConfig = field(default_factory=ReflowConfig)
    """One evaluation learns many rounds of a frozen copy."""
    quality: QualityConfig = field(default_factory=QualityConfig)
    """The quality head."""
    loops: tuple[int, ...] = ()
    """Numbers of loops of the blocks; every step draws one, so that a sampler can choose. Empty: always model.loops."""

    def __post_init__(self):
        if not all(1 <= loops <= MOST_LOOPS for loops in self.loops):
            raise UsageError(f"method.loops={list(self.loops)} must be numbers from 1 to {MOST_LOOPS}")

    @property
    def at_interpolant(self) -> bool:
        """Whether a term learns at I_t, or at its end x1."""
        loss = self.loss
        scored = loss.quality and self.quality.enabled
        return bool(loss.transport or loss.anchor or loss.boundary or loss.semigroup or scored)

    @property
    def noisy_fraction(self) -> float:
        """Share of the batch's rows that read noise: rollouts start from all."""
        if self.ril.on or self.distill.weight:
            return 1.0
        shares = [self.reflow.fraction] if self.reflow.weight else []
        shares += [self.loss.interpolant_fraction] if self.at_interpolant else []
        return max([*shares, self.loss.boundary_fraction if self.loss.boundary else 0.0])

    @property
    def teaching(self) -> DistillConfig | ReflowConfig | None:
        """The section with a frozen copy that is on."""
        return self.distill if self.distill.weight else self.reflow if self.reflow.weight else None

    def check(self, run: "RunConfig") -> None:
        loss, ril, distill, sample = self.loss, self.ril, self.distill, run.sample
        assert isinstance(sample, Options)
        if sample.scorer == "quality" and not self.quality.enabled:
            raise UsageError("sample.scorer=quality needs the quality head: set method.quality.enabled=true")
        if sample.mean_from and not self.posterior.weight:
            raise UsageError(NO_POSTERIOR)
        terms = [loss.transport, loss.boundary, loss.anchor, loss.semigroup, self.posterior.weight]
        if not any([*terms, ril.on, self.teaching]):
            raise UsageError(
                "nothing to train: all of method.loss.transport, method.loss.boundary, method.loss.anchor, "
                "method.ril.weight ... are 0"
            )
        if run.train.graph and self.path.coupling == "ot" and ril.on and (ril.fresh_noise or ril.samples > 1):
            which = "method.ril.fresh_noise=true needs" if ril.fresh_noise else "several method.ril.samples need"
            raise UsageError(
                f"train.graph=true cannot record steps that wait for the CPU: {which} "
                "method.path.coupling=independent, or train.graph=false"
            )
        if distill.weight and run.model.self_condition:
            raise UsageError(
                "model.self_condition=true is not supported by self-distillation: leave it out, or set "
                "method.distill.weight=0"
            )
        if distill.weight and self.reflow.weight:
            raise UsageError("method.distill and method.reflow each need a frozen copy: set the weight of one to 0")
        if self.reflow.weight and not self.posterior.weight:
            raise UsageError("method.reflow draws at the prior's mean, which is learned by method.posterior.weight=1")
        if self.teaching and self.teaching.start >= run.train.steps:
            raise UsageError(
                f"{self.teaching.section}.start={self.teaching.start} is past the end of the run, "
                f"train.steps={run.train.steps}"
            )
