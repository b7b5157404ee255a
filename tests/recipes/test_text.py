"""The text recipes: the paper's tables, number by number, and what ours promise."""

from dataclasses import replace
from operator import attrgetter

import pytest
import torch

from dbtm.config import dumps, override, to_dict
from dbtm.core.settings import changed_keys
from dbtm.methods.base import method_of
from dbtm.recipes import recipe


def parameters(name: str) -> float:
    """Millions of parameters."""
    with torch.device("meta"):
        return sum(p.numel() for p in method_of(recipe(name)).build().parameters()) / 1e6


# tab:hyperparameters; both columns where they agree
COMMON = {
    "model": {"width": 768, "cond_dim": 128, "depth": 12, "heads": 12, "ffn": 4, "dropout": 0.1, "softcap": 50.0},
    "optim": {
        "name": "adamw",
        "betas": (0.9, 0.999),
        "eps": 1e-8,
        "weight_decay": 0.0,
        "clip": 1.0,
        "schedule": "constant",
        "lr": 3e-4,
        "warmup": 10_000,
        "ema": 0.9999,
    },
    "train": {"batch": 512, "micro_batch": 128, "precision": "bf16"},
    "method.path": {"a": 1.0, "sigma": 1.0, "coupling": "ot", "context": True, "t_anchor": 0.75},
    "method.loss": {
        "transport": 1.0,
        "anchor": 1.0,
        "semigroup": 0.0,
        "boundary": 1.0,
        "c": 1.0,
        "endpoint_c": 1.0,
        "r": 0.5,
        "endpoint_r": 0.5,
        "interpolant_fraction": 1.0,
        "boundary_fraction": 1.0,
    },
    "sample": {"scorer": "confidence", "temperature": 0.0, "sigma": None, "repetition_penalty": 1.0},
}
COLUMNS = {
    "lm1b": {"task": {"vocab": 30_522, "length": 128}, "train": {"steps": 250_000}, "sample": {"kappa": 0.9}},
    "owt": {"task": {"vocab": 50_257, "length": 1_024}, "train": {"steps": 150_000}, "sample": {"kappa": 0.3}},
}


@pytest.mark.parametrize("suffix", ["", "-ril"])
@pytest.mark.parametrize("name", COLUMNS)
def test_the_papers_table(name, suffix):
    run = recipe(name + suffix)
    for table in (COMMON, COLUMNS[name]):
        for section, values in table.items():
            for key, value in values.items():
                assert attrgetter(f"{section}.{key}")(run) == value, f"{section}.{key}"


@pytest.mark.parametrize("name", COLUMNS)
def test_the_papers_refinement_in_the_loop(name):
    """tab:ril-setup, column LM1B."""
    plain, run = recipe(name).method, recipe(f"{name}-ril").method
    assert plain.ril.weight == plain.distill.weight == 0
    assert (run.ril.weight, run.ril.depths, run.ril.rounds, run.ril.samples, run.ril.kappa) == (
        1.0,
        (4,),
        "all",
        1,
        0.9,
    )
    assert (run.ril.commit, run.ril.fresh_noise, run.ril.later_fraction) == (True, False, 1.0)
    assert (run.distill.weight, run.distill.depth, run.distill.kappa, run.distill.commit) == (1.0, 4, 0.9, True)
    assert (run.distill.temperature, run.distill.refresh) == (0.7, 5_000)
    others = changed_keys(to_dict(recipe(name)), to_dict(recipe(f"{name}-ril")))
    assert {key.rsplit(".", 1)[0] for key in others} == {"recipe", "method.ril", "method.distill"}, "all else is shared"


@pytest.mark.parametrize(
    ("name", "evaluated"), [("lm1b-ril", 200_000), ("owt-ril", 100_000), ("owt-delta-ril", 100_000)]
)
def test_the_step_that_the_paper_evaluates_has_rollouts_and_is_kept(name, evaluated):
    """Half of the evaluated run is on-policy, as LM1B's is; and a run that ends there can be asked for."""
    run = recipe(name)
    assert run.method.ril.start == run.method.distill.start == evaluated // 2
    assert evaluated in run.train.milestones
    assert evaluated < run.train.steps
    assert override(run, [f"train.steps={evaluated}"]).train.steps == evaluated


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("lm1b", 140, 142),
        ("owt", 171, 172.5),  # the paper: 171.9
        ("text", 30, 60),
        ("text-ril", 30, 60),
        ("text-small", 6, 8),
        ("text-base", 30, 32),  # packed in 8 bits: at most 32 MB
    ],
)
def test_sizes(name, least, most):
    assert least <= parameters(name) <= most


def test_ours_do_not_learn_data_from_pure_noise():
    """There the data is not a function of the input: one-step samples would collapse."""
    for name in ("text-ril", "text-small"):
        settings = recipe(name).method
        assert settings.ril.weight > 0
        assert settings.ril.context >= 0.4
        assert settings.distill.weight == 0
    assert recipe("text-ril").model == recipe("text").model


@pytest.mark.parametrize("name", ["text-ril", "text-small"])
def test_a_second_stage_goes_on_with_the_map_of_the_first(name):
    first, second = recipe(name), recipe(name.removesuffix("-ril") + "-distill")
    assert second.model == first.model
    assert second.train.seed != first.train.seed
    assert second.method.quality == first.method.quality
    distill = second.method.distill
    assert (distill.start, distill.scorer, distill.supervise) == (0, "spread", "remaining")


def test_the_stages_of_the_long_run_go_on_with_one_map():
    stages = [recipe(name) for name in ("text-base", "text-base-2")]
    assert [stage.recipe for stage in stages] == ["text-base", "text-base-2"]
    assert len({(stage.model, stage.method.quality, stage.task) for stage in stages}) == 1
    assert len({stage.train.seed for stage in stages}) == 2
    assert [bool(stage.method.reflow.weight) for stage in stages] == [False, True]
    first, second = (stage.method for stage in stages)
    assert first.posterior.fraction == 1
    assert second == replace(
        first,
        posterior=replace(first.posterior, fraction=0.25),
        loss=replace(first.loss, transport=0.0, anchor=0.0, boundary=0.0),
        reflow=second.reflow,
    ), "later rounds draw from the posterior"
    assert second.reflow.fraction == 1, "no row is idle"
    assert stages[1].sample == replace(stages[0].sample, fresh_noise=False, mean_budget=3)


def test_the_long_run_learns_what_its_samplers_ask_for():
    run = recipe("text-base")
    assert (run.sample.scorer, run.sample.rounds, run.sample.mean_from) == ("spread", "planned", 2)
    assert 0 < run.method.posterior.spread < 1, "the states of this sampler, and those of prompts and holes"


@pytest.mark.parametrize("name", ["lm1b-ril", "text-ril", "text-small", "text-distill", "text-base", "text-base-2"])
def test_they_build_at_a_small_size(name):
    """Every setting is one that the method takes."""
    small = "model.width=16 model.heads=2 model.depth=1"
    small += " method.quality.width=16 method.quality.heads=2 method.quality.depth=1"
    run = override(recipe(name), [*small.split(), "task.vocab=50", "task.length=8"])
    method = method_of(run).start()
    assert ("teacher" in method.frozen) == bool(run.method.distill.weight or run.method.reflow.weight)
    assert '"name": "text"' in dumps(run)
