"""Optimizer and training loop: the same for all methods."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from dbtm.core.device import DEVICES
from dbtm.core.errors import UsageError, nearest
from dbtm.core.limits import MOST_ROWS, MOST_THREADS
from dbtm.core.settings import Section


@dataclass(frozen=True)
class OptimConfig(Section):
    """Optimizer, schedule, EMA."""

    section: ClassVar[str] = "optim"

    name: Literal["adamw", "muon"] = "adamw"
    """muon: Muon on the matrices of the blocks, AdamW on everything else."""
    lr: float = 3e-4
    """Peak learning rate of AdamW."""
    betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's decay rates."""
    eps: float = 1e-8
    """AdamW's epsilon."""
    weight_decay: float = 0.0
    """Decoupled weight decay."""
    muon_lr: float = 0.02
    """Peak learning rate of Muon."""
    muon_momentum: float = 0.95
    """Momentum of Muon."""
    clip: float = 1.0
    """Gradient clipping: largest norm; 0 is off."""
    schedule: Literal["constant", "wsd"] = "constant"
    """After the warm-up: constant, or constant with a linear decay to 0 at the end (wsd)."""
    warmup: int = 1_000
    """Steps of linear warm-up."""
    decay_fraction: float = 0.4
    """wsd: share of the run in the final linear decay."""
    ema: float = 0.9999
    """Decay of the averaged weights."""
    ema_warmup: bool = True
    """Use decay min(ema, (1 + step) / (10 + step))."""

    def __post_init__(self):
        self.positive("lr", "eps", "muon_lr")
        self.not_negative("clip", "weight_decay", "warmup")
        if not all(0 <= beta < 1 for beta in (*self.betas, self.muon_momentum)):
            raise UsageError("optim.betas and optim.muon_momentum must be at least 0 and below 1")
        self.in_range(0, 1, "ema", "decay_fraction")


@dataclass(frozen=True)
class TrainConfig(Section):
    """The loop. Global batch = per-device batch x devices x accumulation."""

    section: ClassVar[str] = "train"

    steps: int = 100_000
    """Optimizer steps."""
    batch: int = 256
    """Rows per step, over all devices."""
    micro_batch: int = 0
    """Rows per device and pass; 0: the device's whole share at once."""
    seed: int = 0
    """Seed of weights, noise and dropout."""
    init: str = ""
    """Checkpoint with the initial averaged weights; empty: from scratch."""
    device: str = "auto"
    """auto, cpu, cuda or mps."""
    threads: int = 0
    """On a CPU, threads of the matrix products; 0: PyTorch's choice. One is often fastest for small networks."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Dtype of the matrix products; weights stay float32."""
    compile: bool = False
    """Compile the blocks."""
    layout: Literal["auto", "replicate", "shard", "hybrid"] = "auto"
    """Several GPUs: weights replicated on each (replicate), sharded over all (shard) or within a node (hybrid)."""
    peer_timeout: float = 600.0
    """Several processes: seconds without an answer from one after which the run ends."""
    recompute: bool = False
    """Recompute the blocks in the backward pass from their inputs: less memory, a third more time."""
    graph: bool = False
    """On a GPU, replay the step as one CUDA graph: faster for small models, which are bound by kernel launches."""
    log_every: int = 50
    """Steps between reports."""
    checkpoint_every: int = 1_000
    """Steps between checkpoints."""
    keep: int = 2
    """Checkpoints kept besides the best, the milestones and, if the loss has risen, the last one before."""
    milestones: tuple[int, ...] = ()
    """Steps whose checkpoints are saved and never deleted."""
    evaluate_every: int = 0
    """Steps between quick evaluations; 0: only at the end of the run."""
    tensorboard: bool = False
    """Also write TensorBoard files: same as tensorboard in `track`."""
    track: tuple[Literal["tensorboard", "wandb", "mlflow"], ...] = ()
    """Tracking services that also receive the numbers; each must be installed."""

    def __post_init__(self):
        self.positive("steps", "batch", "log_every", "checkpoint_every", "keep", "peer_timeout")
        self.in_range(0, 7 * 86_400, "peer_timeout")
        self.not_negative("micro_batch", "evaluate_every", "threads")
        self.in_range(0, MOST_THREADS, "threads")
        self.in_range(0, MOST_ROWS, "batch", "micro_batch")
        self.in_range(0, 2**62, "seed")
        if any(step < 1 for step in self.milestones):
            raise UsageError(f"train.milestones={list(self.milestones)} must be steps, each at least 1")
        if self.device not in DEVICES:
            raise UsageError(f"train.device={self.device} is not a choice{nearest(self.device, DEVICES)}")
