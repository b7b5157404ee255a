"""DFM (PSD) with the published settings: 1M steps of the denoiser, then 200,000 (LM1B) or 100,000 of both terms.

No code is published, and tables only for LM1B and OpenWebText. Open points follow FMLM, the EMA follows the other
methods, and Sudoku and TinyGSM split their steps four to one. The network differs as in `peers`.
"""

from typing import Any

from dbtm.config import RunConfig
from dbtm.core.registry import METHODS
from dbtm.recipes import peers


def lm1b(method: str = "dfm") -> RunConfig:
    return peers.lm1b(*_sections(method, start=1_000_000), steps=1_200_000)


def owt(method: str = "dfm") -> RunConfig:
    return peers.owt(*_sections(method, start=1_000_000), steps=1_100_000)


def sudoku(method: str = "dfm") -> RunConfig:
    return peers.sudoku(*_sections(method, start=16_000))


def tinygsm(method: str = "dfm") -> RunConfig:
    return peers.tinygsm(*_sections(method, start=200_000))


def _sections(method: str, start: int) -> tuple[Any, Any]:
    cls = METHODS.get(method)
    return cls.Config(start=start, map_c=1e-6), cls.Options(nfe=4)
