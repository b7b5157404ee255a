"""Recipes of other methods: the published settings, number by number."""

from operator import attrgetter

import pytest

from dbtm.config import dumps, loads, override
from dbtm.core.registry import METHODS
from dbtm.methods.base import method_of
from dbtm.recipes import PEERS, RECIPES, SETS, recipe

SHARED = {
    "optim": {"name": "adamw", "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "schedule": "constant"},
    "model": {"ffn": 4, "cond_dim": 128, "dropout": 0.1, "gate_init": 0.0},
}
LONGER = {"lm1b": 1_200_000, "owt": 1_100_000}
OTHERWISE = {
    "fmlm": {"optim": {"betas": (0.9, 0.95)}},
    "owt-candi": {"train": {"steps": 200_000}},
    "cfm": {"optim": {"lr": 1e-4, "warmup": 0, "clip": 0.0, "ema": 0.0}},
    "lm1b-cfm": {"train": {"steps": 250_000, "batch": 400}},
    "owt-cfm": {
        "train": {"steps": 250_000, "batch": 256},
        "optim": {"weight_decay": 0.1, "warmup": 2_500, "clip": 1.0},
    },
    **{f"{data}-{m}": {"train": {"steps": n}} for m in ("dfm", "dfm-esd") for data, n in LONGER.items()},
}
"""Settings in which a method's released code differs from the others'."""
OF_A_SET = {
    "lm1b": {"task": {"vocab": 30_522, "length": 128}, "model": {"width": 768, "depth": 12, "heads": 12}},
    "owt": {"task": {"vocab": 50_257, "length": 1_024}, "model": {"width": 768, "depth": 12, "heads": 12}},
    "sudoku": {"task": {"vocab": 12, "length": 180, "pool": 48_000}, "model": {"width": 512, "depth": 8, "heads": 8}},
    "tinygsm": {"task": {"vocab": 49_152, "length": 512}, "model": {"width": 768, "depth": 12, "heads": 12}},
}
FROM_SCRATCH = {
    "lm1b": {"steps": 1_000_000, "batch": 512},
    "owt": {"steps": 1_000_000, "batch": 512},
    "sudoku": {"steps": 20_000, "batch": 256},
    "tinygsm": {"steps": 250_000, "batch": 512},
}
OPTIM = {"lr": 3e-4, "warmup": 2_500, "clip": 1.0, "ema": 0.9999, "ema_warmup": True}
SMALL = ["model.width=16", "model.heads=2", "model.depth=1", "task.vocab=50", "task.length=8"]


def has(run, table):
    for section, values in table.items():
        for key, value in values.items():
            assert attrgetter(f"{section}.{key}")(run) == value, f"{run.recipe}: {section}.{key}"


def changed(table, run):
    """The table with what the method, or its recipe of this set, has otherwise."""
    other = [OTHERWISE.get(name, {}) for name in (run.method_name, run.recipe)]
    return {
        section: values | other[0].get(section, {}) | other[1].get(section, {}) for section, values in table.items()
    }


@pytest.mark.parametrize("data", SETS)
@pytest.mark.parametrize("method", PEERS)
def test_what_all_of_them_share(method, data):
    name = f"{data}-{method}"
    assert name in RECIPES
    run = recipe(name)
    assert (run.recipe, run.method_name) == (name, method)
    has(run, changed(SHARED, run))
    has(run, OF_A_SET[data])
    assert loads(dumps(run)) == run


@pytest.mark.parametrize("data", SETS)
@pytest.mark.parametrize("method", [m for m in PEERS if "teacher" not in METHODS.get(m).needs])
def test_single_stage_methods_have_the_published_length_and_optimizer(method, data):
    run = recipe(f"{data}-{method}")
    has(run, changed({"train": FROM_SCRATCH[data], "optim": OPTIM}, run))


@pytest.mark.parametrize("method", PEERS)
def test_they_build_at_a_small_size(method):
    run = override(recipe(f"lm1b-{method}"), SMALL)
    network = method_of(run).start().network
    assert network.shape.vocab == 50


def test_reasoning_is_decoded_greedily_by_ar_and_text_never():
    assert [recipe(f"{data}-ar").sample.temperature for data in SETS] == [1.0, 1.0, 0.0, 0.0]


def test_duo_has_its_curriculum_on_text_alone():
    settings = [recipe(f"{data}-duo").method for data in SETS]
    assert [s.curriculum for s in settings] == [500_000, 500_000, 0, 0]
    assert [(s.gamma_min, s.gamma_max) for s in settings[:2]] == [(-3.5, -1.75), (-3.55, -1.85)]
    assert all(s.tau == 1e-3 for s in settings)


def test_flows_cap_attention_and_logits_as_published():
    for method in ("flm", "fmlm", "fmlm-plus"):
        for data in SETS:
            capped = data != "sudoku" or method == "fmlm-plus"
            run = recipe(f"{data}-{method}")
            assert (run.model.softcap, run.method.logit_cap) == ((50, 30) if capped else (0, 0)), run.recipe


def test_a_student_has_the_network_and_cap_of_its_teacher():
    for data in SETS:
        student, teacher = recipe(f"{data}-fmlm"), recipe(f"{data}-flm")
        assert student.model == teacher.model
        assert student.method.logit_cap == teacher.method.logit_cap
    assert [recipe(f"{data}-fmlm").train.batch for data in ("lm1b", "owt")] == [512, 128]
    assert recipe("lm1b-fmlm").train.steps == 100_000


def test_dfm_is_a_denoiser_first():
    for method in ("dfm", "dfm-esd"):
        assert [recipe(f"{data}-{method}").method.start for data in SETS] == [1_000_000, 1_000_000, 16_000, 200_000]


@pytest.mark.parametrize("data", SETS)
def test_distillations_have_their_rounds_and_the_network_of_their_teacher(data):
    sdtt, dcd = recipe(f"{data}-mdlm-sdtt"), recipe(f"{data}-duo-dcd")
    has(
        sdtt, {"train": {"steps": 80_000, "batch": 128}, "optim": OPTIM, "method": {"rounds": 8, "round_steps": 10_000}}
    )
    has(dcd, {"train": {"steps": 50_000, "batch": 128}, "method": {"rounds": 5, "round_steps": 10_000, "grid": 512}})
    has(dcd, {"optim": {"lr": 6e-5, "warmup": 500, "ema": 0.999}})
    assert sdtt.model == recipe(f"{data}-mdlm").model
    assert dcd.model == recipe(f"{data}-duo").model
    assert dcd.sample.tail == sdtt.sample.tail == "argmax"
