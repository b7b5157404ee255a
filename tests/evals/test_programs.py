"""Scoring programs: given ones, and those of a sampler whose answers are known."""

import random
from types import SimpleNamespace

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.evals.programs import FAILURES, given_programs, gsm8k_task, solve
from dbtm.methods.dbtm import Options
from dbtm.sandbox import Sandbox
from dbtm.tasks.gsm8k.data import Example
from dbtm.tasks.gsm8k.layout import train_tokenizer
from dbtm.tasks.gsm8k.synthetic import held_out
from dbtm.tasks.gsm8k.task import Gsm8k
from dbtm.tasks.toy import Markov

ENDS = {
    "wrong": "def simple_math_problem():\n    return 17",
    "parse": "def simple_math_problem(:",
    "refused": "import os",
    "missing": "x = 18",
    "crash": "def simple_math_problem():\n    return 1 / 0",
    "memory": "def simple_math_problem():\n    return len('x' * 10 ** 10)",
    "output": "def simple_math_problem():\n    while True:\n        print('18' * 1000)",
    "type": "def simple_math_problem():\n    print('18, correct')",
    "nonfinite": "def simple_math_problem():\n    return float('inf')",
}


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(workers=2) as sandbox:
        yield sandbox


def test_gold_programs_score_in_full_and_shuffled_answers_by_chance(sandbox):
    examples = held_out(60)
    row, results = given_programs(examples, sandbox)
    assert (row.correct, row.total, sum(row.failures.values())) == (60, 60, 0)
    assert [result.outcome.value for result in results] == [example.answer for example in examples]
    answers = [example.answer for example in examples]
    random.Random(0).shuffle(answers)
    chance = sum(a == b for a, b in zip(answers, (example.answer for example in examples)))
    shuffled = [example._replace(answer=answer) for example, answer in zip(examples, answers)]
    row, _ = given_programs(shuffled, sandbox)
    assert row.correct == chance < 10
    assert row.failures["wrong"] == 60 - chance


def test_failures_are_counted_by_kind(sandbox):
    right = "def simple_math_problem():\n    return 18"
    examples = [Example("q", code, 18.0) for code in [*ENDS.values(), right, ENDS["wrong"]]]
    seen: list[int] = []
    row, results = given_programs(examples, sandbox, seen.append)
    assert row.failures == {kind: (2 if kind == "wrong" else 1 if kind in ENDS else 0) for kind in FAILURES}
    assert (row.correct, row.total) == (1, len(ENDS) + 2)
    assert [result.verdict for result in results] == [*ENDS, "correct", "wrong"]
    assert seen == list(range(1, len(examples) + 1))
    whole = row.document()
    assert whole["rate"] == 1 / row.total
    assert 0 < whole["low"] < whole["rate"] < whole["high"] < 1
    assert "nfe" not in whole
    line = results[list(ENDS).index("type")].document()
    assert (line["verdict"], line["output"], line["value"]) == ("type", "18, correct\n", None)


class Parrot:
    """A sampler that fills every row with one program, whatever is asked."""

    def __init__(self, task: Gsm8k, code: str):
        self.task, self.code, self.asked = task, code, []

    def with_options(self, **options):
        return Options().changed("dbtm", options)

    def sample(self, *, tokens, clean, seed, progress=None, cancelled=None, **options):
        self.asked.append((len(tokens), seed, options))
        out = tokens.copy()
        ids = self.task.layout.tokenizer.encode(self.code, add_special_tokens=False).ids
        for row, given in zip(out, clean):
            start = int(given.sum())
            row[start : start + len(ids) + 1] = [*ids, self.task.layout.end]
        return SimpleNamespace(tokens=out, nfe=np.full(len(out), options["nfe"]))


def test_a_models_programs_are_read_from_its_rows(sandbox, tmp_path):
    train_tokenizer(["How many are there? def simple_math_problem(): return"], 400).save(str(tmp_path / "t.json"))
    task = Gsm8k(tokenizer=str(tmp_path / "t.json"), vocab=gsm8k_size(tmp_path / "t.json"), length=120)
    code = "def simple_math_problem():\n    return 18"
    parrot = Parrot(task, code)
    examples = [Example("How many?", "", 18.0), Example("many " * 300, "", 18.0), Example("How much?", "", 3.0)]
    row, results = solve(parrot, examples, sandbox, seed=5, nfe=4, kappa=0.5)
    assert parrot.asked == [(2, 5, {"nfe": 4, "kappa": 0.5})]
    assert [result.verdict for result in results] == ["correct", "long", "wrong"]
    assert [result.program for result in results] == [code, "", code]
    assert (row.correct, row.total, row.mean_nfe) == (1, 3, 4.0)
    assert (row.settings["nfe"], row.settings["kappa"], row.settings["scorer"]) == (4, 0.5, "confidence")
    assert row.document().keys() >= {"nfe", "kappa", "scorer", "mean_nfe", "rate", "programs_sampled_per_second"}
    assert "settings" not in row.document()
    assert row.failures == {kind: int(kind in ("long", "wrong")) for kind in FAILURES}


def gsm8k_size(path) -> int:
    from dbtm.tasks.text.tokenizer import load, size

    return size(load(str(path)))


def test_other_tasks_are_refused():
    with pytest.raises(UsageError, match="trained on 'markov'"):
        gsm8k_task(Markov())
