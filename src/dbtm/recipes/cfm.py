"""CFM with the published settings: AdamW 1e-4 without warm-up, clipping or EMA on LM1B.

The released OpenWebText files (no published row) clip, decay weights and warm up, for an unknown time: 2,500 steps
here. Sudoku and TinyGSM are not published: we use LM1B's optimizer and the length of the other runs. Besides the points
of `peers`, the network differs from the released one in its input: theirs, x / sqrt(V), goes through a matrix with a
bias, ours through the embedding without one.
"""

from typing import Any

from dbtm.config import RunConfig
from dbtm.methods.flow.cfm import Config, Options
from dbtm.recipes import peers

PLAIN: dict[str, Any] = {"lr": 1e-4, "warmup": 0, "clip": 0.0, "ema": 0.0}


def lm1b() -> RunConfig:
    return peers.with_optim(peers.lm1b(Config(), Options(nfe=4), steps=250_000, batch=400, micro_batch=100), **PLAIN)


def owt() -> RunConfig:
    run = peers.owt(Config(), Options(nfe=4), steps=250_000, batch=256)
    return peers.with_optim(run, lr=1e-4, weight_decay=0.1, ema=0.0)


def sudoku() -> RunConfig:
    return peers.with_optim(peers.sudoku(Config(), Options(nfe=4)), **PLAIN)


def tinygsm() -> RunConfig:
    return peers.with_optim(peers.tinygsm(Config(), Options(nfe=4)), **PLAIN)
