"""Duo+Di4C, our reading: `--init` takes a run of the same set by Duo or Duo+DCD.

Only the absorbing code is public; these are its settings, with Duo's posterior for the teacher's step and with all
positions active.
"""

from dbtm.config import RunConfig
from dbtm.methods.di4c import DuoDi4CConfig
from dbtm.methods.duo import Options
from dbtm.recipes import mdlm_di4c

METHOD = DuoDi4CConfig()
SAMPLE = Options(nfe=4)


def lm1b() -> RunConfig:
    return mdlm_di4c.lm1b(METHOD, SAMPLE)


def owt() -> RunConfig:
    return mdlm_di4c.owt(METHOD, SAMPLE)


def sudoku() -> RunConfig:
    return mdlm_di4c.sudoku(METHOD, SAMPLE)


def tinygsm() -> RunConfig:
    return mdlm_di4c.tinygsm(METHOD, SAMPLE)
