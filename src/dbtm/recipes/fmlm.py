"""FMLM with the published settings: a student of FLM, caps of 50 on attention and 30 on the output.

`--init` takes a run of the same set by FLM. 100,000 steps are the paper's; the public script has 1M, and the released
LM1B weights are of step 550,000 of a student that started at random with beta2 = .999 (method.student=random). Sudoku
and TinyGSM are not published: they use the settings of text and the length of FLM's runs; the teacher of Sudoku has no
caps, so the student has none.
"""

from dbtm.config import RunConfig
from dbtm.methods.flow.fmlm import Config, Options
from dbtm.recipes import peers


def lm1b() -> RunConfig:
    return _text(peers.lm1b(Config(), Options(nfe=4), steps=100_000))


def owt() -> RunConfig:
    return _text(peers.owt(Config(), Options(nfe=4), steps=100_000, batch=128))


def sudoku() -> RunConfig:
    return peers.with_optim(peers.sudoku(Config(logit_cap=0.0), Options(nfe=16)), betas=(0.9, 0.95))


def tinygsm() -> RunConfig:
    return _text(peers.tinygsm(Config(), Options(nfe=32)))


def _text(run: RunConfig) -> RunConfig:
    return peers.with_model(peers.with_optim(run, betas=(0.9, 0.95)), softcap=50.0)
