"""The studies of a text sweep: the frontier over all options, and the paper's comparisons.

A study is a list of cells; a cell is a place in its table and the settings of its samples. Cells of several studies may
share settings, which are drawn and judged once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from dbtm.core.errors import UsageError, nearest
from dbtm.sampling import Sampler

EULER_STEPS = 64
HORIZONS = (1.0, 4.0, 8.0)

Grid = Mapping[str, Sequence[Any]]
"""The varied sampler options, and their values."""

KNOBS: Grid = {
    "nfe": (1, 2, 4, 8, 16),
    "kappa": (0.5, 0.9, 0.99),
    "temperature": (0.0, 0.7, 1.0),
    "sigma": (),
    "repetition_penalty": (0.0, 1.0),
    "top_p": (),
}
"""Default values of a sweep; the checkpoint's own for options without values."""


def grid_for(sampler: Sampler, asked: Grid) -> Grid:
    """This sampler's options with the requested values, or those of `KNOBS`; options that it lacks are refused."""
    for name in asked:
        if name not in KNOBS:
            raise UsageError(f"a sweep does not vary '{name}'{nearest(name, KNOBS)}")
    wanted = {name: asked.get(name, values) for name, values in KNOBS.items()}
    grid = {name: values for name, values in wanted.items() if values and hasattr(sampler.options, name)}
    for name in asked:
        if name not in grid:
            sampler.with_options(**{name: wanted[name][0]})  # raises an error if it lacks the option
    if not getattr(sampler.options, "commit", True):
        grid.pop("repetition_penalty", None)  # it counts committed tokens
    return grid


class Cell(NamedTuple):
    """A place in a study's table, and its sampler options."""

    study: str
    row: str
    column: str
    asked: dict[str, Any]


def frontier(grid: Grid, sampler: Sampler) -> Iterator[Cell]:
    """All combinations of options (fig:generative-frontier-lm1b); thresholds apply to commits by a score, top_p to
    tokens that are drawn.
    """
    combinations = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    if "top_p" in grid and any(_draws(sampler, asked) for asked in combinations):  # else it is refused
        combinations = [asked if _draws(sampler, asked) else _without(asked, "top_p") for asked in combinations]
    for asked in combinations:
        row = str(asked.get("nfe", ""))
        yield Cell("frontier", row, "", asked | _by_score(sampler))
        if _spread(sampler):
            yield Cell("frontier", row, "", _without(asked, "kappa"))


def _draws(sampler: Sampler, asked: Mapping[str, Any]) -> bool:
    """Whether tokens are drawn with these options, so that top_p has a part."""
    options: Any = sampler.with_options(**_without(asked, "top_p"), **_by_score(sampler))
    return bool(options.draws if hasattr(options, "draws") else options.temperature)


def _without(asked: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {each: value for each, value in asked.items() if each != name}


def horizon(grid: Grid, sampler: Sampler) -> Iterator[Cell]:
    """The field that the map implies, integrated up to a horizon, against the map (tab:autonomous-field-horizon).

    The field starts from its own noise (`integrate`): the same distribution as the map's, but another draw.
    """
    for end in HORIZONS:
        asked = {"sampler": "integrate", "nfe": EULER_STEPS, "horizon": end}
        yield Cell("horizon", f"{EULER_STEPS} Euler steps", f"H = {end:g}", asked)
    yield Cell("horizon", f"{EULER_STEPS} Euler steps", "one-step map", {"nfe": 1})


def iterate(grid: Grid, sampler: Sampler) -> Iterator[Cell]:
    """Iterating the map against renoise and remap."""
    for nfe in grid["nfe"]:
        yield Cell("iterate", str(nfe), "iterate", {"sampler": "iterate", "nfe": nfe})
        yield Cell("iterate", str(nfe), "renoise + remap", {"nfe": nfe})


def scorer(grid: Grid, sampler: Sampler) -> Iterator[Cell]:
    """The scorer of commits; the quality head if the checkpoint has one."""
    has_head = getattr(sampler.network, "quality", None) is not None
    scorers = ["confidence", *(["quality"] if has_head else []), "spread", "none"]
    for nfe, name in product(grid["nfe"], scorers):
        yield Cell("scorer", str(nfe), name, {"nfe": nfe, "scorer": name})


def commit(grid: Grid, sampler: Sampler) -> Iterator[Cell]:
    """Committing tokens against holding distributions at each threshold (sampling in tab:commit-vs-noncommit).

    Both without a repetition penalty, which distributions do not support.
    """
    for nfe, hard, kappa in product(grid["nfe"], (True, False), grid["kappa"]):
        column = f"{'commit' if hard else 'non-commit'} {kappa:g}"
        asked = {"nfe": nfe, "commit": hard, "kappa": kappa, "repetition_penalty": 0.0}
        yield Cell("commit", str(nfe), column, asked | _by_score(sampler))


def _spread(sampler: Sampler) -> bool:
    return getattr(sampler.options, "scorer", "") == "spread"


def _by_score(sampler: Sampler) -> dict[str, str]:
    """Options that make thresholds apply if the checkpoint's scorer is spread."""
    return {"scorer": "confidence"} if _spread(sampler) else {}


def noise(grid: Grid, sampler: Sampler) -> Iterator[Cell]:
    """Renoising with fresh noise, as in the paper's sampler, against the first round's, as in its training."""
    for nfe, fresh in product(grid["nfe"], (True, False)):
        yield Cell("noise", str(nfe), "fresh" if fresh else "the same", {"nfe": nfe, "fresh_noise": fresh})


STUDIES: dict[str, Callable[[Grid, Sampler], Iterator[Cell]]] = {
    "frontier": frontier,
    "horizon": horizon,
    "iterate": iterate,
    "scorer": scorer,
    "commit": commit,
    "noise": noise,
}

NEEDS = {
    "horizon": ("sampler", "horizon"),
    "iterate": ("sampler", "nfe"),
    "scorer": ("scorer", "nfe"),
    "commit": ("commit", "kappa", "nfe"),
    "noise": ("fresh_noise", "nfe"),
}
"""The options that a study compares: it needs a method with them."""

TITLES = {
    "horizon": "autonomous field over horizons H against the map",
    "iterate": "iterating the map against renoise + remap, by NFE",
    "scorer": "what decides the commits, by NFE",
    "commit": "committing tokens against holding distributions, by NFE and kappa, without a repetition penalty",
    "noise": "fresh noise in every round against the same again, by NFE",
}
"""Titles of the studies' tables; the frontier has its own."""


def fitting_studies(sampler: Sampler, names: Sequence[str]) -> list[str]:
    """The requested studies, or for `all` those that the method supports."""
    lacking = {study: [n for n in NEEDS.get(study, ()) if not hasattr(sampler.options, n)] for study in STUDIES}
    if "all" in names:
        return [study for study in STUDIES if not lacking[study]]
    for name in names:
        if name not in STUDIES:
            raise UsageError(f"there is no study '{name}'{nearest(name, [*STUDIES, 'all'])}")
        if lacking[name]:
            raise UsageError(
                f"the study '{name}' compares values of {', '.join(lacking[name])}, which the sampler of "
                f"'{sampler.method.name}' does not have"
            )
    return list(dict.fromkeys(names))


def cells(sampler: Sampler, names: Sequence[str], asked: Grid) -> list[Cell]:
    """All cells of these studies, over the requested values."""
    grid = grid_for(sampler, asked)
    return [cell for name in fitting_studies(sampler, names) for cell in STUDIES[name](grid, sampler)]
