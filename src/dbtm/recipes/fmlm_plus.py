"""FMLM+ with the published settings: one stage, caps of 50 on attention and 30 on the output.

LM1B is not published: it uses the settings of OpenWebText. The released script samples OpenWebText by 4 rounds of 32
substeps, the paper's rows have one substep per round.
"""

from dbtm.config import RunConfig
from dbtm.methods.flow.fmlm_plus import Config, Options
from dbtm.recipes import peers


def lm1b() -> RunConfig:
    return peers.with_model(peers.lm1b(Config(), Options(nfe=4)), softcap=50.0)


def owt() -> RunConfig:
    return peers.with_model(peers.owt(Config(), Options(nfe=4)), softcap=50.0)


def sudoku() -> RunConfig:
    return peers.with_model(peers.sudoku(Config(), Options(nfe=4)), softcap=50.0)


def tinygsm() -> RunConfig:
    return peers.with_model(peers.tinygsm(Config(), Options(nfe=32)), softcap=50.0)
