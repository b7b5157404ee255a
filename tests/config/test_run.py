"""A run's configuration: as JSON and back, changed by dotted names, and another method's settings in the same place."""

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from dbtm.config import MethodConfig, RunConfig, SampleConfig, dumps, from_dict, loads, override, to_dict
from dbtm.config.run import SECTIONS
from dbtm.core.errors import UsageError
from dbtm.core.registry import METHODS, TASKS
from dbtm.core.settings import changed_keys
from dbtm.methods import ar, mdlm, register_method
from dbtm.methods.base import Method, method_of
from dbtm.recipes import RECIPES, recipe
from dbtm.tasks.base import Task, register


@pytest.mark.parametrize("method", ["dbtm", "ar", "mdlm"])
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_survives_json(name, method):
    run = recipe(name).by(method)
    assert loads(dumps(run)) == run
    assert run.recipe == name
    assert run.method_name == method


def test_overrides_of_every_type():
    run = override(
        recipe("markov"),
        [
            "train.steps=500",
            "optim.lr=1e-3",
            "method.loss.c=.5",
            "method.path.context=false",
            "optim.name=adamw",
            "method.loss.semigroup_depths=[2,3]",
            "method.path.t_anchor=0.6",
            "optim.betas=[0.8,0.9]",
            "sample.scorer=spread",
            "sample.kappa_by_nfe=[[1,0.5],[4,0.9]]",
            "train.tensorboard=TRUE",
        ],
    )
    assert run.train.steps == 500
    assert run.optim.lr == 1e-3
    assert run.method.loss.c == 0.5
    assert run.method.path.context is False
    assert run.optim.name == "adamw"
    assert run.method.loss.semigroup_depths == (2, 3)
    assert run.method.path.t_anchor == 0.6
    assert override(run, ["method.path.t_anchor=null"]).method.path.t_anchor is None
    assert run.optim.betas == (0.8, 0.9)
    assert run.sample.scorer == "spread"
    assert run.sample.kappa_by_nfe == ((1, 0.5), (4, 0.9))
    assert run.train.tensorboard is True


def test_an_override_changes_nothing_else_and_the_last_one_holds():
    before = recipe("sudoku-mini")
    run = override(before, ["method.ril.depths=[2]", "method.ril.depths=[5]"])
    assert run.method.ril.depths == (5,)
    assert changed_keys(to_dict(before), to_dict(run)) == ["method.ril.depths"]
    assert override(before, []) == before


@pytest.mark.parametrize(("steps", "warmup"), [(3, 1), (20, 2), (49, 4), (50, 50), (800, 50)])
def test_a_recipes_warm_up_is_shortened_to_a_short_run(steps, warmup):
    assert override(recipe("own"), [f"train.steps={steps}"]).optim.warmup == warmup


@pytest.mark.parametrize("changes", [["optim.warmup=50", "train.steps=20"], ["train.steps=20", "optim.warmup=21"]])
def test_a_warm_up_of_the_users_is_refused_in_a_short_run(changes):
    with pytest.raises(UsageError, match=r"longer than the run, train\.steps=20"):
        override(recipe("own"), changes)


def test_vocabulary_and_length_are_the_tasks():
    run = override(recipe("markov"), ["task.vocab=5", "task.length=12"])
    assert (run.shape.vocab, run.shape.length) == (5, 12)
    assert run.on(replace(run.task, vocab=6)).shape.vocab == 6


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("train.step=5", "unknown key 'train.step'; did you mean 'steps'"),
        ("trian.steps=5", r"unknown section 'trian' in trian.steps=5; did you mean 'train'"),
        ("train.steps=many", "train.steps='many' must be of type int"),
        ("train.steps=1.5", "train.steps=1.5 must be of type int"),
        ("train.steps=true", "must be of type int"),
        ("train.steps=-1", "train.steps=-1 must be positive"),
        ("train.steps=", "train.steps='' must be of type int"),
        ("optim.name=muom", "did you mean 'muon'"),
        ("optim.lr=nan", "optim.lr=nan must be a finite number"),
        ("optim.lr=1e999", "must be a finite number"),
        ("model.width=65", "multiple of 2 x model.heads"),
        ("model.vocab=9", r"unknown key 'model.vocab'"),
        ("sample.scorer=quality", r"needs the quality head: set method\.quality\.enabled=true"),
        ("optim.warmup=100000", "longer than the run"),
        ("method.distill.weight=1", r"method\.distill\.start=100000 is past the end of the run"),
        ("method.loss.boundary_fraction=0", "method.loss.boundary_fraction=0.0 must be positive"),
        ("optim.betas=[0.9]", "must have 2 entries"),
        ("train.steps", r"changed by section\.key=value, not by 'train.steps'"),
        ("train=5", r"changed by section\.key=value"),
        ("recipe=x", "unknown section 'recipe'"),
        ("=5", "unknown section ''"),
        ("task.name=own", "unknown key 'task.name'"),
        ("task.peek=1", "did you mean 'peak'"),
        ("method.path.t_anchor=2", r"method\.path\.t_anchor=2.0 must be between 0 and 1"),
        ("method.ril.depths=4", r"method\.ril\.depths=4 must be a list"),
        ("method.ril=3", r"'method\.ril' is a group of settings: weight, quality, depths"),
        ("method.ril.dephts=[4]", r"unknown key 'method\.ril\.dephts'; did you mean 'depths'"),
        ("method.rli.depths=[4]", r"unknown key 'method\.rli\.depths'; did you mean 'ril'"),
        ("method.ril.depths.first=4", r"unknown key 'method\.ril\.depths\.first'"),
        ("method.name=mdlm", r"unknown key 'method\.name'"),
        ("method.eps=0.1", r"unknown key 'method\.eps'"),
        ("method=mldm", r"unknown method 'mldm'; did you mean 'mdlm'"),
        ("method.", r"changed by section\.key=value"),
        ("method.=1", r"unknown key 'method\.'"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(assignment, message):
    with pytest.raises(UsageError, match=message) as caught:
        override(recipe("markov"), [assignment])
    assert "\n" not in str(caught.value)


def test_a_choice_does_not_offer_the_name_of_a_section():
    with pytest.raises(UsageError) as caught:
        override(recipe("markov").by("ar"), ["method.xyz=1"])
    assert "name" not in str(caught.value)


def test_distillation_knows_no_self_conditioning():
    settings = ["method.distill.weight=1", "method.distill.start=0"]
    assert override(recipe("markov"), settings).method.distill.weight == 1
    with pytest.raises(UsageError, match=r"model\.self_condition=true is not supported by self-distillation"):
        override(recipe("markov"), [*settings, "model.self_condition=true"])


# -- another method in the same place ----------------------------------------------------------------------------------


def test_another_method_has_its_own_settings_and_the_rest_stays():
    before = recipe("sudoku")
    run = before.by("mdlm")
    for mixture in (before.by("mdlm-di4c"), override(before, ["method=mdlm-di4c"])):
        assert mixture.train.batch == before.train.batch // 16, "every sequence becomes 16 rows"
    assert (run.method, run.sample) == (mdlm.Config(), mdlm.Options())
    for name in ("recipe", "task", "model", "optim", "train"):
        assert getattr(run, name) == getattr(before, name)
    assert before.by("dbtm") is before
    with pytest.raises(UsageError, match="unknown method 'arr'; did you mean 'ar'"):
        before.by("arr")


def test_a_method_is_changed_first_and_then_its_settings():
    run = override(recipe("markov"), ["method=mdlm", "method.eps=0.01", "sample.order=confidence", "sample.nfe=3"])
    assert run.method == mdlm.Config(eps=0.01)
    assert run.sample == mdlm.Options(nfe=3, order="confidence")
    assert run == override(recipe("markov").by("mdlm"), ["method.eps=0.01", "sample.order=confidence", "sample.nfe=3"])
    with pytest.raises(UsageError, match=r"unknown key 'method\.eps'"):
        override(recipe("markov"), ["method.eps=0.01", "method=mdlm"])
    with pytest.raises(UsageError, match=r"unknown key 'method\.ril\.depths'"):
        override(recipe("markov"), ["method=mdlm", "method.ril.depths=[4]"])


def test_the_method_that_a_run_has_keeps_its_settings():
    run = recipe("sudoku")
    assert override(run, ["method=dbtm"]) == run


def names_of(values, path=""):
    """Dotted names of all plain values."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from names_of(value, f"{path}{name}.")
        else:
            yield path + name


def test_a_run_of_one_method_holds_no_field_of_another():
    base = recipe("sudoku")
    held = {name: set(names_of(to_dict(base.by(name)))) for name in ("dbtm", "ar", "mdlm")}
    shared = {name for name in held["dbtm"] if name.split(".")[0] not in ("method", "sample")} | {"method.name"}
    assert held["ar"] == shared | {"sample.temperature", "sample.top_p"}
    settings = {"method.eps", "method.weight", "sample.nfe", "sample.temperature", "sample.top_p", "sample.order"}
    remasking = {"sample.tail", "sample.remask", "sample.eta"}
    remasking |= {"sample.loop_start", "sample.loop_end", "sample.loop_alpha"}
    assert held["mdlm"] == shared | settings | remasking
    assert {"method.path.sigma", "method.quality.width", "sample.kappa"} <= held["dbtm"]
    assert not {name for name in held["dbtm"] if name.startswith(("path.", "loss.", "ril.", "distill."))}


def test_options_of_another_method_are_refused():
    run = recipe("markov")
    with pytest.raises(UsageError, match="the method 'dbtm' does not take"):
        replace(run, sample=ar.Options())
    values = to_dict(run.by("ar"))
    with pytest.raises(UsageError, match=r"unknown key 'sample\.kappa'"):
        from_dict({**values, "sample": {"kappa": 0.5}})


# -- strict JSON -------------------------------------------------------------------------------------------------------


def test_strict_json():
    values = to_dict(recipe("simplex"))
    assert json.loads(dumps(recipe("simplex"))) == values
    for wrong, message in [
        ({**values, "model": {**values["model"], "colour": 1}}, r"unknown key 'model\.colour'"),
        ({**values, "method": {**values["method"], "colour": 1}}, r"unknown key 'method\.colour'"),
        ({**values, "modle": {}}, "unknown key 'modle'; did you mean 'model'"),
        ({k: v for k, v in values.items() if k != "task"}, "missing key 'task'"),
        ({k: v for k, v in values.items() if k != "method"}, "missing key 'method'"),
        ({**values, "task": {"name": "makrov"}}, "unknown task 'makrov'; did you mean 'markov'"),
        ({**values, "method": {"name": "dbmt"}}, "unknown method 'dbmt'; did you mean 'dbtm'"),
        ({**values, "method": "dbtm"}, "method must be a JSON object with a name, not 'dbtm'"),
        ({**values, "task": {"length": 3}}, "task must be a JSON object with a name"),
        ({**values, "task": {"name": 3}}, "task must be a JSON object with a name"),
        ({**values, "model": 3}, "model must be a JSON object, not 3"),
        ({**values, "recipe": 3}, "recipe=3 must be of type str"),
        ([values], "the configuration must be a JSON object"),
    ]:
        with pytest.raises(UsageError, match=message) as caught:
            from_dict(wrong)
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="not JSON"):
        loads("{")


def test_what_is_left_out_has_its_default():
    values = to_dict(recipe("simplex"))
    short = from_dict({name: values[name] for name in ("recipe", "task", "model")} | {"method": {"name": "mdlm"}})
    assert short.method == mdlm.Config()
    assert short.sample == mdlm.Options()
    assert short.optim.lr == 3e-4


def test_the_sections_are_those_of_the_configuration():
    assert list(to_dict(recipe("markov"))) == ["recipe", *SECTIONS]


def test_unknown_recipe_names_the_nearest():
    with pytest.raises(UsageError, match="unknown recipe 'markof'; did you mean 'markov'"):
        recipe("markof")


# -- of one's own ------------------------------------------------------------------------------------------------------


@pytest.fixture
def own():
    """Forgets tasks and methods that a test registers."""
    known = [(registry, dict(registry.known)) for registry in (TASKS, METHODS)]
    yield
    for registry, before in known:
        registry.known.clear()
        registry.known.update(before)


@pytest.mark.usefixtures("own")
def test_a_task_of_ones_own_is_one_small_class():
    @register
    @dataclass(frozen=True)
    class Constant(Task):
        name = "constant-for-test"
        vocab: int = 3
        length: int = 4

    run = recipe("markov").on(Constant())
    assert loads(dumps(run)) == run
    assert override(run, ["task.length=6"]).shape.length == 6


@pytest.mark.usefixtures("own")
def test_a_method_of_ones_own_has_settings_and_options_where_it_wants_them():
    @register_method
    class Bare(Method):
        name = "bare-for-test"

    @dataclass(frozen=True)
    class Config(MethodConfig):
        rate: float = 0.5

        def check(self, run: RunConfig) -> None:
            if run.task.name == "own":
                raise UsageError("method.rate does not go with your own tokens")

    @dataclass(frozen=True)
    class Options(SampleConfig):
        rounds: int = 3

    @register_method
    class Full(Method[Config, Options]):
        name = "full-for-test"

    run = recipe("markov")
    bare, full = run.by("bare-for-test"), run.by("full-for-test")
    assert to_dict(bare)["method"] == {"name": "bare-for-test"}
    assert to_dict(bare)["sample"] == {}
    assert to_dict(full)["method"] == {"name": "full-for-test", "rate": 0.5}
    assert (Full.Config, Full.Options) == (Config, Options)
    for made in (bare, full):
        assert loads(dumps(made)) == made
        assert method_of(made).name == made.method_name
    changed = override(full, ["method.rate=0.25", "sample.rounds=7"])
    assert method_of(changed).settings == Config(rate=0.25)
    assert method_of(changed).options() == Options(rounds=7)
    with pytest.raises(UsageError, match="does not go with your own tokens"):
        full.on(recipe("own").task)


@pytest.mark.usefixtures("own")
def test_a_method_that_extends_another_is_saved_under_its_own_name():
    from dbtm.methods.dbtm import DBTM

    @register_method
    class Louder(DBTM):
        name = "louder-for-test"

    run = override(recipe("markov").by("louder-for-test"), ["method.ril.weight=0.5"])
    assert run.method_name == "louder-for-test"
    assert isinstance(run.method, DBTM.Config)
    assert loads(dumps(run)) == run
    assert type(method_of(run)) is Louder
    assert recipe("markov").method_name == "dbtm"


@pytest.mark.usefixtures("own")
def test_settings_that_name_their_method_themselves():
    @dataclass(frozen=True)
    class Settings(MethodConfig):
        name: ClassVar[str] = "named-for-test"

    @register_method
    class Named(Method):
        name = "named-for-test"
        Config = Settings

    assert Named.Config is Settings
    assert recipe("markov").by("named-for-test").method == Settings()
