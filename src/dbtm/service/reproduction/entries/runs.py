"""The runs behind the tables of text: tiny ones for a CPU, and the paper's."""

from dbtm.service.reproduction.entry import Size
from dbtm.service.reproduction.steps.training import Corpus, Train

OURS = ("method.quality.width=32", "method.quality.depth=1", "method.quality.heads=4", "method.path.t_anchor=0.75",
        "method.loss.c=1", "sample.scorer=confidence", "sample.kappa=0.9", "sample.repetition_penalty=1.0")  # fmt: skip
"""Settings of the tiny runs that belong to DBTM: the paper's anchor, adaptive constant and sampler; a small head."""
LINEAR = ("model.backbone=delta",)
NON_COMMIT = ("method.ril.commit=false", "method.distill.commit=false")
DIFFERS = (
    "Ours are maps of {width} channels and 3 blocks trained here for {steps:,} steps of 32 on made-up stories of "
    "two sentences (V = 400, L = 24; or on your own text), {n} samples under the judge smollm2; the paper's have 140M "
    "to 178M parameters, 100,000 to 200,000 steps of 512 on LM1B (L = 128) or OpenWebText (L = 1024), 1,024 samples "
    "under GPT-2 Large. Our rollouts (ril) begin where 40 % of a text is clean. "
    "Perplexities of different texts and judges do not compare: look at the order of the rows."
)
TAG = "other text, other judge"


def differs(size: Size) -> str:
    return DIFFERS.format(width=size.width, steps=size.text_steps, n=size.samples)


def thirds(steps: int, parts: int = 4) -> tuple[int, ...]:
    """Equal parts of a run, each at least a step."""
    return tuple(max(1, steps * part // parts) for part in range(1, parts + 1))


def base(size: Size, *changes: str) -> Train:
    """DBTM without rollouts."""
    return Train(
        recipe="text",
        changes=(*_sizes(size, size.text_steps), *OURS, *changes),
        data=Corpus(documents=400 if size.name == "trial" else 6_000, seconds=3),
        seconds=80 if LINEAR[0] in changes else 25,
    )


def ril(size: Size, *changes: str, start: Train | None = None, linear: bool = False) -> Train:
    """The second stage, as the paper has it from half-way on: rollouts of depth 4 and self-distillation.

    Two things are not as in the paper: rollouts begin where 40 % of a text is clean, and the teacher is refreshed
    twice. On text at this size, from pure noise or with a teacher that follows its student closely, samples collapsed
    (docs/text.md).
    """
    more, refresh = LINEAR if linear else (), max(1, size.ril_steps // 2)
    stage = ("method.ril.weight=0.5", "method.ril.depths=[4]", "method.ril.context=0.4", "method.distill.weight=1",
             "method.distill.depth=4", "method.distill.start=0", f"method.distill.refresh={refresh}",
             "train.seed=1")  # fmt: skip
    first = start or base(size, *more)
    return Train(
        recipe="text",
        changes=(*_sizes(size, size.ril_steps), *OURS, *more, *stage, *changes),
        init=first,
        data=first.data,
        seconds=90 if linear else 30,
    )


def _sizes(size: Size, steps: int) -> tuple[str, ...]:
    milestones = ",".join(map(str, thirds(steps)))
    return (f"model.width={size.width}", f"model.depth={1 if size.name == 'trial' else 3}", "model.heads=4",
            "train.batch=32", "train.precision=fp32", "train.compile=false", "train.graph=false", "optim.ema=0.99",
            f"train.steps={steps}", f"optim.warmup={min(50, max(1, steps // 4))}", f"train.milestones=[{milestones}]",
            "train.checkpoint_every=1000000", "task.evaluate_n=64")  # fmt: skip


def paper(recipe: str, *changes: str) -> Train:
    """The paper's run, to the step that it evaluates: 200,000 on LM1B, 100,000 on OpenWebText."""
    family = recipe.partition("-")[0]
    steps = {"lm1b": 200_000, "owt": 100_000}[family]
    return Train(recipe=recipe, changes=(f"train.steps={steps}", *changes), data=family, small=False)
