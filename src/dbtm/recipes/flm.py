"""FLM with the published settings: caps of 50 on attention and 30 on the output, but none on Sudoku.

The paper trains for 1M steps, the released scripts for 1.5M. On TinyGSM runs with and without the caps are published.
"""

from dbtm.config import RunConfig
from dbtm.methods.flow.flm import Config, Options
from dbtm.recipes import peers


def lm1b() -> RunConfig:
    return peers.with_model(peers.lm1b(Config(), Options(nfe=1_024)), softcap=50.0)


def owt() -> RunConfig:
    return peers.with_model(peers.owt(Config(), Options(nfe=1_024)), softcap=50.0)


def sudoku() -> RunConfig:
    return peers.sudoku(Config(logit_cap=0.0), Options(nfe=128))


def tinygsm() -> RunConfig:
    return peers.with_model(peers.tinygsm(Config(), Options(nfe=1_024)), softcap=50.0)
