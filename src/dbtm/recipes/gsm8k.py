"""Grade-school maths: the paper's TinyGSM recipe, and a small one for one GPU."""

from dbtm.config import ModelConfig, OptimConfig, RunConfig, TrainConfig
from dbtm.methods.dbtm import Config, LossConfig, Options, PathConfig, RilConfig
from dbtm.recipes import ours
from dbtm.tasks.gsm8k.task import Gsm8k


def tinygsm() -> RunConfig:
    """tab:hyperparameters, column TinyGSM / GSM8K, with refinement in the loop as in tab:gsm8k-nfe-ril.

    Its data: `dbtm data gsm8k --hub TinyGSM/TinyGSM --tokenizer HuggingFaceTB/SmolLM-135M --length 512 --out DIR`. The
    paper's text has a global batch of 256 for reasoning, its table 512 for TinyGSM: we follow the table.
    """
    return RunConfig(
        recipe="tinygsm",
        task=Gsm8k(vocab=49_152, length=512),
        model=ModelConfig(width=768, depth=12, heads=12),
        method=Config(path=PathConfig(t_anchor=0.82), ril=RilConfig(weight=1.0, depths=(4,), kappa=0.9)),
        optim=OptimConfig(lr=3e-4, warmup=50_000, clip=1.0, ema=0.9999),
        train=TrainConfig(
            steps=250_000,
            batch=512,
            micro_batch=32,
            precision="bf16",
            compile=True,
            checkpoint_every=5_000,
            evaluate_every=5_000,
        ),
        sample=Options(nfe=32, kappa=0.8),
    )


def gsm_small() -> RunConfig:
    """For one GPU, 30M parameters: a trained BPE of 4,096, L = 192, mostly synthetic problems.

    Its data: `dbtm data gsm8k FILE.jsonl ... --plain --renumber 4 --length 192 --out DIR`.

    Rounds are supervised one at a time, each from a program with any share of known tokens: a rollout would see fewer
    problems in the same time. A question has one program, so any share can be supervised.

    There is no transport term: a question has one program for all noise, so there is nothing to transport; with the
    term the map did not learn to copy the question's numbers. A short convolution helps it to find them, as the
    neighbours of a number tell its meaning (results/gsm-study.json).
    """
    return RunConfig(
        recipe="gsm-small",
        task=Gsm8k(vocab=4_096, length=192, synthetic=0.6),
        model=ours.model(512, 8, 8, input_norm=True, embed_std=0.3, conv_width=5),
        method=Config(
            path=PathConfig(t_anchor=0.8, coupling="independent"),
            loss=LossConfig(transport=0.0, boundary_fraction=0.25),
            ril=RilConfig(weight=1.0, depths=(1,), context=0.01),
            quality=ours.QUALITY,
        ),
        optim=ours.optim(warmup=200),
        train=TrainConfig(
            steps=10_000,
            batch=256,
            precision="bf16",
            compile=True,
            graph=True,
            checkpoint_every=500,
            evaluate_every=500,
        ),
        sample=Options(nfe=16, kappa=0.9),
    )
