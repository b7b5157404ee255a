"""The options of DBTM's sampler."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from dbtm.config import SampleConfig
from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_EVALUATIONS

MOST_LOOPS = 1024  # same limit as model.loops
MOST_POSITIONS = 2**31 - 1  # of a plan: products with a length fit into 63 bits


@dataclass(frozen=True)
class Options(SampleConfig):
    """Renoise and remap (app:inference-hyperparams)."""

    nfe: int = 4
    """Network evaluations: the budget of refinement rounds."""
    kappa: float = 0.9
    """Commit positions that score at least this."""
    kappa_by_nfe: tuple[tuple[int, float], ...] = ()
    """Tuned thresholds: (budget, kappa), smallest budget first."""
    scorer: Literal["confidence", "quality", "spread", "none"] = "confidence"
    """The score that decides which positions are committed first."""
    rounds: Literal["equal", "planned"] = "equal"
    """Number of positions per round with scorer=spread. equal: the same number in every round. planned: by plan_by_nfe,
    which is computed at the end of training; equal for budgets without a plan."""
    plan_by_nfe: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Planned rounds: (budget, positions committed per round); scaled to the number of positions to generate."""
    commit: bool = True
    """Commit tokens, or hold distributions."""
    rule: Literal["commit", "revise"] = "commit"
    """commit: committed tokens stay (the paper's rule). revise: every round proposes all positions and chooses again
    which it holds; a sample stops when its answer is confirmed."""
    check: int = 0
    """Further network evaluations, at least 2, which check the answer: halves of it are renoised, and the answer is
    drawn again if its tokens change; 0 is off."""
    loops: int = 0
    """Loops of the blocks per network evaluation, for maps trained with several numbers of loops (method.loops); 0:
    model.loops."""
    temperature: float = 0.0
    """0 takes the most likely token."""
    top_p: float = 1.0
    """At a temperature above 0, draw from the most likely tokens that together reach this probability; 1 is off."""
    sigma: float | None = None
    """Scale of the prior noise; null: that of training."""
    mean_from: int = 0
    """First round in which unknown positions are the prior's mean instead of noise (method.posterior). With 2, the
    first round draws tokens from noise, and later rounds draw them given the context. 0: never, as in the paper."""
    mean_budget: int = 2
    """Smallest budget with rounds at the mean; smaller ones draw all rounds from noise. At a budget of one, positions
    would be independent of each other at the mean. 3 suits maps with reflow, which learn to go on from their noise."""
    mean_temperature: float = 1.0
    """Temperature in these rounds; the option temperature sets both if given alone."""
    repetition_penalty: float = 0.0
    """Divides a token's probability by (1 + its number of commits) to this power; 0 is off."""
    fresh_noise: bool = True
    """New noise in every round, or the first round's noise in all."""
    sampler: Literal["refine", "iterate", "integrate"] = "refine"
    """refine: renoise and remap; iterate: T^k; integrate: Euler steps along T(x) - x."""
    horizon: float = 4.0
    """integrate: end time of the flow."""
    tolerance: float = 0.0
    """iterate, and held distributions: a sample stops at a fixed point, when all positions are held and a round changes
    no probability by more than this; 0: never."""

    def __post_init__(self):
        self.positive("nfe", "horizon")
        self.in_range(0, 1, "kappa")
        self.up_to_one("top_p")
        self.not_negative("temperature", "mean_temperature", "repetition_penalty", "tolerance", "check")
        self.in_range(0, MOST_EVALUATIONS, "check", "mean_from")
        self.in_range(2, MOST_EVALUATIONS, "mean_budget")
        self.in_range(0, MOST_LOOPS, "loops")
        if self.check == 1:
            raise UsageError("sample.check=1 is too few: a check takes 2 network evaluations")
        paper = self.sampler == "refine" and self.commit
        if (self.rule == "revise" or self.check) and not paper:
            raise UsageError("sample.rule=revise and sample.check need sample.sampler=refine and sample.commit=true")
        if self.rule == "revise" and (self.check or self.repetition_penalty or self.scorer in ("spread", "none")):
            raise UsageError(
                "sample.rule=revise confirms its answer itself, by confidence or quality: leave out check and "
                "repetition_penalty, and set scorer to one of these two"
            )
        if self.mean_from and (self.rule == "revise" or not paper):
            raise UsageError(
                "sample.mean_from needs sample.sampler=refine, sample.rule=commit and sample.commit=true: "
                "set these, or leave it at 0"
            )
        if self.mean_from and self.scorer == "quality":
            raise UsageError(
                "sample.scorer=quality was trained at noisy states: with sample.mean_from, set sample.scorer to "
                "confidence or spread"
            )
        self._check_plans()
        if self.loops and self.sampler == "integrate":
            raise UsageError("sample.loops does not apply to sample.sampler=integrate: leave it at 0")
        if self.sigma is not None:
            self.positive("sigma")

    def _check_plans(self) -> None:
        budgets = set[int]()
        for number, (nfe, sizes) in enumerate(self.plan_by_nfe):
            name = f"sample.plan_by_nfe[{number}]"
            if not 1 <= nfe <= MOST_EVALUATIONS or nfe in budgets:
                raise UsageError(f"{name} is for {nfe} evaluations: 1 to {MOST_EVALUATIONS} are allowed, each once")
            if not 1 <= len(sizes) <= nfe or min(sizes) < 1 or sum(sizes) > MOST_POSITIONS:
                raise UsageError(f"{name} must have 1 to {nfe} rounds of at least 1 position, {MOST_POSITIONS} in all")
            budgets.add(nfe)

    @property
    def draws(self) -> bool:
        """Whether some round draws tokens at a temperature above 0."""
        return self.sampler == "refine" and any(self.in_round(r).temperature > 0 for r in (1, self.nfe))

    @property
    def spreads(self) -> bool:
        """Whether rounds commit positions in the fixed spread order."""
        return self.sampler == "refine" and self.rule == "commit" and self.commit and self.scorer == "spread"

    @property
    def tunes(self) -> bool:
        return self.rounds == "planned" and self.spreads

    @property
    def plan(self) -> tuple[int, ...]:
        """The planned numbers of positions per round; empty: equal rounds."""
        return dict(self.plan_by_nfe).get(self.nfe, ()) if self.tunes else ()

    @property
    def threshold(self) -> float | None:
        """kappa if it is used: spread commits, `iterate` and `integrate` have no threshold."""
        return None if self.scorer == "spread" or self.sampler != "refine" else self.kappa

    def tuned_kappa(self, nfe: int) -> float:
        """The threshold for a budget: that of the largest tuned budget up to it, else the untuned one."""
        return next((kappa for budget, kappa in reversed(self.kappa_by_nfe) if budget <= nfe), self.kappa)

    def at_mean(self, r: int) -> bool:
        """Whether unknown positions of round r are the prior's mean."""
        return 0 < self.mean_from <= r and self.nfe >= self.mean_budget

    def in_round(self, r: int) -> "Options":
        """The options with the temperature of round r."""
        return replace(self, temperature=self.mean_temperature) if self.at_mean(r) else self

    def changed(self, method: str, changes: dict[str, Any]) -> "Options":
        """If not given, kappa is the tuned one for the budget. A temperature given alone applies to all rounds. The
        penalty counts committed tokens, so it is off without commits.
        """
        nfe = changes.get("nfe", self.nfe)
        tuned = {"kappa": self.tuned_kappa(nfe)} if isinstance(nfe, int) else {}
        alike = {"mean_temperature": changes["temperature"]} if "temperature" in changes else {}
        options = super().changed(method, tuned | alike | changes)
        if options.sampler == "refine" and options.commit and options.scorer == "none":
            options = replace(options, nfe=1)  # all scores are 1: one round commits everything
        if options.threshold is None and "kappa" in changes:
            why = "commits are spread: leave it out, or use another scorer"
            if options.sampler != "refine":
                why = f"sampler={options.sampler} commits nothing: leave it out, or use sampler=refine"
            raise UsageError(f"kappa changes nothing where {why}")
        for name, off in (("temperature", 0.0), ("top_p", 1.0)):
            if options.sampler != "refine" and name in changes and getattr(options, name) != off:
                raise UsageError(
                    f"{name} changes nothing where sampler={options.sampler} draws no tokens: leave it out, or use "
                    "sampler=refine"
                )
        draws = options.temperature or (options.mean_from and options.mean_temperature)  # at some budget
        if options.top_p < 1 and "top_p" in changes and not draws:
            raise UsageError("top_p changes nothing at temperature 0: give a temperature too, or leave it out")
        if changes.get("rounds") == "planned" and not (options.tunes and options.plan_by_nfe):
            raise UsageError(
                "rounds=planned needs commits that are spread, and plans: leave it out, or set scorer=spread and make "
                "plans with `dbtm tune`"
            )
        holding = options.sampler == "iterate" or (options.sampler == "refine" and not options.commit)
        if "tolerance" in changes and not holding:
            raise UsageError("tolerance is for fixed points of distributions: use sampler=iterate, or commit=False")
        if options.repetition_penalty and not options.commit:
            if "repetition_penalty" in changes:
                raise UsageError(
                    "repetition_penalty counts committed tokens, of which commit=False has none: leave it out"
                )
            options = replace(options, repetition_penalty=0.0)
        return options

    def self_check(self) -> dict[str, Any]:
        """Options for a check, with up to four times the budget in total. One or two rounds are meant to be quick and
        are not checked.
        """
        checks = self.rule == "revise" or self.check
        if checks or self.nfe <= 2 or self.sampler != "refine" or not self.commit:
            return {}
        return {"check": 3 * self.nfe}

    def shown(self) -> dict[str, Any]:
        """The options that samples depend on. One round commits everything, so threshold, scorer and penalty do not
        matter; spread commits have no threshold, held distributions no penalty.
        """
        settings: dict[str, Any] = {"sampler": self.sampler, "nfe": self.nfe, "sigma": self.sigma}
        settings |= {"loops": self.loops} if self.loops else {}
        if self.sampler == "integrate":
            return {**settings, "horizon": self.horizon}
        stopping = {"tolerance": self.tolerance} if self.tolerance else {}
        if self.sampler == "iterate":
            return settings | stopping
        names = ["temperature"] if not self.at_mean(1) else []
        names += ["mean_from", "mean_temperature"] if self.at_mean(self.nfe) else []
        if self.nfe > 1:
            names += ["kappa"] if self.threshold is not None else []
            names += ["repetition_penalty"] if self.commit else []
            names += ["scorer", "commit", "fresh_noise"]
            names += ["rule"] if self.rule != "commit" else []
            settings |= {} if self.commit else stopping
        names += ["check"] if self.check else []
        names += ["top_p"] if self.top_p < 1 and self.draws else []
        if self.plan:
            settings |= {"rounds": "planned", "plan_by_nfe": [[self.nfe, [*self.plan]]]}  # as in JSON
        return settings | {name: getattr(self, name) for name in names}
