"""Common settings of the published runs of other methods: data, trunk and optimizer, as in their released code.

The trunk is ours: a DiT of the same width, depth and heads, pre-norm, rotary, adaLN, feed-forward of four widths and
dropout .1. It differs from the published ones in these points: the embedding starts from a normal instead of a uniform
distribution; for methods without time, adaLN reads a learned constant instead of the embedding of time 0; and the
softcap on attention logits is off except for the methods that publish one.
"""

from dataclasses import replace
from typing import Any

from dbtm.config import MethodConfig, ModelConfig, OptimConfig, RunConfig, SampleConfig, TrainConfig
from dbtm.tasks.base import Task
from dbtm.tasks.gsm8k.task import Gsm8k
from dbtm.tasks.sudoku.task import Sudoku
from dbtm.tasks.text.task import Text

TEXT = ModelConfig(width=768, depth=12, heads=12, softcap=0.0)
SUDOKU = ModelConfig(width=512, depth=8, heads=8, softcap=0.0)
OPTIM = OptimConfig(lr=3e-4, warmup=2_500, clip=1.0, ema=0.9999)
ON_GPU: dict[str, Any] = {"precision": "bf16", "compile": True}


def lm1b(method: MethodConfig, sample: SampleConfig, **train: Any) -> RunConfig:
    """LM1B: bert-base-uncased, L = 128, a million steps of 512."""
    chosen = {"steps": 1_000_000, "batch": 512, "micro_batch": 128, "checkpoint_every": 5_000, "evaluate_every": 5_000}
    return _run("lm1b", Text(vocab=30_522, length=128), TEXT, method, sample, chosen | train)


def owt(method: MethodConfig, sample: SampleConfig, **train: Any) -> RunConfig:
    """OpenWebText: GPT-2's tokens, L = 1024, a million steps of 512."""
    chosen = {"steps": 1_000_000, "batch": 512, "micro_batch": 32, "checkpoint_every": 5_000, "evaluate_every": 5_000}
    return _run("owt", Text(vocab=50_257, length=1_024, evaluate_n=64), TEXT, method, sample, chosen | train)


def sudoku(method: MethodConfig, sample: SampleConfig, **train: Any) -> RunConfig:
    """Sudoku: 48,000 puzzles per difficulty, 20,000 steps of 256."""
    chosen = {"steps": 20_000, "batch": 256, "evaluate_every": 2_000}
    return _run("sudoku", Sudoku(augment=False), SUDOKU, method, sample, chosen | train)


def tinygsm(method: MethodConfig, sample: SampleConfig, **train: Any) -> RunConfig:
    """TinyGSM: SmolLM's tokens, L = 512, 250,000 steps of 512."""
    chosen = {"steps": 250_000, "batch": 512, "micro_batch": 32, "checkpoint_every": 5_000, "evaluate_every": 5_000}
    return _run("tinygsm", Gsm8k(vocab=49_152, length=512), TEXT, method, sample, chosen | train)


def with_optim(run: RunConfig, **changes: Any) -> RunConfig:
    """The same run with another optimizer setting."""
    return replace(run, optim=replace(run.optim, **changes))


def with_model(run: RunConfig, **changes: Any) -> RunConfig:
    """The same run with another setting of the trunk."""
    return replace(run, model=replace(run.model, **changes))


def _run(
    data: str, task: Task, model: ModelConfig, method: MethodConfig, sample: SampleConfig, train: dict[str, Any]
) -> RunConfig:
    return RunConfig(
        recipe=f"{data}-{method.name}",
        task=task,
        model=model,
        method=method,
        optim=OPTIM,
        train=TrainConfig(**(ON_GPU | train)),
        sample=sample,
    )
