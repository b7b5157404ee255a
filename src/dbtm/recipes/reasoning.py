"""Mazes, graph colouring and 3-SAT: each for one GPU, and in a small size for a CPU.

The answer is a function of the problem, as in Sudoku, so there is no transport term; in half of the rows rollouts hold
the map's own choices (docs/reasoning.md).
"""

from dataclasses import replace

from dbtm.config import RunConfig, TrainConfig
from dbtm.methods.dbtm import Config, LossConfig, Options, PathConfig, QualityConfig, RilConfig
from dbtm.recipes import ours
from dbtm.tasks.reasoning.base import Reasoning
from dbtm.tasks.reasoning.colouring import Colouring
from dbtm.tasks.reasoning.maze import Maze
from dbtm.tasks.reasoning.sat import Sat


def _axes(task: Reasoning) -> tuple[int, ...]:
    """Sizes of the position tables: one entry more than the largest."""
    ids = task.position_ids()
    assert ids is not None
    return tuple(int(size) + 1 for size in ids.max(axis=0))


def _on_a_gpu(task: Reasoning, batch: int) -> RunConfig:
    """As in the recipe `sudoku`: 8 blocks applied twice, at most 8M parameters."""
    return RunConfig(
        recipe=task.name,
        task=task,
        model=ours.model(256, 8, 8, loops=2, embed_std=0.3, position_axes=_axes(task)),
        method=_method(depth=4, quality=ours.QUALITY),
        optim=ours.optim(warmup=150),
        train=TrainConfig(
            steps=4_000,
            batch=batch,
            precision="bf16",
            compile=True,
            graph=True,
            checkpoint_every=250,
            evaluate_every=250,
        ),
        sample=Options(nfe=16, kappa=0.9, scorer="quality"),
    )


def _method(depth: int, quality: QualityConfig) -> Config:
    return Config(
        path=PathConfig(t_anchor=0.69, coupling="independent"),
        loss=LossConfig(transport=0.0, interpolant_fraction=0.25, boundary_fraction=0.125),
        ril=RilConfig(weight=1.0, depths=(depth,), kappa=0.9, later_fraction=0.5, own=0.5),
        quality=quality,
    )


def _on_a_cpu(task: Reasoning) -> RunConfig:
    """Small: a few hundred steps, less than a minute on one core, begin to show what it learns."""
    big = _on_a_gpu(task, batch=96)
    return replace(
        big,
        recipe=f"{task.name}-mini",
        model=replace(big.model, width=32, depth=2, heads=2),
        method=_method(depth=3, quality=QualityConfig(width=16, depth=1)),
        optim=replace(big.optim, warmup=100),
        train=TrainConfig(steps=2_000, batch=96, log_every=50, checkpoint_every=500, evaluate_every=500),
        sample=Options(nfe=4, kappa=0.9, scorer="quality"),
    )


def maze() -> RunConfig:
    """30 x 30, shortest paths of more than 110 steps, as HRM and TRM define their hard mazes."""
    return _on_a_gpu(Maze(), batch=128)


def maze_mini() -> RunConfig:
    """4 x 4, shortest paths of at least 4 steps."""
    return _on_a_cpu(Maze(size=4, least=4, walls=(0.1, 0.3)))


def colouring() -> RunConfig:
    """30 nodes, 3 colours, 4.5 neighbours on average: just below the limit for large graphs to have a colouring."""
    return _on_a_gpu(Colouring(), batch=512)


def colouring_mini() -> RunConfig:
    """5 nodes, 6 edges, 3 colours."""
    return _on_a_cpu(Colouring(nodes=5, degree=2.4))


def sat() -> RunConfig:
    """50 variables, 213 clauses: at the threshold."""
    return _on_a_gpu(Sat(), batch=256)


def sat_mini() -> RunConfig:
    """4 variables, 12 clauses."""
    return _on_a_cpu(Sat(variables=4, ratio=3.0))
