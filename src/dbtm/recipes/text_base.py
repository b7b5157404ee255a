"""Your text in hours of one GPU: `text-base` and two stages, each of which starts from the weights of the one before.

30.5M parameters, 31 MB when packed: the seven blocks are applied twice. The long run has not been made yet:
docs/text-base.md has its commands, and says which settings were measured on text and which were not.
"""

from dataclasses import replace

from dbtm.config import RunConfig
from dbtm.methods.dbtm import Options
from dbtm.recipes import ours
from dbtm.recipes.text import second_stage, settings, text_ril


def text_base() -> RunConfig:
    """First stage: language, from data alone.

    The map learns transport from noise, what the data says at noisy positions (anchor), and rounds from partly clean
    texts on, as in `text-ril`; half of the rounds start with the positions that the sampler commits first. The
    posterior term is off: it has been measured on a Markov chain alone, and is a variant of the study before the run.
    """
    base = text_ril()
    method = settings(base)
    return replace(
        base,
        recipe="text-base",
        model=replace(base.model, depth=7, loops=2),
        method=replace(
            method,
            ril=replace(method.ril, spread=0.5),
            quality=ours.NO_QUALITY,
        ),
        train=replace(base.train, steps=60_000, checkpoint_every=2_000, evaluate_every=2_000),
        sample=Options(nfe=4, scorer="spread", rounds="planned"),
    )


def text_base_2() -> RunConfig:
    """Second stage, as `text-distill`: one evaluation learns what two rounds of a frozen copy make of the same noise.

    Twelve teachers, one after the other; a quarter of the rows keep what the first stage has learned from data.
    """
    return _distilled("text-base-2", depth=2, steps=14_000, refresh=1_200, seed=1)


def text_base_3() -> RunConfig:
    """Third stage: one, two and three evaluations learn what four rounds of a frozen copy make of the same noise.

    Progressive: the first copy is the second stage's map, whose one evaluation has learned two rounds. Ten teachers, at
    half the learning rate.
    """
    third = _distilled("text-base-3", depth=4, steps=8_000, refresh=800, seed=2)
    return replace(third, optim=replace(third.optim, lr=third.optim.lr / 2, muon_lr=third.optim.muon_lr / 2))


def _distilled(name: str, depth: int, steps: int, refresh: int, seed: int) -> RunConfig:
    stage = second_stage(text_base(), name)
    method = settings(stage)
    return replace(
        stage,
        method=replace(method, distill=replace(method.distill, depth=depth, refresh=refresh)),
        train=replace(stage.train, steps=steps, seed=seed),
    )
