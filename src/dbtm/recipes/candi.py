"""CANDI with the published settings; for Sudoku and TinyGSM from the S-FLM suite.

On OpenWebText the rates of misread tokens are those of the long run, .05 to .25; LM1B has the defaults. The published
OpenWebText runs take 200,000 steps. The learning rate is 1e-3 in the configuration and 3e-4 in the script; we use 3e-4.
Tokens are revealed with probability alpha; the released code's rate is alpha + (1 - alpha) / (V + 1).
"""

from dbtm.config import RunConfig
from dbtm.methods.candi import Config, Options
from dbtm.recipes import peers


def lm1b() -> RunConfig:
    return peers.lm1b(Config(), Options(nfe=128))


def owt() -> RunConfig:
    return peers.owt(Config(r_min=0.05), Options(nfe=128), steps=200_000)


def sudoku() -> RunConfig:
    return peers.sudoku(Config(), Options(nfe=128))


def tinygsm() -> RunConfig:
    return peers.tinygsm(Config(), Options(nfe=128))
