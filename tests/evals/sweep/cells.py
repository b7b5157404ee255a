"""What the tests of a sweep share: a plan of cells, and rows of numbers."""

from dbtm.config import override
from dbtm.evals.drawing import resolve
from dbtm.evals.sweep import studies
from dbtm.evals.sweep.folder import Planned, identity
from tests.evals.tiny import letters, random_sampler

GRID = {
    "nfe": (1, 4),
    "kappa": (0.5, 0.9),
    "temperature": (0.0, 1.0),
    "sigma": (1.25, 2.0),
    "repetition_penalty": (0.0,),
}
ORIGIN = {"sha256": "abc", "seed": 3, "checkpoint": "runs/x"}


def sampler(*changes):
    return random_sampler(override(letters(), list(changes)))


def planned(*names, own=None, grid=GRID):
    own = own or sampler()
    return [Planned(c.study, c.row, c.column, resolve(own, c.asked)) for c in studies.cells(own, names, grid)]


def row(settings, perplexity, entropy, kind="sample", judge="j"):
    values = dict.fromkeys(("perplexity_low", "perplexity_high", "entropy_low", "entropy_high", "n"), 1)
    return {"kind": kind, "settings": settings, "judge": judge, "perplexity": perplexity, "entropy": entropy, **values}


def rows_of(*rows):
    return {identity(r["kind"], r["settings"]): r for r in rows}


def settings(nfe, **more):
    return {"sampler": "refine", "nfe": nfe, **more}
