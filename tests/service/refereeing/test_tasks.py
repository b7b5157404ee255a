"""The referee on prepared text, word problems and rows of one's own: every task has its measure."""

import numpy as np
import pytest

from dbtm.checkpoint.loading import load
from dbtm.config import override
from dbtm.evals.judges.base import Scores
from dbtm.evals.referee.measures import Settings, measure
from dbtm.service.refereeing import RefereeRequest, planned, referee
from dbtm.train.loop import fit

SMALL = ("model.width=16", "model.depth=1", "model.heads=2", "train.batch=4", "train.precision=fp32",
         "train.compile=false", "train.graph=false")  # fmt: skip


class LengthJudge:
    """One nat for every character."""

    name = "length"

    def score(self, texts, progress=None):
        count = np.array([len(text) for text in texts])
        return Scores(count.astype(float), count, 0)

    def describe(self):
        return {"name": self.name}


def sampler_of(task, folder, **given):
    request = RefereeRequest(task=task, folder=folder, methods=("mdlm",), flops=1e9, changes=SMALL, n=6, **given)
    config = planned(request).entries["mdlm"].config
    return load(fit(override(config, ["train.steps=2", "optim.warmup=1", "train.device=cpu"]), folder), "cpu")


def test_text_has_perplexity_entropy_and_the_frontier(tmp_path, prepared):
    sampler = sampler_of("text", tmp_path, data=prepared["text-small"])
    row = measure(sampler, 2, Settings(n=6, judge=LengthJudge())).document()
    assert row["value"] == pytest.approx(np.e)
    assert row["most"] == 2
    assert len(row["points"]) == 7, "its own temperature and six others"
    assert row["entropy_low"] <= row["entropy"] <= row["entropy_high"]
    assert row["real_entropy"] > 0


def test_programs_are_run(tmp_path, prepared):
    sampler = sampler_of("gsm8k", tmp_path, data=prepared["gsm-small"])
    row = measure(sampler, 1, Settings(n=6)).document()
    assert row["n"] == 6
    assert row["value"] == 0, "two steps teach nothing"
    assert sum(row["failures"].values()) == 6


def test_rows_of_ones_own_with_a_prompt(tmp_path, prepared):
    request = RefereeRequest(
        task="own", folder=tmp_path, methods=("mdlm",), flops=1e8, seeds=1, nfe=(2,), n=30, jobs=0, device="cpu",
        data=prepared["own"], changes=(*SMALL, "task.prompt=2"),
    )  # fmt: skip
    (entry,) = referee(request).document["entries"]
    assert entry["status"] == "done", entry["reasons"]
    assert 0 <= entry["budgets"]["2"]["floor"] <= 1
    assert entry["budgets"]["2"]["used"] == pytest.approx(2, abs=0.2)
