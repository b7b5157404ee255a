"""Recipes: functions that return a complete RunConfig, one module a task."""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbtm.errors import UsageError, nearest

if TYPE_CHECKING:
    from dbtm.config import RunConfig


@dataclass(frozen=True)
class Entry:
    """Where a recipe is, and what it is for."""

    module: str
    function: str
    summary: str


RECIPES = {
    "simplex": Entry("toy", "simplex", "one position on the 2-simplex, p = (.5, .3, .2): under a minute on a CPU"),
    "markov": Entry(
        "toy", "markov", "a Markov chain with known joint distribution, V = 8, L = 8: two minutes on a CPU"
    ),
    "sudoku-mini": Entry("sudoku", "sudoku_mini", "4 x 4 Sudoku: minutes on two CPU cores"),
    "sudoku": Entry("sudoku", "sudoku", "9 x 9 Sudoku, ours: looped depth, Muon, symmetries; one GPU, half an hour"),
    "sudoku-paper": Entry("sudoku", "sudoku_paper", "9 x 9 Sudoku, the paper's table to the letter"),
    "own": Entry("own", "own", "your own tokens: --data tokens.npy --vocab V --length L"),
}


def recipe(name: str) -> "RunConfig":
    """The complete configuration of a recipe."""
    if name not in RECIPES:
        raise UsageError(f"unknown recipe '{name}'{nearest(name, RECIPES)}")
    entry = RECIPES[name]
    return getattr(importlib.import_module(f"dbtm.recipes.{entry.module}"), entry.function)()
