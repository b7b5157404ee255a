"""Drawing: settings say all that matters and nothing else, and samples depend on seed and number alone."""

from dataclasses import replace

import numpy as np
import pytest

from dbtm.config import SampleConfig
from dbtm.core.errors import UsageError
from dbtm.evals.draw import draw, fitting_batch, resolve
from dbtm.sampling import Sampler
from dbtm.sampling.iterate import integrate, iterate
from dbtm.tasks.base import Task
from tests.conftest import random_map


class Words(Task):
    name = "words"
    held_out = np.zeros((1, 9), int)

    def decode(self, tokens_BL):
        return [" ".join(map(str, row)) for row in tokens_BL]


def sampler(batch=3):
    options = SampleConfig(kappa=0.4, kappa_by_nfe=((4, 0.7),), penalty_by_nfe=((2, 0.5), (8, 1.0)), sigma=1.5)
    return Sampler(random_map().double(), options, Words(), batch)


def test_settings_hold_the_checkpoints_own_values():
    assert resolve(sampler(), {"nfe": 4, "temperature": 0.5}) == {
        "sampler": "refine",
        "nfe": 4,
        "sigma": 1.5,
        "temperature": 0.5,
        "kappa": 0.7,  # tuned for this budget
        "scorer": "confidence",
        "commit": True,
        "repetition_penalty": 0.5,
        "fresh_noise": True,
    }
    assert resolve(sampler(), {"nfe": 16, "kappa": 0.2})["repetition_penalty"] == 1.0
    assert resolve(sampler(), {"nfe": 16, "repetition_penalty": 0.0})["repetition_penalty"] == 0.0


def test_spread_commits_know_no_threshold():
    assert "kappa" not in resolve(sampler(), {"nfe": 4, "scorer": "spread"})
    with pytest.raises(UsageError, match="kappa changes nothing"):
        resolve(sampler(), {"nfe": 4, "scorer": "spread", "kappa": 0.1})


def test_held_states_know_no_penalty():
    held = resolve(sampler(), {"nfe": 4, "commit": False})
    assert held.keys() == resolve(sampler(), {"nfe": 4}).keys() - {"repetition_penalty"}
    got = draw(sampler(), held, 5, 0).tokens_BL
    np.testing.assert_array_equal(got, sampler().sample(5, nfe=4, commit=False, repetition_penalty=0.0).tokens)


def test_commits_without_a_scorer_are_one_round():
    """All scores are 1: no threshold leaves anything to a second round, unless it is above 1."""
    assert resolve(sampler(), {"nfe": 4, "scorer": "none"}) == resolve(sampler(), {"nfe": 1})
    trace = sampler().sample(5, nfe=4, scorer="none", kappa=1.0)
    assert (trace.nfe == 1).all()
    np.testing.assert_array_equal(trace.tokens, sampler().sample(5, nfe=1).tokens)
    assert resolve(sampler(), {"nfe": 4, "scorer": "none", "kappa": 1.5})["nfe"] == 4
    assert resolve(sampler(), {"nfe": 4, "scorer": "none", "commit": False})["nfe"] == 4
    own = sampler()
    own.options = replace(own.options, scorer="none")
    assert resolve(own, {"sampler": "iterate", "nfe": 4})["nfe"] == 4


def test_one_round_depends_on_noise_and_temperature_alone():
    """What `resolve` leaves out there does not change the samples."""
    base = resolve(sampler(), {"nfe": 1})
    assert base == {"sampler": "refine", "nfe": 1, "sigma": 1.5, "temperature": 0.0}
    wanted = draw(sampler(), base, 5, 0).tokens_BL
    for asked in ({"kappa": 0.0}, {"scorer": "quality"}, {"commit": False}, {"repetition_penalty": 2.0}):
        assert resolve(sampler(), {"nfe": 1, **asked}) == base
        np.testing.assert_array_equal(sampler().sample(5, nfe=1, **asked).tokens, wanted)


@pytest.mark.parametrize(
    "asked", [{"nfe": 3}, {"sampler": "iterate", "nfe": 3}, {"sampler": "integrate", "nfe": 5, "horizon": 2}]
)
def test_the_batch_changes_nothing(asked):
    sets = [draw(sampler(batch), resolve(sampler(), asked), 7, seed=1) for batch in (2, 7)]
    np.testing.assert_array_equal(sets[0].tokens_BL, sets[1].tokens_BL)
    assert sets[0].texts == Words().decode(sets[0].tokens_BL)
    assert len(sets[0].texts) == 7
    assert 1 <= sets[0].nfe <= asked["nfe"]


def test_the_flows_are_those_of_the_sampling_room():
    own = sampler(8)
    given = own.given(np.zeros((4, 9), int), None)
    got = draw(own, resolve(own, {"sampler": "iterate", "nfe": 3}), 4, seed=2)
    np.testing.assert_array_equal(got.tokens_BL, iterate(own.model, given, 3, 1.5, 2).tokens)
    got = draw(own, resolve(own, {"sampler": "integrate", "nfe": 8, "horizon": 4}), 4, seed=2)
    np.testing.assert_array_equal(got.tokens_BL, integrate(own.model, given, 8, 4.0, 1.5, 2).tokens)
    assert got.settings == {"sampler": "integrate", "nfe": 8, "horizon": 4.0, "sigma": 1.5}


def test_progress_and_refusals():
    told = []
    draw(sampler(), resolve(sampler(), {"sampler": "iterate", "nfe": 1}), 7, 0, progress=told.append)
    assert told == [3, 6, 7]
    with pytest.raises(UsageError, match="no sampler 'jump'"):
        draw(sampler(), {"sampler": "jump", "nfe": 1, "sigma": 1.0}, 1, 0)
    with pytest.raises(UsageError, match="not on text"):
        draw(Sampler(random_map()), resolve(sampler(), {"nfe": 1}), 1, 0)


def test_the_batch_that_fits_is_bounded_by_memory():
    assert fitting_batch(sampler()) == 2**28 // (4 * 9 * 7)
