"""Recipes: functions that return a complete RunConfig, one module a task."""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dbtm.core.errors import UsageError, nearest

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
    "sudoku": Entry("sudoku", "sudoku", "9 x 9 Sudoku, ours: looped depth, Muon, symmetries; for one GPU"),
    "sudoku-hard": Entry("sudoku", "sudoku_hard", "9 x 9 Sudoku, hardest puzzles: own mistakes, random loops; one GPU"),
    "sudoku-hard-2": Entry("sudoku", "sudoku_hard_2", "second stage of sudoku-hard (--init RUN)"),
    "sudoku-paper": Entry("sudoku", "sudoku_paper", "9 x 9 Sudoku, the paper's table"),
    "maze": Entry("reasoning", "maze", "shortest paths in 30 x 30 mazes, of more than 110 steps; for one GPU"),
    "maze-mini": Entry("reasoning", "maze_mini", "4 x 4 mazes: for CPU cores"),
    "colouring": Entry("reasoning", "colouring", "graph colouring, 30 nodes, 3 colours; for one GPU"),
    "colouring-mini": Entry("reasoning", "colouring_mini", "graph colouring, 5 nodes: for CPU cores"),
    "sat": Entry("reasoning", "sat", "3-SAT at the threshold, 50 variables; for one GPU"),
    "sat-mini": Entry("reasoning", "sat_mini", "3-SAT, 4 variables: for CPU cores"),
    "text": Entry("text", "text", "your text (dbtm data text), ours: V = 8192, L = 128; for one GPU"),
    "text-ril": Entry("text", "text_ril", "the same with refinement in the loop, from partly clean text on"),
    "text-small": Entry("text", "text_small", "your text, V = 4096, at most 8M parameters"),
    "text-tiny": Entry("text", "text_tiny", "your text, V = 4096, L = 64, two million parameters: for CPU cores"),
    "text-distill": Entry("text", "text_distill", "second stage of text-ril (--init RUN): better at one evaluation"),
    "text-small-distill": Entry("text", "text_small_distill", "second stage of text-small (--init RUN)"),
    "text-base": Entry("text_base", "text_base", "your text, 30M parameters, hours of one GPU; not run yet"),
    "text-base-2": Entry("text_base", "text_base_2", "second stage of text-base (--init RUN): four rounds in one"),
    "lm1b": Entry("text", "lm1b", "LM1B (dbtm data lm1b), the paper's table"),
    "lm1b-ril": Entry(
        "text", "lm1b_ril", "LM1B with refinement in the loop, the paper's table; tried small (docs/text-results.md)"
    ),
    "lm1b-ril-nc": Entry("text", "lm1b_ril_nc", "the same with rollouts that hold distributions (non-commit)"),
    "owt": Entry("text", "owt", "OpenWebText (dbtm data owt), the paper's table"),
    "owt-ril": Entry("text", "owt_ril", "OpenWebText with refinement in the loop; tried small (docs/text-results.md)"),
    "text-delta": Entry("delta", "text_delta", "your text with the linear-time backbone: for long sequences"),
    "owt-delta": Entry("delta", "owt_delta", "OpenWebText with the linear-time backbone, the paper's (lin) rows"),
    "owt-delta-ril": Entry("delta", "owt_delta_ril", "the same with refinement in the loop"),
    "gsm-small": Entry("gsm8k", "gsm_small", "word problems as programs (dbtm data gsm8k), ours: for one GPU"),
    "tinygsm": Entry("gsm8k", "tinygsm", "TinyGSM (dbtm data gsm8k), the paper's table"),
    "own": Entry("own", "own", "your own rows: .npy, .csv, .jsonl, .fasta or .txt"),
}

PEERS = {
    "ar": "autoregressive model",
    "mdlm": "MDLM, masked diffusion",
    "flm": "FLM, a flow to one-hots",
    "duo": "Duo, uniform-token diffusion",
    "fmlm": "FMLM, FLM's flow map (--init RUN)",
    "fmlm-plus": "FMLM+, a flow map with posterior refinement",
    "cfm": "CFM, a flow map by its equation in time",
    "dfm": "DFM (PSD), a flow map by two steps",
    "dfm-esd": "DFM (ESD), a flow map by its derivative",
    "s-flm": "S-FLM, a flow on the sphere",
    "candi": "CANDI, masks and Gaussian noise",
    "mdlm-sdtt": "MDLM+SDTT, distilled through time (--init RUN)",
    "duo-dcd": "Duo+DCD, consistency distillation (--init RUN)",
    "mdlm-di4c": "MDLM+Di4C, a mixture over a latent (--init RUN)",
    "duo-di4c": "Duo+Di4C, a mixture over a latent (--init RUN)",
}
"""Other methods, each with a module of recipes: the published settings on the sets below."""

SETS = {"lm1b": "LM1B", "owt": "OpenWebText", "sudoku": "Sudoku 9 x 9", "tinygsm": "TinyGSM"}

OURS = {
    ("fmlm-plus", "lm1b"),
    ("candi", "lm1b"),
    ("duo-di4c", "lm1b"),
    ("duo-di4c", "owt"),
    *(
        (method, data)
        for method in ("fmlm", "dfm", "dfm-esd", "mdlm-sdtt", "duo-dcd", "mdlm-di4c", "duo-di4c")
        for data in ("sudoku", "tinygsm")
    ),
}
"""Recipes for which nothing is published: the method's settings of other sets."""

RECIPES |= {
    f"{data}-{method}": Entry(
        method.replace("-", "_"),
        data,
        f"{title}: {words}, {'our reading' if (method, data) in OURS else 'as published'}",
    )
    for method, words in PEERS.items()
    for data, title in SETS.items()
}

PAPER = {
    "lm1b": "lm1b",
    "owt": "owt",
    "tinygsm": "gsm8k",
}
"""Recipes for one vocabulary and length, by the first part of their names, and the command that makes their data."""


def recipe(name: str) -> "RunConfig":
    """The complete configuration of a recipe."""
    if name not in RECIPES:
        raise UsageError(f"unknown recipe '{name}'{nearest(name, RECIPES)}")
    entry = RECIPES[name]
    config: RunConfig = getattr(importlib.import_module(f"dbtm.recipes.{entry.module}"), entry.function)()
    return config
