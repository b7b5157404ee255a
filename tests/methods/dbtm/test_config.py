"""DBTM's settings: incompatible settings, and sampler options that depend on each other."""

import json

import pytest

from dbtm.config import override
from dbtm.core.errors import UsageError
from dbtm.methods.base import method_of
from dbtm.methods.dbtm import DistillConfig, LossConfig, Options, PathConfig, QualityConfig, RilConfig
from dbtm.recipes import recipe


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        (PathConfig, {"a": 0.5}, r"method\.path\.a must be at least 1"),
        (PathConfig, {"sigma": 0.0}, r"method\.path\.sigma=0.0 must be positive"),
        (PathConfig, {"t_anchor": 1.5}, r"method\.path\.t_anchor=1.5 must be between 0 and 1"),
        (LossConfig, {"anchor": -1.0}, r"method\.loss\.anchor=-1.0 must not be negative"),
        (
            LossConfig,
            {"semigroup": 1.0, "semigroup_depths": ()},
            r"method\.loss\.semigroup_depths needs numbers of applications, each from 1",
        ),
        (LossConfig, {"interpolant_fraction": 1.5}, r"method\.loss\.interpolant_fraction=1.5 must be between 0 and 1"),
        (RilConfig, {"depths": (0,)}, r"method\.ril\.depths needs at least one rollout depth"),
        (RilConfig, {"kappa": 1.5}, r"method\.ril\.kappa=1.5 must be between 0 and 1"),
        (RilConfig, {"later_fraction": 0.0}, r"method\.ril\.later_fraction=0.0 must be positive"),
        (DistillConfig, {"supervise": "remaining", "depth": 1}, r"method\.distill\.depth of at least 2"),
        (QualityConfig, {"width": 10}, r"method\.quality\.width=10 must be a multiple of 2 x method\.quality\.heads"),
        (Options, {"nfe": 0}, r"sample\.nfe=0 must be positive"),
        (Options, {"kappa": -0.1}, r"sample\.kappa=-0.1 must be between 0 and 1"),
        (Options, {"sigma": 0.0}, r"sample\.sigma=0.0 must be positive"),
        (Options, {"temperature": -1.0}, r"sample\.temperature=-1.0 must not be negative"),
    ],
)
def test_values_out_of_range_are_named(section, values, message):
    with pytest.raises(UsageError, match=message):
        section(**values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["transport=0", "boundary=0", "anchor=0"], "nothing to train"),
        (["transport=0", "boundary=0", "anchor=0", "quality=1"], "nothing to train"),
    ],
)
def test_something_has_to_be_trained(changes, message):
    with pytest.raises(UsageError, match=message):
        override(recipe("markov"), [f"method.loss.{change}" for change in changes])


def test_the_priors_scale_is_that_of_training_unless_the_options_have_one():
    run = override(recipe("markov"), ["method.path.sigma=2.5"])
    assert run.sample.sigma is None
    assert method_of(run).options().sigma == 2.5
    assert method_of(override(run, ["sample.sigma=1.5"])).options().sigma == 1.5


TUNED = Options(kappa=0.4, kappa_by_nfe=((2, 0.5), (4, 0.7)), repetition_penalty=0.25)


@pytest.mark.parametrize(("nfe", "kappa"), [(1, 0.4), (2, 0.5), (3, 0.5), (4, 0.7), (8, 0.7), (64, 0.7)])
def test_the_threshold_is_tuned_for_the_budget(nfe, kappa):
    """That of the largest tuned budget up to it; an explicit threshold takes precedence."""
    chosen = TUNED.changed("dbtm", {"nfe": nfe})
    assert (chosen.nfe, chosen.kappa, chosen.repetition_penalty) == (nfe, kappa, 0.25)
    asked = TUNED.changed("dbtm", {"nfe": nfe, "kappa": 0.1, "repetition_penalty": 3.0})
    assert (asked.kappa, asked.repetition_penalty) == (0.1, 3.0)


def test_changes_are_read_as_strictly_as_a_configuration():
    for changes, message in [
        ({"kapa": 0.5}, "the sampler of 'dbtm' has no option 'kapa'; did you mean 'kappa'"),
        ({"nfe": "four"}, r"sample\.nfe='four' must be of type int"),
        ({"nfe": 0}, r"sample\.nfe=0 must be positive"),
        ({"scorer": "qualty"}, "did you mean 'quality'"),
        ({"scorer": "spread", "kappa": 0.5}, "kappa changes nothing where commits are spread"),
        ({"sampler": "iterate", "kappa": 0.5}, "kappa changes nothing where sampler=iterate commits nothing"),
        ({"commit": False, "repetition_penalty": 1.0}, "repetition_penalty counts committed tokens"),
        ({"top_p": 0.0, "temperature": 1.0}, r"sample\.top_p=0\.0 must be above 0"),
        ({"top_p": 0.9}, "top_p changes nothing at temperature 0"),
    ]:
        with pytest.raises(UsageError, match=message):
            TUNED.changed("dbtm", changes)
    for changes in ({"scorer": "spread"}, {"sampler": "iterate"}, {"sampler": "integrate"}):
        assert TUNED.changed("dbtm", changes).threshold is None
    assert TUNED.changed("dbtm", {"commit": False}).repetition_penalty == 0


def test_a_temperature_given_alone_is_that_of_all_rounds():
    options = Options(nfe=4, scorer="spread", mean_from=1)
    cool = options.changed("dbtm", {"temperature": 0.5})
    assert [cool.in_round(r).temperature for r in (1, 4)] == [0.5, 0.5]
    assert cool.changed("dbtm", {"nfe": 1}).in_round(1).temperature == 0.5
    both = options.changed("dbtm", {"temperature": 0.5, "mean_temperature": 0.8})
    assert both.in_round(1).temperature == 0.8
    assert options.changed("dbtm", {"top_p": 0.9}).in_round(1).temperature == 1.0


def test_without_a_scorer_one_round_commits_everything():
    assert TUNED.changed("dbtm", {"scorer": "none", "nfe": 9}).nfe == 1
    assert TUNED.changed("dbtm", {"scorer": "none", "nfe": 9, "commit": False}).nfe == 9
    assert TUNED.changed("dbtm", {"scorer": "none", "nfe": 9, "sampler": "iterate"}).nfe == 9


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"nfe": 4}, {"temperature", "kappa", "repetition_penalty", "scorer", "commit", "fresh_noise"}),
        ({"nfe": 1}, {"temperature"}),
        ({"scorer": "spread"}, {"temperature", "repetition_penalty", "scorer", "commit", "fresh_noise"}),
        ({"commit": False}, {"temperature", "kappa", "scorer", "commit", "fresh_noise"}),
        (
            {"scorer": "spread", "mean_from": 2},
            {"temperature", "repetition_penalty", "scorer", "commit", "fresh_noise", "mean_from", "mean_temperature"},
        ),
        ({"nfe": 1, "mean_from": 2}, {"temperature"}),
        ({"nfe": 1, "mean_from": 1}, {"temperature"}),
        ({"nfe": 1, "temperature": 0.5, "top_p": 0.9}, {"temperature", "top_p"}),
        ({"nfe": 1, "mean_from": 1, "top_p": 0.9}, {"temperature"}),
        (
            {"nfe": 2, "scorer": "spread", "mean_from": 1, "top_p": 0.9},
            {"repetition_penalty", "scorer", "commit", "fresh_noise", "mean_from", "mean_temperature", "top_p"},
        ),
        ({"sampler": "iterate"}, set()),
        ({"sampler": "integrate"}, {"horizon"}),
    ],
)
def test_a_reader_is_told_the_options_that_samples_depend_on(changes, names):
    chosen = TUNED.changed("dbtm", changes)
    assert chosen.shown() == {name: getattr(chosen, name) for name in {"sampler", "nfe", "sigma"} | names}


TABLE = ((2, (3, 6)), (4, (1, 2, 3, 3)))


@pytest.mark.parametrize(("nfe", "plan"), [(1, ()), (2, (3, 6)), (3, ()), (4, (1, 2, 3, 3)), (8, ())])
def test_a_plan_is_that_of_the_budget(nfe, plan):
    """Other budgets have equal rounds; so have options that determine the number of commits in another way."""
    planned = Options(scorer="spread", rounds="planned", plan_by_nfe=TABLE)
    assert planned.changed("dbtm", {"nfe": nfe}).plan == plan
    for changes in ({"rounds": "equal"}, {"scorer": "confidence"}, {"commit": False}, {"sampler": "iterate"}):
        other = planned.changed("dbtm", {"nfe": nfe} | changes)
        assert (other.plan, "plan_by_nfe" in other.shown()) == ((), False)


def test_a_reader_is_told_the_plan_and_can_ask_for_it():
    chosen = Options(scorer="spread", rounds="planned", plan_by_nfe=TABLE).changed("dbtm", {"nfe": 4})
    shown = json.loads(json.dumps(chosen.shown()))
    assert shown == chosen.shown()
    assert (shown["rounds"], shown["plan_by_nfe"]) == ("planned", [[4, [1, 2, 3, 3]]])
    assert Options().changed("dbtm", shown).plan == chosen.plan


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ([[0, [1]]], "is for 0 evaluations"),
        ([[2, [1, 1]], [2, [2]]], r"plan_by_nfe\[1\] is for 2 evaluations: .* each once"),
        ([[10**9, [1]]], "is for 1000000000 evaluations"),
        ([[2, []]], "must have 1 to 2 rounds"),
        ([[2, [1, 1, 1]]], "must have 1 to 2 rounds"),
        ([[2, [1, 0]]], "at least 1 position"),
        ([[2, [1, -3]]], "at least 1 position"),
        ([[2, [2**31, 2**31]]], "in all"),
        ([[2, [1, 10**30]]], "at most 63 are allowed"),
        ([[2, [1, 1.5]]], "must be of type int"),
        ([[2, [float("nan")]]], "must be a finite number"),
        ([[2]], "must have 2 entries"),
        ({"2": [1]}, "must be a list"),
    ],
)
def test_plans_that_no_sampler_can_keep_are_refused(plan, message):
    with pytest.raises(UsageError, match=message):
        Options().changed("dbtm", {"plan_by_nfe": plan})


@pytest.mark.parametrize("options", [Options(), Options(scorer="spread"), Options(plan_by_nfe=TABLE)])
def test_planned_rounds_are_refused_where_there_are_none(options):
    with pytest.raises(UsageError, match="rounds=planned needs commits that are spread, and plans"):
        options.changed("dbtm", {"rounds": "planned"})
