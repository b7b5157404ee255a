"""Checkpoints of version 0.1, the packaged models among them: read as today's recipes, and sampling the same tokens."""

import copy
import hashlib
import json

import numpy as np
import pytest

import dbtm
from dbtm.checkpoint import folder as checkpoint
from dbtm.checkpoint.loading import find
from dbtm.checkpoint.migrate import migrated, read_config
from dbtm.config import dumps, from_dict, to_dict
from dbtm.core.errors import UsageError
from dbtm.core.settings import changed_keys
from dbtm.methods.dbtm import DistillConfig, RilConfig
from dbtm.recipes import RECIPES, recipe

MARKOV = {  # as version 0.1 saved it
    "recipe": "markov",
    "task": {"name": "markov", "vocab": 8, "length": 8, "peak": 2.0, "chain_seed": 0, "seed": 0},
    "model": {
        "vocab": 8, "length": 8, "width": 64, "depth": 3, "heads": 4, "ffn": 4, "cond_dim": 128, "dropout": 0.0,
        "softcap": 0.0, "taps": 0, "backbone": "attention", "pattern": "gdn,gdn,gdn,attn", "loops": 1, "rotary": True,
        "position_axes": [], "input_norm": False, "self_condition": False, "gate_init": 0.5, "embed_std": 0.35,
        "quality": False, "quality_width": 256, "quality_depth": 4, "quality_heads": 4,
    },
    "method": "dbtm",
    "path": {"sigma": 1.0, "a": 1.0, "coupling": "independent", "context": True, "t_anchor": 0.5},
    "loss": {
        "transport": 1.0, "boundary": 1.0, "anchor": 1.0, "semigroup": 0.0, "quality": 0.0, "c": 1.0, "r": 0.5,
        "endpoint_c": 1.0, "endpoint_r": 0.5, "interpolant_fraction": 1.0, "boundary_fraction": 0.125,
        "positive_weight": 1.0, "semigroup_depths": [4], "semigroup_start": 0,
    },
    "ril": {
        "weight": 0.0, "quality": 1.0, "depths": [4], "kappa": 0.9, "commit": True, "count_committed_now": True,
        "fresh_noise": False, "later_fraction": 1.0, "context": 0.0, "start": 0,
    },
    "distill": {
        "weight": 0.0, "depth": 4, "kappa": 0.9, "scorer": "confidence", "commit": True, "count_committed_now": True,
        "temperature": 0.7, "start": 100000, "refresh": 5000, "fraction": 1.0,
    },
    "optim": {
        "name": "muon", "lr": 0.001, "betas": [0.9, 0.95], "eps": 1e-08, "weight_decay": 0.0, "muon_lr": 0.02,
        "muon_momentum": 0.95, "clip": 10.0, "schedule": "wsd", "warmup": 100, "decay_fraction": 0.4, "ema": 0.999,
        "ema_warmup": True,
    },
    "train": {
        "steps": 800, "batch": 256, "micro_batch": 0, "seed": 0, "init": "", "device": "auto", "precision": "fp32",
        "compile": False, "graph": False, "log_every": 100, "checkpoint_every": 800, "keep": 2, "evaluate_every": 0,
        "tensorboard": False,
    },
    "sample": {
        "nfe": 4, "kappa": 0.9, "kappa_by_nfe": [], "penalty_by_nfe": [], "scorer": "confidence", "commit": True,
        "temperature": 0.0, "sigma": None, "repetition_penalty": 0.0, "fresh_noise": True,
    },
}  # fmt: skip


def old(config):
    """Today's configuration as version 0.1 wrote it: the migration backwards. Settings that came later are left out."""
    values = to_dict(config)
    method, model = values.pop("method"), values["model"]
    model |= {"vocab": config.task.vocab, "length": config.task.length, "taps": model.pop("conv_width")}
    quality = method.pop("quality")
    model |= {"quality": quality.pop("enabled"), **{f"quality_{name}": value for name, value in quality.items()}}
    for name in ("ril", "distill"):
        method[name]["count_committed_now"] = method[name].pop("supervise") == "uncommitted"
    model["rotary"], method["distill"]["fraction"], values["sample"]["penalty_by_nfe"] = True, 1.0, []
    values |= {"method": method.pop("name"), **{name: part for name, part in method.items() if name in MARKOV}}
    for name in MARKOV.keys() - {"recipe", "task", "method"}:
        values[name] = {key: value for key, value in values[name].items() if key in MARKOV[name]}
    return values


def came_later(key: str) -> bool:
    """Whether version 0.1 did not have a setting; its checkpoints have the default."""
    *_, section, name = key.split(".")
    return (
        key == "method.loops"
        or section == "posterior"
        or (isinstance(MARKOV.get(section), dict) and name not in MARKOV[section])
    )


def test_the_old_form_is_what_version_0_1_wrote():
    assert old(recipe("markov")) == MARKOV


LATER = ("text-base-2",)  # all its terms came later


@pytest.mark.parametrize("name", [n for n in RECIPES if recipe(n).method_name == "dbtm" and n not in LATER])
def test_every_recipe_comes_back(name):
    values = old(recipe(name))
    before = copy.deepcopy(values)
    found = from_dict(migrated(values))
    assert values == before, "what was read is not changed"
    assert old(found) == values
    changed = changed_keys(to_dict(found), to_dict(recipe(name)))
    assert [key for key in changed if not came_later(key)] == []


def test_todays_form_is_left_as_it_is():
    for name in ("dbtm", "ar", "mdlm"):
        values = to_dict(recipe("sudoku").by(name))
        assert migrated(values) == values
    for damaged in (3, [], None, {}, {"method": 3, "model": {}}, {"method": "dbtm"}):
        assert migrated(damaged) == damaged


def test_sections_that_an_older_checkpoint_lacks_have_their_defaults():
    """Fields were added on the way: a distillation without a scorer, a run without a sample section or a method."""
    values = {name: MARKOV[name] for name in ("recipe", "task", "model")}
    values["model"] = {k: v for k, v in values["model"].items() if k != "taps" and not k.startswith("quality")}
    run = from_dict(migrated({**values, "distill": {"weight": 0.5, "start": 1}}))
    assert run.method.quality.enabled, "a head was the default"
    assert run.method.distill == DistillConfig(weight=0.5, start=1)
    assert run.method.ril == RilConfig()
    assert run.model.conv_width == 0


def test_the_switch_of_rounds_became_a_choice():
    values = {**MARKOV, "ril": {"count_committed_now": False}, "distill": {"count_committed_now": True}}
    settings = from_dict(migrated(values)).method
    assert (settings.ril.supervise, settings.distill.supervise) == ("remaining", "uncommitted")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {**MARKOV["model"], "colour": 1}}, r"unknown key 'model\.colour'"),
        ({"loss": {"anker": 1.0}}, r"unknown key 'method\.loss\.anker'; did you mean 'anchor'"),
        ({"noise": {}}, "unknown key 'noise'"),
        ({"model": 3}, "model must be a JSON object, not 3"),
        ({"loss": 3}, r"method\.loss must be a JSON object, not 3"),
        ({"loss": None}, r"method\.loss must be a JSON object, not None"),
        ({"ril": {"count_committed_now": "no"}}, r"unknown key 'method\.ril\.count_committed_now'"),
        ({"model": {**MARKOV["model"], "quality": 1}}, r"method\.quality\.enabled=1 must be of type bool"),
        ({"model": {**MARKOV["model"], "taps": -1}}, r"model\.conv_width=-1 must not be negative"),
        ({"method": "dbmt"}, "unknown method 'dbmt'; did you mean 'dbtm'"),
        ({"method": ["dbtm"]}, r"unknown key 'path'|method must be a JSON object"),
        ({"task": {"name": "markov", "vocabulary": 8}}, r"unknown key 'task\.vocabulary'; did you mean 'vocab'"),
    ],
)
def test_what_is_wrong_is_still_named(changes, message):
    with pytest.raises(UsageError, match=message) as caught:
        from_dict(migrated({**MARKOV, **changes}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [("model", "rotary", False), ("distill", "fraction", 0.5), ("sample", "penalty_by_nfe", [[4, 1.0]])],
)
def test_a_removed_setting_that_was_used_is_refused(section, name, value):
    values = {**MARKOV, section: {**MARKOV[section], name: value}}
    with pytest.raises(UsageError, match=rf"{name}=.* is no longer supported"):
        migrated(values)


def test_removed_settings_also_leave_todays_form():
    values = to_dict(recipe("markov"))
    values["model"]["rotary"] = True
    assert from_dict(migrated(values)) == recipe("markov")


def test_another_method_of_that_time_keeps_nothing_of_dbtm():
    run = from_dict(migrated({**MARKOV, "method": "mdlm"}))
    assert run == recipe("markov").by("mdlm")


def test_a_checkpoint_is_read_whichever_version_wrote_it(tmp_path):
    for name, text in (("old", json.dumps(MARKOV)), ("new", dumps(recipe("markov")))):
        checkpoint.write(tmp_path / name, {}, {"config": text})
        assert read_config(tmp_path / name) == recipe("markov")
    (tmp_path / "new" / "config.json").write_text("{")
    with pytest.raises(UsageError, match=r"config\.json is damaged: it is not JSON"):
        read_config(tmp_path / "new")


# -- the packaged models, whose configurations are still in the old form -----------------------------------------------


@pytest.mark.parametrize(
    ("name", "tuned"),
    [
        ("sudoku", {"sample.kappa", "sample.kappa_by_nfe", "train.steps"}),
        ("text", {"method.distill.refresh", "train.steps"}),
    ],
)
def test_packaged_models_are_of_todays_recipes(name, tuned):
    assert isinstance(json.loads((find(name) / "config.json").read_text())["method"], str), "the old form"
    run = read_config(find(name))
    differs = {key for key in changed_keys(to_dict(run), to_dict(recipe(run.recipe))) if not came_later(key)}
    assert tuned <= differs <= tuned | {"train.checkpoint_every", "train.evaluate_every"}


def test_the_packaged_sudoku_model_solves():
    puzzle = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
    answer = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
    sampler = dbtm.load("sudoku", device="cpu")
    grid = np.array([[int(cell) if cell != "." else 0 for cell in puzzle]])
    trace = sampler.sample(**sampler.task.given(grid), nfe=16)
    assert "".join(map(str, sampler.task.layout.decode(trace.tokens)[0])) == answer


def test_the_packaged_text_model_samples_what_version_0_1_sampled():
    """Tokens of version 0.1, in float64: stored as bfloat16, weights are used as such by CPUs that have its products,
    and as float32 by others, which decide a token in a few hundred differently.
    """
    sampler = dbtm.load("text", device="cpu")
    sampler.network.double()
    tokens = sampler.sample(2, nfe=4, seed=0).tokens
    assert tokens[0, :8].tolist() == [477, 65, 12, 314, 86, 278, 65, 2]
    digest = hashlib.sha256(tokens.astype("<i8").tobytes()).hexdigest()
    assert digest == "f6635de4b42e16f94af707675fb34f2b5803402460165338f329712d2604fbdc"
