"""The text recipes: the paper's tables, number by number, and what ours promise."""

import pytest
import torch

from dbtm.config import dumps, override
from dbtm.methods import method_class
from dbtm.nn import TransportMap
from dbtm.recipes import recipe


def parameters(name: str) -> float:
    """Millions of parameters."""
    with torch.device("meta"):
        return sum(p.numel() for p in TransportMap(recipe(name).model).parameters()) / 1e6


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
    "path": {"a": 1.0, "sigma": 1.0, "coupling": "ot", "context": True, "t_anchor": 0.75},
    "loss": {
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
    "lm1b": {"model": {"vocab": 30_522, "length": 128}, "train": {"steps": 250_000}, "sample": {"kappa": 0.9}},
    "owt": {"model": {"vocab": 50_257, "length": 1_024}, "train": {"steps": 150_000}, "sample": {"kappa": 0.3}},
}


@pytest.mark.parametrize("suffix", ["", "-ril"])
@pytest.mark.parametrize("name", COLUMNS)
def test_the_papers_table(name, suffix):
    run = recipe(name + suffix)
    for table in (COMMON, COLUMNS[name]):
        for section, values in table.items():
            for key, value in values.items():
                assert getattr(getattr(run, section), key) == value, f"{section}.{key}"


@pytest.mark.parametrize("name", COLUMNS)
def test_the_papers_refinement_in_the_loop(name):
    """tab:ril-setup, column LM1B."""
    plain, run = recipe(name), recipe(f"{name}-ril")
    assert plain.ril.weight == plain.distill.weight == 0
    assert (run.ril.weight, run.ril.depths, run.ril.kappa) == (1.0, (4,), 0.9)
    assert (run.ril.commit, run.ril.fresh_noise, run.ril.later_fraction) == (True, False, 1.0)
    assert (run.distill.weight, run.distill.depth, run.distill.commit) == (1.0, 4, True)
    assert (run.distill.temperature, run.distill.start, run.distill.refresh) == (0.7, 100_000, 5_000)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("lm1b", 140, 142),
        ("owt", 171, 172.5),  # the paper: 171.9
        ("text", 30, 60),
        ("text-ril", 30, 60),
        ("text-small", 6, 8),
    ],
)
def test_sizes(name, least, most):
    assert least <= parameters(name) <= most


def test_ours_do_not_learn_data_from_pure_noise():
    """There the data is not a function of the input: one-step samples would collapse."""
    for name in ("text-ril", "text-small"):
        run = recipe(name)
        assert run.ril.weight > 0
        assert run.ril.context >= 0.4
        assert run.distill.weight == 0
    assert recipe("text-ril").model == recipe("text").model


@pytest.mark.parametrize("name", ["text-ril", "text-small"])
def test_a_second_stage_goes_on_with_the_map_of_the_first(name):
    first, second = recipe(name), recipe(name.removesuffix("-ril") + "-distill")
    assert second.model == first.model
    assert second.train.seed != first.train.seed
    assert (second.distill.start, second.distill.scorer, second.distill.count_committed_now) == (0, "spread", False)


@pytest.mark.parametrize("name", ["lm1b-ril", "text-ril", "text-small", "text-distill"])
def test_they_build_at_a_small_size(name):
    """Every setting is one that the method takes."""
    small = (
        "model.width=16 model.heads=2 model.depth=1 model.quality_width=16 model.quality_heads=2 model.quality_depth=1"
    )
    run = override(recipe(name), [*small.split(), "task.vocab=50", "task.length=8"])
    method = method_class(run.method)(run)
    assert ("teacher" in method.frozen) == (run.distill.weight > 0)
    assert '"name": "text"' in dumps(run)
