"""DFM (ESD): as DFM (PSD), with the Eulerian target."""

from dbtm.config import RunConfig
from dbtm.recipes import dfm


def lm1b() -> RunConfig:
    return dfm.lm1b("dfm-esd")


def owt() -> RunConfig:
    return dfm.owt("dfm-esd")


def sudoku() -> RunConfig:
    return dfm.sudoku("dfm-esd")


def tinygsm() -> RunConfig:
    return dfm.tinygsm("dfm-esd")
