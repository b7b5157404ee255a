"""Distillation: the schedule of rounds, runs resumed in the middle of a round, and teachers that do not fit."""

import pytest
import torch
from safetensors.torch import load_file

from dbtm.core.errors import UsageError
from dbtm.core.registry import METHODS
from dbtm.methods.rounds import Rounds, RoundsConfig
from dbtm.service.training import TrainRequest, train
from tests.service.conftest import TINY

IN_ROUNDS = ["mdlm-sdtt", "duo-dcd"]
STUDENTS = dict.fromkeys(IN_ROUNDS, ("method.rounds=3", "method.round_steps=2"))
STUDENTS |= dict.fromkeys(("mdlm-di4c", "duo-di4c"), ("method.latents=3", "method.small_share=0.5"))


def test_the_schedule():
    rounds = Rounds(3, 4)
    assert [rounds.number(step) for step in (0, 3, 4, 11, 12, 50)] == [0, 0, 1, 2, 2, 2]
    assert [done for done in range(20) if rounds.ends(done)] == [4, 8]
    assert Rounds.of(RoundsConfig(rounds=4), 103) == Rounds(4, 25)
    assert Rounds.of(RoundsConfig(rounds=4, round_steps=7), 103) == Rounds(4, 7)


def run(method, out, *changes, **more):
    return train(TrainRequest("markov", method, (*TINY, "train.checkpoint_every=100", *changes), out=out, **more))


@pytest.fixture(scope="module")
def teachers(tmp_path_factory, few_samples_measured):
    folder = tmp_path_factory.mktemp("teachers")
    return {name: run(name, folder / name) for name in {METHODS.get(method).teacher for method in STUDENTS}}


@pytest.mark.parametrize("method", STUDENTS)
def test_a_run_resumes_in_the_middle_of_a_round(method, teachers, tmp_path):
    """Five steps in one run, or three and two: the same weights, averages, teacher and optimizer, bit for bit."""
    init = teachers[METHODS.get(method).teacher]
    whole = run(method, tmp_path / "whole", *STUDENTS[method], "train.steps=5", init=init)
    run(method, tmp_path / "parts", *STUDENTS[method], "train.steps=3", init=init)
    parts = train(TrainRequest("markov", method, ("train.steps=5",), out=tmp_path / "parts", resume=True))
    for name in ("model", "ema", "teacher", "optim"):
        one, two = load_file(whole / f"{name}.safetensors"), load_file(parts / f"{name}.safetensors")
        assert one.keys() == two.keys()
        assert all(torch.equal(one[key], two[key]) for key in one), name
    if method not in IN_ROUNDS:
        return
    model, teacher = (load_file(whole / f"{name}.safetensors") for name in ("model", "teacher"))
    start = load_file(init / "ema.safetensors")
    assert any(not torch.equal(teacher[key], start[key]) for key in start)  # replaced after steps 2 and 4
    assert any(not torch.equal(teacher[key], model[key]) for key in start)  # and the student has changed since


@pytest.mark.parametrize("method", STUDENTS)
def test_a_missing_or_wrong_teacher_is_one_line(method, teachers, tmp_path):
    with pytest.raises(UsageError, match="needs a trained teacher") as error:
        run(method, tmp_path / "none")
    assert "\n" not in str(error.value)
    right = METHODS.get(method).teacher
    wrong = next(name for name in teachers if name != right)
    with pytest.raises(UsageError, match=f"needs a teacher trained by '{right}'.*: the checkpoint is of '{wrong}'"):
        run(method, tmp_path / "wrong", init=teachers[wrong])
    with pytest.raises(UsageError, match=r"has another model\.width"):
        run(method, tmp_path / "size", "model.width=32", init=teachers[right])
    assert not list(tmp_path.rglob("step-*"))


@pytest.mark.parametrize("method", IN_ROUNDS)
def test_a_run_by_the_clock_needs_rounds_of_a_known_length(method, teachers, tmp_path):
    request = TrainRequest("markov", method, tuple(c for c in TINY if "steps" not in c), out=tmp_path, minutes=0.01)
    from dataclasses import replace

    with pytest.raises(UsageError, match=r"set method\.round_steps"):
        train(replace(request, init=teachers[METHODS.get(method).teacher]))
