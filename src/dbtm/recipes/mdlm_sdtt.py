"""MDLM+SDTT with the published settings: `--init` takes a run of the same set by MDLM.

Eight rounds of 10,000 steps of 128, to 8 steps of the teacher in one evaluation (published students: 7 rounds). The
learning rate is that of the released configuration; two other papers report 6e-5. The teacher is stepped at t and
t - Delta; `method.released_times=true` uses the times of the released code. Sudoku and TinyGSM are not published: they
use the settings of text.
"""

from typing import Any

from dbtm.config import RunConfig
from dbtm.methods.mdlm import Options
from dbtm.methods.sdtt import SDTTConfig
from dbtm.recipes import peers

ROUNDS = SDTTConfig(rounds=8, round_steps=10_000)
SAMPLE = Options(nfe=8, tail="argmax")
LENGTH: dict[str, Any] = {"steps": 80_000, "batch": 128}


def lm1b() -> RunConfig:
    return peers.lm1b(ROUNDS, SAMPLE, **LENGTH)


def owt() -> RunConfig:
    return peers.owt(ROUNDS, SAMPLE, **LENGTH)


def sudoku() -> RunConfig:
    return peers.sudoku(ROUNDS, SAMPLE, **LENGTH)


def tinygsm() -> RunConfig:
    return peers.tinygsm(ROUNDS, SAMPLE, **LENGTH)
