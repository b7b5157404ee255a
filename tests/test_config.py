import json
from dataclasses import dataclass, replace

import pytest

from dbtm import config
from dbtm.config import RunConfig, dumps, loads, override
from dbtm.core.errors import UsageError
from dbtm.recipes import RECIPES, recipe
from dbtm.tasks.base import Task, register


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_survives_json(name):
    run = recipe(name)
    assert loads(dumps(run)) == run
    assert run.recipe == name


def test_overrides_of_every_type():
    run = override(
        recipe("markov"),
        [
            "train.steps=500",
            "optim.lr=1e-3",
            "loss.c=.5",
            "path.context=false",
            "optim.name=adamw",
            "loss.semigroup_depths=[2,3]",
            "path.t_anchor=0.6",
            "optim.betas=[0.8,0.9]",
        ],
    )
    assert run.train.steps == 500
    assert run.optim.lr == 1e-3
    assert run.loss.c == 0.5
    assert run.path.context is False
    assert run.loss.semigroup_depths == (2, 3)
    assert run.path.t_anchor == 0.6
    assert override(run, ["path.t_anchor=null"]).path.t_anchor is None
    assert run.optim.betas == (0.8, 0.9)


def test_changing_the_task_carries_over_to_the_model():
    run = override(recipe("markov"), ["task.vocab=5", "task.length=12"])
    assert (run.model.vocab, run.model.length) == (5, 12)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("train.step=5", "unknown key 'train.step'; did you mean 'steps'"),
        ("trian.steps=5", "unknown section 'trian'.*did you mean 'train'"),
        ("train.steps=many", "train.steps='many' must be of type int"),
        ("train.steps=1.5", "train.steps=1.5 must be of type int"),
        ("train.steps=true", "must be of type int"),
        ("train.steps=-1", "train.steps=-1 must be positive"),
        ("optim.name=muom", "did you mean 'muon'"),
        ("model.width=65", "multiple of 2 x model.heads"),
        ("model.vocab=9", "do not fit the task 'markov'"),
        ("sample.scorer=quality", "needs the quality head"),
        ("optim.warmup=100000", "longer than the run"),
        ("distill.weight=1", "past the end of the run"),
        ("loss.boundary_fraction=0", "must be positive"),
        ("optim.betas=[0.9]", "must have 2 entries"),
        ("train.steps", "takes section.key=value"),
        ("recipe=x", "takes section.key=value"),
        ("task.name=own", "unknown key 'task.name'"),
        ("task.peek=1", "did you mean 'peak'"),
        ("path.t_anchor=2", "between 0 and 1"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(assignment, message):
    with pytest.raises(UsageError, match=message) as caught:
        override(recipe("markov"), [assignment])
    assert "\n" not in str(caught.value)


def test_distillation_knows_no_self_conditioning():
    settings = ["distill.weight=1", "distill.start=0"]
    assert override(recipe("markov"), settings).distill.weight == 1
    with pytest.raises(UsageError, match=r"model\.self_condition=true has no part in self-distillation"):
        override(recipe("markov"), [*settings, "model.self_condition=true"])


def test_strict_json():
    values = json.loads(dumps(recipe("simplex")))
    with pytest.raises(UsageError, match=r"unknown key 'model\.colour'"):
        config.from_dict(RunConfig, {**values, "model": {**values["model"], "colour": 1}})
    with pytest.raises(UsageError, match="missing key 'task'"):
        config.from_dict(RunConfig, {k: v for k, v in values.items() if k != "task"})
    with pytest.raises(UsageError, match="unknown task 'makrov'; did you mean 'markov'"):
        config.from_dict(RunConfig, {**values, "task": {"name": "makrov"}})
    with pytest.raises(UsageError, match="not JSON"):
        loads("{")


def test_unknown_recipe_names_the_nearest():
    with pytest.raises(UsageError, match="unknown recipe 'markof'; did you mean 'markov'"):
        recipe("markof")


def test_a_task_of_ones_own_is_one_small_class():
    @register
    @dataclass(frozen=True)
    class Constant(Task):
        name = "constant-for-test"
        vocab: int = 3
        length: int = 4

    run = recipe("markov")
    run = replace(run, task=Constant(), model=replace(run.model, vocab=3, length=4))
    assert loads(dumps(run)) == run
    assert override(run, ["task.length=6"]).model.length == 6
