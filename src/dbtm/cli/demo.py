"""`dbtm demo`: the main job on a built-in default, in a minute on a CPU."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(help="Where the figure goes.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of the training run.")] = 0,
) -> None:
    """Learn the one-step map on the 2-simplex and draw it beside the exact flow's basins."""
    import tempfile

    import numpy as np

    from dbtm.config import override
    from dbtm.loading import load
    from dbtm.recipes import recipe
    from dbtm.train.loop import fit
    from dbtm.viz.simplex import compare_with_exact, draw

    config = override(recipe("simplex"), [f"train.seed={seed}"])
    print("training the one-step map T on the 2-simplex, p = (.5, .3, .2): no teacher, no time input\n")
    with tempfile.TemporaryDirectory() as folder:
        sampler = load(fit(config, folder), device="cpu")
    frequencies = np.bincount(sampler.sample(20_000, nfe=1, seed=1).tokens[:, 0], minlength=3) / 20_000
    agreement = compare_with_exact(sampler.model, config.task.p)  # type: ignore[attr-defined]
    path = draw(sampler.model, config.task.p, out / "simplex.png")  # type: ignore[attr-defined]
    print("\none network evaluation from noise to a vertex, 20,000 samples")
    print("  vertex      learned   data")
    for j, (got, want) in enumerate(zip(frequencies, config.task.p, strict=True)):  # type: ignore[attr-defined]
        print(f"  e{j + 1}          {got:.3f}     {want:.3f}  {'#' * round(60 * got)}")
    print(f"agreement of the learned map with the basins of the exact autonomous flow: {agreement:.1%}")
    print(f"figure: {path}")
