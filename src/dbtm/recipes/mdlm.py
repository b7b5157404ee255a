"""MDLM with the published settings.

The mask is an id behind the task's tokens, on LM1B too, where the published runs use BERT's own inside the vocabulary.
The published budgets of k steps take one evaluation more for a clean-up; ours take k, the last of them to no noise.
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
