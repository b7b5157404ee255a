"""Autoregressive models with the published settings. The trunk is causal; its adaLN reads a constant."""

from dbtm.config import RunConfig
from dbtm.methods.ar import Config, Options
from dbtm.recipes import peers


def lm1b() -> RunConfig:
    return peers.lm1b(Config(), Options())


def owt() -> RunConfig:
    return peers.owt(Config(), Options())


def sudoku() -> RunConfig:
    """Greedy decoding, the better of the two published rows."""
    return peers.sudoku(Config(), Options(temperature=0.0))


def tinygsm() -> RunConfig:
    """Greedy decoding, the better of the two published rows."""
    return peers.tinygsm(Config(), Options(temperature=0.0))
