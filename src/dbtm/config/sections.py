"""What a run is: frozen dataclasses, one a section, each with its checks."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Literal

from dbtm.core.errors import UsageError, nearest
from dbtm.tasks.base import Task

PATTERN = "gdn,gdn,gdn,attn"  # the paper's (app:language-exp-details)


@dataclass(frozen=True)
class ModelConfig:
    """The map (nn/transport_map.py). `vocab` and `length` come from the task."""

    vocab: int
    length: int
    width: int = 768
    depth: int = 12
    heads: int = 12
    ffn: int = 4  # hidden width of the feed-forward, in widths
    cond_dim: int = 128  # dimension of adaLN's learned constant
    dropout: float = 0.1  # on the residual branches
    softcap: float = 50.0  # tanh cap on attention logits; 0 is off
    taps: int = 0  # of a short convolution on attention's queries, keys and values; 0: none
    backbone: Literal["attention", "delta"] = "attention"  # delta: linear time in the length, blocks as in `pattern`
    pattern: str = PATTERN  # of the delta backbone, repeated over the depth: delta rule, attention
    loops: int = 1  # how many times the stack of blocks is applied (weight-tied depth)
    rotary: bool = True
    position_axes: tuple[int, ...] = ()  # sizes of learned position tables; the task says which entry each position has
    input_norm: bool = False  # RMS norm on the embedded state
    self_condition: bool = False  # a refinement round also reads the distribution of the round before
    gate_init: float = 0.0  # where adaLN's residual gates start
    embed_std: float = 0.02
    quality: bool = True  # the quality head
    quality_width: int = 256
    quality_depth: int = 4
    quality_heads: int = 4

    def __post_init__(self):
        positive(self, "length", "width", "depth", "heads", "ffn", "cond_dim", "loops", "embed_std")
        positive(self, "quality_width", "quality_depth", "quality_heads")
        not_negative(self, "taps")
        if self.vocab < 2:
            raise UsageError(f"model.vocab={self.vocab} must be at least 2")
        if not 0 <= self.dropout < 1:
            raise UsageError(f"model.dropout={self.dropout} must be at least 0 and below 1")
        for width, heads in (("width", "heads"), ("quality_width", "quality_heads")):
            if getattr(self, width) % (2 * getattr(self, heads)):
                raise UsageError(
                    f"model.{width}={getattr(self, width)} must be a multiple of 2 x model.{heads} "
                    f"(= {2 * getattr(self, heads)}), so that every head has an even size"
                )
        if not 0 <= self.softcap < math.inf:
            raise UsageError(f"model.softcap={self.softcap} must be 0 (off) or positive")
        if not set(self.pattern.split(",")) <= {"gdn", "attn"}:
            raise UsageError(
                f"model.pattern={self.pattern} must be blocks with commas between, each gdn (delta rule) or attn "
                f"(attention), such as {PATTERN}"
            )
        if self.pattern != PATTERN and self.backbone != "delta":
            raise UsageError(f"model.pattern={self.pattern} is for the delta backbone: set model.backbone=delta too")
        if self.pattern != PATTERN and self.pattern.count(",") >= self.depth:
            raise UsageError(f"model.pattern={self.pattern} is longer than the map, model.depth={self.depth}")

    @property
    def small_vocab(self) -> bool:
        """Whether the vocabulary is so small that dense products over it are cheaper than gathers and selections."""
        return self.vocab <= 64

    @property
    def mixers(self) -> tuple[str, ...]:
        """What mixes positions in each block: attn or gdn."""
        kinds = self.pattern.split(",") if self.backbone == "delta" else ["attn"]
        return tuple(kinds[block % len(kinds)] for block in range(self.depth))


@dataclass(frozen=True)
class PathConfig:
    """From noise to data: prior, interpolant, coupling, context."""

    sigma: float = 1.0  # prior N(0, sigma^2 I)
    a: float = 1.0  # alpha_t = (1 - t)^a
    coupling: Literal["ot", "independent"] = "ot"
    context: bool = True  # clean context: f ~ U(0, 1), Bernoulli(f) per position
    t_anchor: float | None = None  # None: the commitment time t*

    def __post_init__(self):
        positive(self, "sigma")
        if self.a < 1:
            raise UsageError("path.a must be at least 1")
        if self.t_anchor is not None:
            in_range(self, "t_anchor", 0, 1)


@dataclass(frozen=True)
class LossConfig:
    """Weights of the full objective (end of sec:refinement-in-loop), and the adaptive weight's c and r."""

    transport: float = 1.0
    boundary: float = 1.0
    anchor: float = 1.0
    semigroup: float = 0.0
    quality: float = 1.0
    c: float = 1.0
    r: float = 0.5
    endpoint_c: float = 1.0
    endpoint_r: float = 0.5
    interpolant_fraction: float = 1.0  # share of the batch's rows in the pass at I_t
    boundary_fraction: float = 1.0  # share of the batch's rows in the pass at x1
    positive_weight: float = 1.0  # of right tokens in the quality head's cross-entropy
    semigroup_depths: tuple[int, ...] = (4,)  # K of loss:semigroup
    semigroup_start: int = 0  # first step with the semigroup loss

    def __post_init__(self):
        not_negative(self, "transport", "boundary", "anchor", "semigroup", "quality", "r", "endpoint_r")
        if self.semigroup and (not self.semigroup_depths or min(self.semigroup_depths) < 1):
            raise UsageError("loss.semigroup_depths needs at least one number of applications, each at least 1")
        positive(self, "c", "endpoint_c", "positive_weight", "boundary_fraction", "interpolant_fraction")
        in_range(self, "boundary_fraction", 0, 1)
        in_range(self, "interpolant_fraction", 0, 1)


@dataclass(frozen=True)
class RilConfig:
    """Refinement in the loop (loss:ril), supervised by data; weight 0 is off."""

    weight: float = 0.0
    quality: float = 1.0  # lambda_quality of loss:ril-phi
    depths: tuple[int, ...] = (4,)  # K: budgets k of the rollouts
    kappa: float = 0.9
    commit: bool = True  # ril-c; False holds the soft state instead (ril-nc)
    count_committed_now: bool = True  # sum over l not in C_{r-1} (True) or not in C_r (False)
    fresh_noise: bool = False  # renoise with new noise instead of x0 again
    later_fraction: float = 1.0  # share of the batch's rows that go on after the first round
    context: float = 0.0  # least share of positions that are clean when a rollout starts; 0: rollouts start from noise
    start: int = 0

    def __post_init__(self):
        not_negative(self, "weight", "quality")
        if not self.depths or min(self.depths) < 1:
            raise UsageError("ril.depths needs at least one rollout depth, each at least 1")
        positive(self, "later_fraction")
        in_range(self, "later_fraction", 0, 1)
        in_range(self, "context", 0, 1)


@dataclass(frozen=True)
class DistillConfig:
    """Self-distillation from a frozen EMA copy (loss:soft-ril-c, loss:soft-ril-nc); weight 0 is off."""

    weight: float = 0.0
    depth: int = 4
    kappa: float = 0.9
    scorer: Literal["confidence", "spread"] = "confidence"  # what the teacher commits first
    commit: bool = True
    count_committed_now: bool = True  # False: a state learns only what the teacher decides in later rounds than there
    temperature: float = 0.7  # of the teacher's soft target
    start: int = 100_000
    refresh: int = 5_000  # steps between copies of the EMA into the teacher
    fraction: float = 1.0  # share of the batch's rows that are rolled out

    def __post_init__(self):
        not_negative(self, "weight")
        positive(self, "depth", "temperature", "refresh", "fraction")
        in_range(self, "fraction", 0, 1)
        if not self.count_committed_now and (self.depth == 1 or not self.commit):
            raise UsageError(
                "distill.count_committed_now=false needs rounds that commit, and distill.depth of at least 2"
            )


@dataclass(frozen=True)
class OptimConfig:
    """Optimizer, schedule, EMA."""

    name: Literal["adamw", "muon"] = "adamw"
    lr: float = 3e-4
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    muon_lr: float = 0.02  # for the matrices of the blocks, where name = muon
    muon_momentum: float = 0.95
    clip: float = 1.0  # 0 is off
    schedule: Literal["constant", "cosine", "wsd"] = "constant"
    warmup: int = 1_000
    decay_fraction: float = 0.4  # wsd: share of the run in the final linear decay
    ema: float = 0.9999
    ema_warmup: bool = True  # decay min(ema, (1 + step) / (10 + step))

    def __post_init__(self):
        positive(self, "lr", "eps", "muon_lr")
        not_negative(self, "clip", "weight_decay", "warmup")
        if not all(0 <= beta < 1 for beta in (*self.betas, self.muon_momentum)):
            raise UsageError("optim.betas and optim.muon_momentum must be at least 0 and below 1")
        in_range(self, "ema", 0, 1)
        in_range(self, "decay_fraction", 0, 1)


@dataclass(frozen=True)
class TrainConfig:
    """The loop. Global batch = per-device batch x devices x accumulation."""

    steps: int = 100_000
    batch: int = 256  # global
    micro_batch: int = 0  # rows per device and pass; 0: the whole share of a device at once
    seed: int = 0
    init: str = ""  # a checkpoint whose averaged weights the run starts from; "": from scratch
    device: str = "auto"  # auto, cpu, cuda
    precision: Literal["fp32", "bf16"] = "fp32"
    compile: bool = False
    graph: bool = False  # on a GPU, replay the step as one CUDA graph: where its launches take longer than its kernels
    log_every: int = 50
    checkpoint_every: int = 1_000
    keep: int = 2  # checkpoints kept beside the best
    evaluate_every: int = 0  # steps between the task's quick evaluations; 0: only at the end
    tensorboard: bool = False

    def __post_init__(self):
        positive(self, "steps", "batch", "log_every", "checkpoint_every", "keep")
        not_negative(self, "micro_batch", "evaluate_every", "seed")
        in_range(self, "seed", 0, 2**62)
        if self.device not in ("auto", "cpu", "cuda"):
            raise UsageError(
                f"train.device={self.device} is not a choice{nearest(self.device, ['auto', 'cpu', 'cuda'])}"
            )


@dataclass(frozen=True)
class SampleConfig:
    """Defaults of the sampler for this model (app:inference-hyperparams)."""

    nfe: int = 4
    kappa: float = 0.9
    kappa_by_nfe: tuple[tuple[int, float], ...] = ()  # tuned thresholds: (budget, kappa), smallest budget first
    penalty_by_nfe: tuple[tuple[int, float], ...] = ()  # tuned repetition penalties, in the same way
    scorer: Literal["confidence", "quality", "spread", "none"] = "confidence"  # what is committed first
    commit: bool = True
    temperature: float = 0.0
    sigma: float | None = None  # scale of the prior; None: the one of training
    repetition_penalty: float = 0.0
    fresh_noise: bool = True

    def __post_init__(self):
        positive(self, "nfe")
        not_negative(self, "temperature", "repetition_penalty")
        if self.sigma is not None:
            positive(self, "sigma")

    @property
    def threshold(self) -> float | None:
        """kappa where it has a part: commits that are spread know no threshold."""
        return None if self.scorer == "spread" else self.kappa

    def tuned(self, nfe: int) -> dict[str, float]:
        """Threshold and penalty for a budget: those of the largest tuned budget within it, else the plain ones."""
        plain = {"kappa": self.kappa, "repetition_penalty": self.repetition_penalty}
        tuned = {"kappa": self.kappa_by_nfe, "repetition_penalty": self.penalty_by_nfe}
        return {
            name: next((value for budget, value in reversed(tuned[name]) if budget <= nfe), plain[name])
            for name in plain
        }


@dataclass(frozen=True)
class RunConfig:
    """Everything a run is: saved as JSON with every checkpoint."""

    recipe: str
    task: Task
    model: ModelConfig
    method: str = "dbtm"
    path: PathConfig = field(default_factory=PathConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    ril: RilConfig = field(default_factory=RilConfig)
    distill: DistillConfig = field(default_factory=DistillConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    sample: SampleConfig = field(default_factory=SampleConfig)

    def __post_init__(self):
        if (self.model.vocab, self.model.length) != (self.task.vocab, self.task.length):
            raise UsageError(
                f"model.vocab={self.model.vocab}, model.length={self.model.length} do not fit the task "
                f"'{self.task.name}', which has vocabulary {self.task.vocab} and length {self.task.length}"
            )
        if self.sample.scorer == "quality" and not self.model.quality:
            raise UsageError("sample.scorer=quality needs the quality head: set model.quality=true")
        terms = [self.loss.transport, self.loss.boundary, self.loss.anchor, self.loss.semigroup]
        if not any([*terms, self.ril.weight, self.distill.weight]):
            raise UsageError(
                "nothing to train: all of loss.transport, loss.boundary, loss.anchor, ril.weight ... are 0"
            )
        if self.optim.warmup > self.train.steps:
            raise UsageError(f"optim.warmup={self.optim.warmup} is longer than the run, train.steps={self.train.steps}")
        fresh_coupling = self.path.coupling == "ot" and self.ril.weight and self.ril.fresh_noise
        if self.train.graph and fresh_coupling:
            raise UsageError(
                "train.graph=true cannot record steps that wait for the CPU: ril.fresh_noise=true needs "
                "path.coupling=independent, or train.graph=false"
            )
        if self.distill.weight and self.model.self_condition:
            raise UsageError(
                "model.self_condition=true has no part in self-distillation: set distill.weight=0 or leave it out"
            )
        if self.distill.weight and self.distill.start >= self.train.steps:
            raise UsageError(
                f"distill.start={self.distill.start} is past the end of the run, train.steps={self.train.steps}"
            )

    def on(self, task: Task) -> "RunConfig":
        """The same for another task, with its vocabulary and length."""
        model = dataclasses.replace(self.model, vocab=task.vocab, length=task.length)
        return dataclasses.replace(self, task=task, model=model)

    def sampling(self) -> SampleConfig:
        """The sampler's options with the prior's scale filled in."""
        sigma = self.path.sigma if self.sample.sigma is None else self.sample.sigma
        return dataclasses.replace(self.sample, sigma=sigma)


# -- checks ------------------------------------------------------------------------------------------------------------


def section_of(config: object) -> str:
    """The dotted name of a section, for messages: ModelConfig -> model."""
    return type(config).__name__.removesuffix("Config").lower()


def positive(config: object, *names: str) -> None:
    for name in names:
        if getattr(config, name) <= 0:
            raise UsageError(f"{section_of(config)}.{name}={getattr(config, name)} must be positive")


def not_negative(config: object, *names: str) -> None:
    for name in names:
        if getattr(config, name) < 0:
            raise UsageError(f"{section_of(config)}.{name}={getattr(config, name)} must not be negative")


def in_range(config: object, name: str, low: float, high: float) -> None:
    if not low <= getattr(config, name) <= high:
        raise UsageError(f"{section_of(config)}.{name}={getattr(config, name)} must be between {low} and {high}")
