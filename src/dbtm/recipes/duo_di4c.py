"""Duo+Di4C, our reading: `--init` takes a run of the same set by Duo or Duo+DCD.

Only the absorbing code is public; these are its settings, with Duo's posterior for the teacher's step and all
positions active.
"""

from dbtm.config import RunConfig
from dbtm.methods.di4c import DuoDi4CConfig
from dbtm.methods.duo import Options
from dbtm.recipes import peers

METHOD = DuoDi4CConfig()
SAMPLE = Options(nfe=4)


def lm1b() -> RunConfig:
    return peers.with_optim(peers.lm1b(METHOD, SAMPLE, steps=20_000, batch=2, micro_batch=0), lr=3e-5)


def owt() -> RunConfig:
    return peers.with_optim(peers.owt(METHOD, SAMPLE, steps=50_000, batch=2, micro_batch=0), lr=3e-5)


def sudoku() -> RunConfig:
    return peers.with_optim(peers.sudoku(METHOD, SAMPLE, batch=16), lr=3e-5)


def tinygsm() -> RunConfig:
    return peers.with_optim(peers.tinygsm(METHOD, SAMPLE, steps=50_000, batch=2, micro_batch=0), lr=3e-5)
