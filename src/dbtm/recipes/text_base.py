"""Your text in hours of one GPU: `text-base`, and a second stage that starts from its weights.

30.5M parameters, 31 MB when packed: the seven blocks are applied twice. The long run has not been made yet:
docs/text-base.md has its commands, what was measured before it, and what was not.
"""

from dataclasses import replace

from dbtm.config import RunConfig
from dbtm.methods.dbtm import Config, LossConfig, Options, PathConfig, PosteriorConfig, ReflowConfig
from dbtm.recipes import ours
from dbtm.recipes.text import settings, text


def text_base() -> RunConfig:
    """First stage: language, from data alone, by the objective of `own`.

    The map learns p(text | known positions) at the prior's mean, and later rounds draw from it there. In three rows of
    four the known positions are those that the sampler commits first; in the others they are random, for prompts and
    holes. The paper's terms at noise have small weights and few rows: they train the first round.
    """
    base = text()
    return replace(
        base,
        recipe="text-base",
        model=replace(base.model, depth=7, loops=2),
        method=Config(
            path=PathConfig(t_anchor=0.68),
            loss=LossConfig(
                c=1e-3,
                transport=0.1,
                anchor=0.1,
                boundary=0.1,
                interpolant_fraction=0.125,
                boundary_fraction=0.03125,
            ),
            posterior=PosteriorConfig(weight=1.0, spread=0.75),
            quality=ours.NO_QUALITY,
        ),
        train=replace(base.train, steps=90_000, checkpoint_every=2_000, evaluate_every=2_000),
        sample=Options(
            nfe=8, scorer="spread", rounds="planned", mean_from=2, mean_temperature=0.6, repetition_penalty=1.0
        ),
    )


def text_base_2() -> RunConfig:
    """Second stage: the first round learns what four rounds of a frozen copy draw with its noise. At a budget of two,
    both rounds read this noise.

    The posterior term on a quarter of the rows keeps what the first stage has learned from data.
    """
    base = text_base()
    method, sample = settings(base), base.sample
    assert isinstance(sample, Options)
    return replace(
        base,
        recipe="text-base-2",
        method=replace(
            method,
            loss=replace(method.loss, transport=0.0, anchor=0.0, boundary=0.0),
            posterior=replace(method.posterior, fraction=0.25),
            reflow=ReflowConfig(weight=1.0, rounds=4, temperature=0.7, refresh=2_000),
        ),
        sample=replace(sample, fresh_noise=False, mean_budget=3),
        train=replace(base.train, steps=40_000, seed=1),  # another seed: other noise for the same texts
    )
