"""`dbtm eval continuations`: what is given, what is cut, and what the judge counts."""

import json
import math

import numpy as np
import pytest
import torch

import dbtm
from dbtm.core.errors import UsageError
from dbtm.evals.continuations import halves_of
from dbtm.evals.judges import load_judge
from dbtm.train.loop import fit
from tests.checkpoint.test_loading import text_run
from tests.evals.judges import gguf_writer

TEXTS = ["too short to halve", *(f"A fox jumps over {i} lazy dogs in a far land" for i in range(6)), "word " * 400]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    home = tmp_path_factory.mktemp("continue")
    return fit(text_run(home / "data", length=48), home / "run")


@pytest.mark.parametrize("edges", [False, True])
def test_texts_are_halved_by_words(tmp_path, edges):
    task = text_run(tmp_path / "data", edges=edges, length=48).task
    halves = halves_of(task, TEXTS, 3)
    assert [each.first for each in halves] == [f"A fox jumps over {i}" for i in range(3)]
    assert [each.second for each in halves] == [" lazy dogs in a far land"] * 3
    for each in halves:
        start = int(each.clean_L.sum())
        assert each.clean_L[:start].all(), "nothing is given behind the first half"
        assert each.first in task.text(each.tokens_L[:start])
        assert each.cut(np.arange(48)).tolist() == list(range(start, start + len(task.encode(each.second))))


def test_the_numbers_are_those_of_a_recount(command, run, tmp_path):
    judge = gguf_writer.model_file(tmp_path / "tiny.gguf")
    texts, target = tmp_path / "texts.txt", tmp_path / "c.json"
    texts.write_text("\n".join(TEXTS))
    words = ["eval", "continuations", run, texts, "--nfe", 1, "--judge", judge, "--json", target, "--seed", 3]
    code, out, _ = command(*words)
    assert code == 0
    assert "second halves" in out
    whole = json.loads(target.read_text())
    sampler, own = dbtm.load(run), load_judge(str(judge), "cpu")
    halves = halves_of(sampler.task, TEXTS, 6)
    given = [np.stack([getattr(each, name) for each in halves]) for name in ("tokens_L", "clean_L")]
    drawn = sampler.sample(tokens=given[0], clean=given[1], nfe=1, seed=3).tokens
    cut = [row[~each.clean_L][: each.length] for each, row in zip(halves, drawn, strict=True)]
    sets = {"real": [each.second for each in halves], "samples": [sampler.task.text(row) for row in cut]}
    for row in whole["rows"]:
        second = sets.pop(row["kind"])
        total = count = 0.0
        for each, text in zip(halves, second, strict=True):  # token by token, those that the first half has not
            ids, before = own.encode([each.first + text, each.first])
            common = next((i for i, (a, b) in enumerate(zip(ids, before)) if a != b), len(before))
            nll = own.token_nll(torch.tensor([ids]))[0].tolist()
            total, count = total + sum(nll[common - 1 :]), count + len(ids) - common
        assert row["n"] == 6
        assert row["perplexity"] == pytest.approx(math.exp(total / count), rel=2e-3), "in bfloat16"
    assert not sets
    assert whole["rows"][1]["distinct"] == pytest.approx(np.mean([len(set(row)) / len(row) for row in cut]))
    assert whole["examples"][0]["given"] == halves[0].first


def test_bad_input_is_one_line(command, run, tmp_path):
    assert command("eval", "continuations", run, tmp_path / "none.txt")[0] == 2
    (tmp_path / "t.txt").write_text("a b c\n")
    assert command("eval", "continuations", run, tmp_path / "t.txt", "--judge", "none")[0] == 2
    with pytest.raises(UsageError, match="8 words or more"):
        halves_of(dbtm.load(run).task, TEXTS[:1], 3)
