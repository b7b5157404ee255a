"""Duo with the published settings: a curriculum over the first half of the run for text, none for reasoning.

The curriculum's noise levels are the published ones; on other vocabularies they follow from the share of clean tokens
at both ends. Its temperature is constant, as in the published scripts. Softened one-hots consist of the clean token and
the 8 tokens with the largest noise; the first published version sums over the whole vocabulary.
"""

from dbtm.config import RunConfig
from dbtm.methods.duo import Config, Options
from dbtm.recipes import peers


def lm1b() -> RunConfig:
    return peers.lm1b(Config(curriculum=500_000, gamma_min=-3.5, gamma_max=-1.75), Options(nfe=128))


def owt() -> RunConfig:
    return peers.owt(Config(curriculum=500_000, gamma_min=-3.55, gamma_max=-1.85), Options(nfe=1_024))


def sudoku() -> RunConfig:
    return peers.sudoku(Config(), Options(nfe=128))


def tinygsm() -> RunConfig:
    return peers.tinygsm(Config(), Options(nfe=1_024))
