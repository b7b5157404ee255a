"""MDLM+Di4C with the published settings: `--init` takes a run of the same set by MDLM or, as published, MDLM+SDTT.

16 latents per sequence and batches of 2: at equal compute it sees a sixteenth of SDTT's sequences. The
step counts of text, 20,000 and 50,000, are a third party's. Sudoku and TinyGSM are not published.
"""

from dbtm.config import MethodConfig, RunConfig, SampleConfig
from dbtm.methods.di4c import MDLMDi4CConfig
from dbtm.methods.mdlm import Options
from dbtm.recipes import peers

METHOD = MDLMDi4CConfig()
SAMPLE = Options(nfe=4)


def lm1b(method: MethodConfig = METHOD, sample: SampleConfig = SAMPLE) -> RunConfig:
    return peers.with_optim(peers.lm1b(method, sample, steps=20_000, batch=2, micro_batch=0), lr=3e-5)


def owt(method: MethodConfig = METHOD, sample: SampleConfig = SAMPLE) -> RunConfig:
    return peers.with_optim(peers.owt(method, sample, steps=50_000, batch=2, micro_batch=0), lr=3e-5)


def sudoku(method: MethodConfig = METHOD, sample: SampleConfig = SAMPLE) -> RunConfig:
    return peers.with_optim(peers.sudoku(method, sample, batch=16), lr=3e-5)


def tinygsm(method: MethodConfig = METHOD, sample: SampleConfig = SAMPLE) -> RunConfig:
    return peers.with_optim(peers.tinygsm(method, sample, steps=50_000, batch=2, micro_batch=0), lr=3e-5)
