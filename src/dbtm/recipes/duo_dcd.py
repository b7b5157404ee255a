"""Duo+DCD with the published settings: `--init` takes a run of the same set by Duo.

Five rounds of 10,000 steps of 128, EMA .999. We start from the averaged weights of the Duo run, the released code from
the live ones; our teacher has no dropout, the released one keeps it. Sudoku and TinyGSM are not published: they use the
settings of text, with noise levels from the share of clean tokens.
"""

from typing import Any

from dbtm.config import RunConfig
from dbtm.methods.dcd import DCDConfig
from dbtm.methods.duo import Options
from dbtm.recipes import peers

TEXT = DCDConfig(rounds=5, round_steps=10_000, gamma_min=-4.0, gamma_max=-1.0)
REASONING = DCDConfig(rounds=5, round_steps=10_000)
SAMPLE = Options(nfe=8, tail="argmax")
LENGTH: dict[str, Any] = {"steps": 50_000, "batch": 128}


def lm1b() -> RunConfig:
    return _slowly(peers.lm1b(TEXT, SAMPLE, **LENGTH))


def owt() -> RunConfig:
    return _slowly(peers.owt(TEXT, SAMPLE, **LENGTH))


def sudoku() -> RunConfig:
    return _slowly(peers.sudoku(REASONING, SAMPLE, **LENGTH))


def tinygsm() -> RunConfig:
    return _slowly(peers.tinygsm(REASONING, SAMPLE, **LENGTH))


def _slowly(run: RunConfig) -> RunConfig:
    return peers.with_optim(run, lr=6e-5, warmup=500, ema=0.999)
