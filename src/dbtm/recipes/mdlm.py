"""MDLM with the published settings.

The mask is an extra id after the task's tokens, also on LM1B, where the published runs use BERT's mask token. The
published budgets of k steps use one more evaluation for a clean-up; ours use k, the last of them to zero noise.
"""

from dbtm.config import RunConfig
from dbtm.methods.mdlm import Config, Options
from dbtm.recipes import peers


def lm1b() -> RunConfig:
    return peers.lm1b(Config(), Options(nfe=128))


def owt() -> RunConfig:
    return peers.owt(Config(), Options(nfe=1_024))


def sudoku() -> RunConfig:
    return peers.sudoku(Config(), Options(nfe=128))


def tinygsm() -> RunConfig:
    return peers.tinygsm(Config(), Options(nfe=1_024))
