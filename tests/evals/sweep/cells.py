"""What the tests of a sweep share: a plan of cells, and rows of numbers."""

from dbtm.config import SampleConfig
from dbtm.evals.draw import resolve
from dbtm.evals.sweep import studies
from dbtm.evals.sweep.folder import Planned, identity
from dbtm.sampling import Sampler
from tests.conftest import random_map

GRID = studies.Grid(nfe=(1, 4), kappa=(0.5, 0.9), temperature=(0.0, 1.0), sigma=(None, 2.0), repetition_penalty=(0.0,))
ORIGIN = {"sha256": "abc", "seed": 3, "checkpoint": "runs/x"}


def sampler(**changes):
    return Sampler(random_map(**changes), SampleConfig(sigma=1.0))


def planned(*names, own=None):
    own = own or sampler()
    return [
        Planned(c.study, c.row, c.column, resolve(own, c.asked))
        for name in names
        for c in studies.STUDIES[name](GRID, own)
    ]


def row(settings, perplexity, entropy, kind="sample", judge="j"):
    values = dict.fromkeys(("perplexity_low", "perplexity_high", "entropy_low", "entropy_high", "n"), 1)
    return {"kind": kind, "settings": settings, "judge": judge, "perplexity": perplexity, "entropy": entropy, **values}


def rows_of(*found):
    return {identity(r["kind"], r["settings"]): r for r in found}


def settings(nfe, **more):
    return {"sampler": "refine", "nfe": nfe, **more}
