"""Drawing: settings say all that matters and nothing else, and samples depend on seed and number alone."""

from dataclasses import replace

import numpy as np
import pytest

from dbtm.core.errors import UsageError
from dbtm.evals.drawing import draw_samples, fitting_batch, resolve
from dbtm.evals.samples import SampleSet
from dbtm.methods.dbtm import Options
from dbtm.sampling import Cancelled, Sampler
from tests.evals.tiny import METHODS, TinyLetters, chain, letters, random_sampler


def sampler(batch=3) -> Sampler:
    options = Options(kappa=0.4, kappa_by_nfe=((4, 0.7),), repetition_penalty=0.5, sigma=1.5)
    return random_sampler(replace(letters(), sample=options), batch=batch)


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
    assert resolve(sampler(), {"nfe": 16, "kappa": 0.2})["kappa"] == 0.2
    assert resolve(sampler(), {"nfe": 16, "repetition_penalty": 0.0})["repetition_penalty"] == 0.0


def test_settings_of_other_methods_are_their_own():
    assert resolve(random_sampler(letters("ar")), {"temperature": 0.5}) == {"temperature": 0.5, "top_p": 1.0}
    own = {"nfe": 4, "temperature": 1.0, "top_p": 1.0, "order": "random", "tail": "sample", "remask": "none"}
    assert resolve(random_sampler(letters("mdlm")), {"nfe": 4}) == own
    loop = resolve(random_sampler(letters("mdlm")), {"nfe": 4, "remask": "loop"})
    assert loop.keys() == own.keys() | {"eta", "loop_start", "loop_end", "loop_alpha"}
    with pytest.raises(UsageError, match="the sampler of 'mdlm' has no option 'kappa'"):
        resolve(random_sampler(letters("mdlm")), {"nfe": 4, "kappa": 0.5})


def test_spread_commits_know_no_threshold():
    assert "kappa" not in resolve(sampler(), {"nfe": 4, "scorer": "spread"})
    with pytest.raises(UsageError, match="kappa changes nothing"):
        resolve(sampler(), {"nfe": 4, "scorer": "spread", "kappa": 0.1})


def test_held_states_know_no_penalty():
    held = resolve(sampler(), {"nfe": 4, "commit": False})
    assert held.keys() == resolve(sampler(), {"nfe": 4}).keys() - {"repetition_penalty"}
    got = draw_samples(sampler(), held, 5, 0).tokens_BL
    np.testing.assert_array_equal(got, sampler().sample(5, nfe=4, commit=False, repetition_penalty=0.0).tokens)


def test_commits_without_a_scorer_are_one_round():
    """All scores are 1: no threshold leaves anything to a second round."""
    assert resolve(sampler(), {"nfe": 4, "scorer": "none"}) == resolve(sampler(), {"nfe": 1})
    trace = sampler().sample(5, nfe=4, scorer="none", kappa=1.0)
    assert (trace.nfe == 1).all()
    np.testing.assert_array_equal(trace.tokens, sampler().sample(5, nfe=1).tokens)
    assert resolve(sampler(), {"nfe": 4, "scorer": "none", "commit": False})["nfe"] == 4
    own = sampler()
    own.options = replace(own.options, scorer="none")
    assert resolve(own, {"sampler": "iterate", "nfe": 4})["nfe"] == 4


def test_one_round_depends_on_noise_and_temperature_alone():
    """What the settings leave out there does not change the samples."""
    base = resolve(sampler(), {"nfe": 1})
    assert base == {"sampler": "refine", "nfe": 1, "sigma": 1.5, "temperature": 0.0}
    wanted = draw_samples(sampler(), base, 5, 0).tokens_BL
    for asked in ({"kappa": 0.0}, {"scorer": "quality"}, {"commit": False}, {"repetition_penalty": 2.0}):
        assert resolve(sampler(), {"nfe": 1, **asked}) == base
        np.testing.assert_array_equal(sampler().sample(5, nfe=1, **asked).tokens, wanted)


@pytest.mark.parametrize(
    ("method", "asked"),
    [
        ("dbtm", {"nfe": 3}),
        ("dbtm", {"sampler": "iterate", "nfe": 3}),
        ("dbtm", {"sampler": "integrate", "nfe": 5, "horizon": 2}),
        ("mdlm", {"nfe": 3}),
        ("ar", {}),
    ],
)
def test_settings_draw_what_the_options_draw_whatever_the_batch(method, asked):
    def own(batch):
        return sampler(batch) if method == "dbtm" else random_sampler(letters(method), batch=batch)

    sets = [draw_samples(own(batch), resolve(own(1), asked), 7, seed=1) for batch in (2, 7)]
    np.testing.assert_array_equal(sets[0].tokens_BL, sets[1].tokens_BL)
    np.testing.assert_array_equal(sets[0].tokens_BL, own(7).sample(7, seed=1, **asked).tokens)
    assert sets[0].texts == TinyLetters().decode(sets[0].tokens_BL)
    assert len(sets[0].texts) == 7
    assert 1 <= sets[0].nfe <= asked.get("nfe", 12)
    assert isinstance(sets[0], SampleSet)


def test_progress_cancellation_and_refusals():
    heard = []
    draw_samples(sampler(), resolve(sampler(), {"sampler": "iterate", "nfe": 1}), 7, 0, progress=heard.append)
    assert heard == [3, 6, 7]
    with pytest.raises(Cancelled):
        draw_samples(sampler(), {"nfe": 1}, 7, 0, progress=heard.append, cancelled=lambda: len(heard) >= 4)
    assert heard == [3, 6, 7, 3]
    with pytest.raises(UsageError, match="sampler='jump' is not a choice"):
        draw_samples(sampler(), {"sampler": "jump", "nfe": 1, "sigma": 1.0}, 1, 0)
    with pytest.raises(UsageError, match="not on text"):
        draw_samples(random_sampler(chain("mdlm")), {"nfe": 1}, 1, 0)


def test_the_batch_that_fits_is_bounded_by_memory():
    for method in METHODS:
        assert fitting_batch(random_sampler(letters(method))) == 2**28 // (4 * 12 * 28)
