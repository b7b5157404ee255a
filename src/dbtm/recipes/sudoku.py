"""Sudoku: the paper's recipe, ours, ours for the hardest puzzles in two stages, and a small one for a CPU."""

from dataclasses import replace

from dbtm.config import ModelConfig, OptimConfig, RunConfig, TrainConfig
from dbtm.methods.dbtm import Config, LossConfig, Options, PathConfig, QualityConfig, RilConfig
from dbtm.recipes import ours
from dbtm.tasks.sudoku.task import Sudoku


def sudoku_paper() -> RunConfig:
    """tab:hyperparameters, column Sudoku, with refinement in the loop (tab:ril-setup)."""
    return RunConfig(
        recipe="sudoku-paper",
        task=Sudoku(augment=False, evaluate_also=(35, 40)),  # accuracy over training as in fig:sudoku-solve-acc
        model=ModelConfig(width=512, depth=8, heads=8),
        method=Config(path=PathConfig(t_anchor=0.69), ril=RilConfig(weight=1.0, depths=(4,), kappa=0.9)),
        optim=OptimConfig(lr=3e-4, warmup=30_000, clip=1.0, ema=0.9999),
        train=TrainConfig(steps=200_000, batch=256, precision="bf16", compile=True, evaluate_every=2_000),
        sample=Options(nfe=4, kappa=0.999, scorer="quality"),
    )


def sudoku() -> RunConfig:
    """Ours: looped depth, Muon, grid positions, symmetries, all difficulties at once, at most 8M parameters."""
    task = Sudoku(clues=((22, 26), (27, 31), (30, 30), (32, 40)), pool=100_000)
    axis = task.layout.digits + 1
    return RunConfig(
        recipe="sudoku",
        task=task,
        model=ours.model(256, 8, 8, loops=2, embed_std=0.3, position_axes=(axis, axis, axis, 4)),
        method=_method(depth=4, quality=ours.QUALITY),
        optim=ours.optim(warmup=150),
        train=TrainConfig(
            steps=3_600,
            batch=1_024,
            precision="bf16",
            compile=True,
            graph=True,
            checkpoint_every=250,
            evaluate_every=250,
        ),
        sample=Options(nfe=4, kappa=0.9, scorer="quality"),
    )


def _method(depth: int, quality: QualityConfig) -> Config:
    """Ours: rollouts are most of the objective, half of the rows continue after the first round."""
    return Config(
        path=PathConfig(t_anchor=0.69, coupling="independent"),
        loss=LossConfig(interpolant_fraction=0.25, boundary_fraction=0.125),
        ril=RilConfig(weight=1.0, depths=(depth,), kappa=0.9, later_fraction=0.5),
        quality=quality,
    )


def sudoku_hard() -> RunConfig:
    """Ours for the hardest puzzles, first stage: hard and ordinary puzzles, rollouts that hold the map's own mistakes
    and correct them, the quality head everywhere, rounds that read the previous one, and a random number of loops per
    step. Start from the weights of `sudoku` (`--init sudoku`).

    The answer is a function of the clues, so there is no transport. Puzzles with 20 guesses or more are slow to make
    (0.4 s each on one core), so pools are small and symmetries many.
    """
    base = sudoku()
    ril = RilConfig(weight=1.0, depths=(6,), kappa=0.9, later_fraction=0.5, own=0.5, uncommit=True, quality_on="all")
    loss = LossConfig(transport=0.0, interpolant_fraction=0.25, boundary_fraction=0.125)
    path = PathConfig(t_anchor=0.69, coupling="independent")
    return replace(
        base,
        recipe="sudoku-hard",
        task=Sudoku(clues=((22, 26), (30, 30)), efforts=((2, 20), (20, 100)), pool=10_000),
        model=replace(base.model, self_condition=True),
        method=Config(path=path, loss=loss, ril=ril, quality=ours.QUALITY, loops=(2, 4)),
        train=replace(base.train, steps=12_000, batch=512, checkpoint_every=500, evaluate_every=500),
    )


def sudoku_hard_2() -> RunConfig:
    """Second stage: new puzzles, mostly hard ones, longer rollouts, more of the map's own mistakes."""
    first = sudoku_hard()
    assert isinstance(first.method, Config)
    ril = replace(first.method.ril, depths=(8,), own=0.75)
    return replace(
        first,
        recipe="sudoku-hard-2",
        task=Sudoku(clues=((22, 26),), efforts=((2, 20), (20, 100)), pool=10_000, seed=2),
        method=replace(first.method, ril=ril),
        optim=replace(first.optim, lr=5e-4),
        train=replace(first.train, steps=4_000),
    )


def sudoku_mini() -> RunConfig:
    """4 x 4 grids: learns to solve held-out puzzles in minutes on two CPU cores. The quick way to try training."""
    task = Sudoku(box=2, clues=((4, 8),), pool=20_000, augment=False, evaluate_clues=5)
    axis = task.layout.digits + 1
    big = sudoku()
    return replace(
        big,
        recipe="sudoku-mini",
        task=task,
        model=replace(big.model, width=48, depth=3, heads=4, position_axes=(axis, axis, axis, 4)),
        method=_method(depth=3, quality=QualityConfig(width=32, depth=2)),
        optim=replace(big.optim, warmup=100),
        train=TrainConfig(steps=1_500, batch=64, log_every=25, checkpoint_every=300, evaluate_every=300),
        sample=Options(nfe=4, kappa=0.99, scorer="quality"),
    )
