"""What `dbtm sweep text` measures: the frontier over all knobs, and the paper's comparisons.

A study is a list of cells; a cell says where in its table a number stands and how its samples are drawn. Cells of
several studies may share their settings: these are drawn and judged once.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from dbtm.sampling import Sampler

EULER_STEPS = 64
HORIZONS = (1.0, 4.0, 8.0)


class Grid(NamedTuple):
    """The knobs and the values that each takes. Sigma None is the checkpoint's own."""

    nfe: Sequence[int] = (1, 2, 4, 8, 16)
    kappa: Sequence[float] = (0.5, 0.9, 0.99)
    temperature: Sequence[float] = (0.0, 0.7, 1.0)
    sigma: Sequence[float | None] = (None,)
    repetition_penalty: Sequence[float] = (0.0, 1.0)


class Cell(NamedTuple):
    """A place in a study's table and the settings, as `draw.resolve` takes them, whose numbers stand there."""

    study: str
    row: str
    column: str
    asked: dict[str, Any]


def frontier(grid: Grid, sampler: Sampler) -> Iterator[Cell]:
    """Every knob against every other (fig:generative-frontier-lm1b); a threshold is one of the commits by a score."""
    for values in product(*grid):
        asked = dict(zip(Grid._fields, values, strict=True))
        asked = {name: value for name, value in asked.items() if value is not None}
        if not sampler.options.commit:
            del asked["repetition_penalty"]  # which counts committed tokens
        yield Cell("frontier", str(asked["nfe"]), "", asked | _by_score(sampler))
        if sampler.options.scorer == "spread":
            yield Cell("frontier", str(asked["nfe"]), "", {n: v for n, v in asked.items() if n != "kappa"})


def horizon(grid: Grid, sampler: Sampler) -> Iterator[Cell]:
    """The field that the map implies, integrated up to a horizon, against the map (tab:autonomous-field-horizon).

    The field starts from noise of its own (`sampling.integrate`): of the same law as the map's, but not the same draw.
    """
    for end in HORIZONS:
        asked = {"sampler": "integrate", "nfe": EULER_STEPS, "horizon": end}
        yield Cell("horizon", f"{EULER_STEPS} Euler steps", f"H = {end:g}", asked)
    yield Cell("horizon", f"{EULER_STEPS} Euler steps", "one-step map", {"nfe": 1})


def iterate(grid: Grid, sampler: Sampler) -> Iterator[Cell]:
    """The map applied again and again against renoise and remap."""
    for nfe in grid.nfe:
        yield Cell("iterate", str(nfe), "iterate", {"sampler": "iterate", "nfe": nfe})
        yield Cell("iterate", str(nfe), "renoise + remap", {"nfe": nfe})


def scorer(grid: Grid, sampler: Sampler) -> Iterator[Cell]:
    """What decides which tokens are committed; the quality head where the checkpoint has one."""
    scorers = ["confidence", *(["quality"] if sampler.model.quality is not None else []), "spread", "none"]
    for nfe, name in product(grid.nfe, scorers):
        yield Cell("scorer", str(nfe), name, {"nfe": nfe, "scorer": name})


def commit(grid: Grid, sampler: Sampler) -> Iterator[Cell]:
    """Committed against held states at every threshold (the sampling side of tab:commit-vs-noncommit).

    Both without a repetition penalty, since held states know none.
    """
    for nfe, hard, kappa in product(grid.nfe, (True, False), grid.kappa):
        column = f"{'commit' if hard else 'non-commit'} {kappa:g}"
        asked = {"nfe": nfe, "commit": hard, "kappa": kappa, "repetition_penalty": 0.0}
        yield Cell("commit", str(nfe), column, asked | _by_score(sampler))


def _by_score(sampler: Sampler) -> dict[str, str]:
    """What a threshold needs of a checkpoint whose own commits are spread."""
    return {"scorer": "confidence"} if sampler.options.scorer == "spread" else {}


def noise(grid: Grid, sampler: Sampler) -> Iterator[Cell]:
    """Renoising with fresh noise, as the paper's sampler does, against the first round's, as its training does."""
    for nfe, fresh in product(grid.nfe, (True, False)):
        yield Cell("noise", str(nfe), "fresh" if fresh else "the same", {"nfe": nfe, "fresh_noise": fresh})


STUDIES: dict[str, Callable[[Grid, Sampler], Iterator[Cell]]] = {
    "frontier": frontier,
    "horizon": horizon,
    "iterate": iterate,
    "scorer": scorer,
    "commit": commit,
    "noise": noise,
}

TITLES = {
    "horizon": "autonomous field over horizons H against the map",
    "iterate": "iterating the map against renoise + remap, by NFE",
    "scorer": "what decides the commits, by NFE",
    "commit": "committing tokens against holding distributions, by NFE and kappa, without a repetition penalty",
    "noise": "fresh noise in every round against the same again, by NFE",
}
"""Of the studies that are tables; the frontier has its own."""
