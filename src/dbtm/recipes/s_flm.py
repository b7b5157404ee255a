"""S-FLM with the published settings: the truncated signal with its adaptive clock.

It is not known which variant gave the published Sudoku row. The trunk is the DiT of the other methods without an
embedding layer; the weight-normalised trunk, also published for TinyGSM, is left out.
"""

from dbtm.config import RunConfig
from dbtm.methods.sflm import Config, Options
from dbtm.recipes import peers


def lm1b() -> RunConfig:
    return peers.lm1b(Config(), Options(nfe=128))


def owt() -> RunConfig:
    return peers.owt(Config(), Options(nfe=1_024))


def sudoku() -> RunConfig:
    """The suite's default is 180 evaluations."""
    return peers.sudoku(Config(), Options(nfe=180))


def tinygsm() -> RunConfig:
    """The suite's default is 32 evaluations."""
    return peers.tinygsm(Config(), Options(nfe=32))
