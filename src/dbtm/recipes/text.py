"""Text: the paper's LM1B and OpenWebText recipes, and ours.

All of them read a prepared set: `dbtm train text --data DIR`. Ours take vocabulary and length from it.
"""

from dataclasses import replace

from dbtm.config import ModelConfig, OptimConfig, RunConfig, TrainConfig
from dbtm.methods.dbtm import Config, DistillConfig, LossConfig, Options, PathConfig, RilConfig
from dbtm.recipes import ours
from dbtm.recipes.own import own
from dbtm.tasks.text.task import Text


def lm1b() -> RunConfig:
    """tab:hyperparameters, column LM1B: bert-base-uncased, L = 128."""
    task = Text(vocab=30_522, length=128)
    return RunConfig(
        recipe="lm1b",
        task=task,
        model=ModelConfig(width=768, depth=12, heads=12),
        method=Config(path=PathConfig(t_anchor=0.75)),
        optim=OptimConfig(lr=3e-4, warmup=10_000, clip=1.0, ema=0.9999),
        train=TrainConfig(
            steps=250_000,
            batch=512,
            micro_batch=128,
            precision="bf16",
            compile=True,
            checkpoint_every=5_000,
            milestones=(100_000, 200_000),  # before on-policy training, and what the paper evaluates
            evaluate_every=5_000,
        ),
        sample=Options(nfe=4, kappa=0.9, repetition_penalty=1.0),
    )


def owt() -> RunConfig:
    """tab:hyperparameters, column OpenWebText: GPT-2 BPE, L = 1024; attention in every block."""
    base = lm1b()
    task = Text(vocab=50_257, length=1_024, evaluate_n=64)
    return replace(
        base,
        recipe="owt",
        task=task,
        train=replace(base.train, steps=150_000, milestones=(50_000, 100_000)),
        sample=Options(nfe=4, kappa=0.3, repetition_penalty=1.0),
    )


def lm1b_ril() -> RunConfig:
    """tab:ril-setup, column LM1B: data-supervised ril-c and self-distillation beside it.

    Rollouts from pure noise alone collapse one-step samples. With self-distillation beside them they did not in four
    small runs, where it began with samples nearly as varied as data; variety still fell, and quality did not rise. Both
    collapsed where it began earlier (docs/text-results.md, results/ril-stages*.json). At the paper's size the recipe
    has not been run.
    """
    return _with_ril(lm1b(), "lm1b-ril", start=100_000)


def lm1b_ril_nc() -> RunConfig:
    """tab:commit-vs-noncommit, the non-commit arm: `lm1b-ril` whose rollouts hold distributions."""
    base = lm1b_ril()
    method = settings(base)
    return replace(
        base,
        recipe="lm1b-ril-nc",
        method=replace(method, ril=replace(method.ril, commit=False), distill=replace(method.distill, commit=False)),
    )


def owt_ril() -> RunConfig:
    """The paper gives no setup of its own for OpenWebText: LM1B's, but for the start."""
    return _with_ril(owt(), "owt-ril", start=50_000)


def _with_ril(base: RunConfig, name: str, start: int) -> RunConfig:
    """Rollouts and self-distillation start together, half-way to the step that the paper evaluates.

    fig:onpolicy-gate-lm1b has all on-policy training turn on at step 100,000, and LM1B is evaluated at 200,000.
    OpenWebText is evaluated at 100,000: had its rollouts started there too, its row would have none.
    """
    return replace(
        base,
        recipe=name,
        method=replace(
            settings(base),
            ril=RilConfig(weight=1.0, depths=(4,), kappa=0.9, start=start),
            distill=DistillConfig(weight=1.0, depth=4, kappa=0.9, temperature=0.7, start=start, refresh=5_000),
        ),
    )


def settings(base: RunConfig) -> Config:
    """The method's settings of a recipe that is built upon."""
    assert isinstance(base.method, Config)
    return base.method


def text() -> RunConfig:
    """Ours, 47M parameters: Muon, gates from one half, a norm on the embedded state, no softcap.

    The anchor starts early, where a token cannot be read off its own position yet: there its cross-entropy teaches
    language. With c = 0.001 the transport term is nearly |dT| and not its square, which lets T change where it has to.
    Rounds commit positions that are spread over the text: by confidence they would commit little words side by side,
    and leave the others to be guessed side by side.
    """
    task = Text()
    return RunConfig(
        recipe="text",
        task=task,
        model=ours.model(512, 12, 8, input_norm=True),
        method=Config(
            path=PathConfig(t_anchor=0.65), loss=LossConfig(c=1e-3, boundary_fraction=0.125), quality=ours.QUALITY
        ),
        optim=ours.optim(warmup=300),
        train=TrainConfig(
            steps=20_000,
            batch=256,
            precision="bf16",
            compile=True,
            graph=True,
            checkpoint_every=1_000,
            evaluate_every=500,
        ),
        sample=Options(nfe=4, scorer="spread"),
    )


def text_ril() -> RunConfig:
    """`text` with rounds supervised by the data, which begin where at least 40 % of a text is clean.

    From pure noise the data is not a function of the input: supervised there, one-step samples collapse.
    """
    base = text()
    return replace(
        base,
        recipe="text-ril",
        method=replace(
            settings(base), path=PathConfig(t_anchor=0.68), ril=RilConfig(weight=0.5, depths=(1,), context=0.4)
        ),
    )


def text_small() -> RunConfig:
    """At most 8M parameters, the embedding and the head included: a small vocabulary and blocks applied twice."""
    base = text_ril()
    return replace(
        base,
        recipe="text-small",
        task=Text(vocab=4_096),
        model=replace(base.model, width=256, depth=7, heads=4, loops=2),
        method=replace(settings(base), quality=ours.NO_QUALITY),
    )


def text_tiny() -> RunConfig:
    """For a CPU: mostly real words after 20 minutes on two cores. Two million parameters; the objective of
    `own`. Prepare your own text with a small tokenizer: `dbtm data text --tokenizer train:4096 --length 64`.
    """
    rows = own()
    return replace(
        rows,
        recipe="text-tiny",
        task=Text(vocab=4_096, length=64, evaluate_n=64),
        model=replace(rows.model, width=128, depth=4, heads=4),
        optim=replace(rows.optim, warmup=100),
        train=TrainConfig(steps=6_000, batch=32, log_every=50, checkpoint_every=500, evaluate_every=1_000),
        sample=Options(
            nfe=16,
            scorer="spread",
            rounds="planned",
            fresh_noise=False,
            mean_from=1,
            mean_temperature=0.7,
            top_p=0.9,
        ),
    )


def text_distill() -> RunConfig:
    """The second stage of `text-ril`, for one network evaluation: `--init` with a run of it."""
    return second_stage(text_ril(), "text-distill")


def text_small_distill() -> RunConfig:
    """The second stage of `text-small`."""
    return second_stage(text_small(), "text-small-distill")


def second_stage(base: RunConfig, name: str) -> RunConfig:
    """Self-distillation from trained weights on: the map learns what its own second round makes of the same noise.

    The teacher commits every second position, from another place in every text, and only what it decides with those
    neighbours known is learned. Refreshing the teacher at least ten times matters more than the
    interval, as long as the student can follow. The other terms, on a quarter of the rows, keep what the map has
    learned before.
    """
    return replace(
        base,
        recipe=name,
        method=replace(
            settings(base),
            loss=replace(settings(base).loss, interpolant_fraction=0.25, boundary_fraction=0.0625),
            distill=DistillConfig(
                weight=2.0, depth=2, scorer="spread", supervise="remaining", temperature=0.7, start=0, refresh=600
            ),
        ),
        train=replace(base.train, steps=7_000, seed=1),  # another seed: other noise for the same texts
    )
