"""Your own rows. The sizes here are for one GPU; `sizes.py` has those for other machines."""

from dataclasses import replace

from dbtm.config import RunConfig, TrainConfig
from dbtm.methods.dbtm import Config, LossConfig, Options, PosteriorConfig
from dbtm.recipes import ours
from dbtm.tasks.own import Own


def own() -> RunConfig:
    """The map learns p(row | known positions) at the prior's mean (method.posterior), and every budget above one
    evaluation draws from it there. In seven rows of eight the known positions are those that the sampler commits first,
    spread over the row; in the others they are random, for `--given`. Most rows show the end of sampling: the first
    rounds are learned soon, and the many unknown positions of their rows would add noise to the gradient. A short
    convolution shows every position its neighbours. The paper's terms at noise have small weights and few rows: they
    train samples of one evaluation. Small networks give symbols that cannot stand somewhere a little probability:
    top_p leaves them out.
    """
    return RunConfig(
        recipe="own",
        task=Own(),
        model=ours.model(256, 6, 8, input_norm=True, embed_std=0.3, conv_width=9),
        method=Config(
            loss=LossConfig(
                transport=0.1, anchor=0.1, boundary=0.1, interpolant_fraction=0.125, boundary_fraction=0.03125
            ),
            posterior=PosteriorConfig(weight=1.0, spread=0.875, late=2.5),
            quality=ours.NO_QUALITY,
        ),
        optim=replace(ours.optim(warmup=50), lr=2e-3, ema=0.998),  # networks are small, runs short
        train=TrainConfig(steps=10_000, batch=128, log_every=50, checkpoint_every=500, evaluate_every=1_000),
        sample=Options(nfe=8, scorer="spread", rounds="planned", fresh_noise=False, mean_from=1, top_p=0.95),
    )
