"""Your own rows. The sizes here are for one GPU; `sizes.py` has those for other machines."""

from dataclasses import replace

from dbtm.config import RunConfig, TrainConfig
from dbtm.methods.dbtm import Config, LossConfig, Options, RilConfig
from dbtm.recipes import ours
from dbtm.tasks.own import Own


def own() -> RunConfig:
    """Refinement in the loop, from rows on of which at least 10 % are clean: without it many evaluations are no better
    than one. Started from noise alone it makes more rows valid and all of them alike. Rounds keep the first round's
    noise, which the coupling has given a meaning, and commit positions that are spread over the row; three rollouts of
    four start from such positions, the states that this sampler visits, the others from any (for `--given`).
    """
    return RunConfig(
        recipe="own",
        task=Own(),
        model=ours.model(256, 6, 8, input_norm=True, embed_std=0.3),
        method=Config(
            loss=LossConfig(interpolant_fraction=0.25, boundary_fraction=0.125),
            ril=RilConfig(weight=1.0, depths=(1,), context=0.1, spread=0.75),
            quality=ours.NO_QUALITY,
        ),
        optim=replace(ours.optim(warmup=50), lr=2e-3),  # networks are small
        train=TrainConfig(steps=10_000, batch=128, log_every=50, checkpoint_every=500, evaluate_every=1_000),
        sample=Options(nfe=8, scorer="spread", rounds="planned", fresh_noise=False),
    )
