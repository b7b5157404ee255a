"""Which settings an evaluation runs through, for samplers with and without a budget."""

import pytest

from dbtm.config import override
from dbtm.core.errors import UsageError
from dbtm.evals.settings import BUDGETS, check, described, over_budgets
from tests.evals.tiny import letters, random_sampler


def test_budgets_where_there_are_some():
    for method in ("dbtm", "mdlm"):
        sampler = random_sampler(letters(method))
        assert over_budgets(sampler) == [{"nfe": nfe} for nfe in BUDGETS]
        assert over_budgets(sampler, [2, 4], {"temperature": 0.5}) == [
            {"temperature": 0.5, "nfe": 2},
            {"temperature": 0.5, "nfe": 4},
        ]
    ar = random_sampler(letters("ar"))
    assert over_budgets(ar) == [{}]
    assert over_budgets(ar, None, {"top_p": 0.9}) == [{"top_p": 0.9}]
    with pytest.raises(UsageError, match=r"one network evaluation per generated token: .* no budget to choose"):
        over_budgets(ar, [4])


def test_what_a_sampler_lacks_is_refused():
    for method, options, words in (
        ("mdlm", {"scorer": "quality"}, "'mdlm' has no option 'scorer'"),
        ("ar", {"order": "random"}, "'ar' has no option 'order'"),
        ("dbtm", {"order": "random"}, "'dbtm' has no option 'order'"),
        ("dbtm", {"top_p": 0.5}, "top_p changes nothing at temperature 0"),
        ("dbtm", {"scorer": "best"}, "scorer='best' is not a choice"),
        ("mdlm", {"temperature": -1.0}, "must not be negative"),
    ):
        with pytest.raises(UsageError, match=words):
            over_budgets(random_sampler(letters(method)), None, options)


def test_a_scale_that_the_network_normalises_away_is_refused():
    normed = random_sampler(override(letters(), ["model.input_norm=true"]))
    check(random_sampler(letters()), {"sigma": 2.0})
    check(normed, {"temperature": 0.5})
    with pytest.raises(UsageError, match="sigma, the scale of the noise, changes nothing"):
        check(normed, {"sigma": 2.0})


def test_rows_hold_what_samples_depend_on_and_can_be_compared():
    """Threshold and scorer stand there at a budget of 1 too, where nothing depends on them."""
    sampler = random_sampler(letters())
    one, four = (described(sampler, {"nfe": nfe, "kappa": 0.3}) for nfe in (1, 4))
    assert one == {"nfe": 1, "kappa": 0.3, "scorer": "confidence", "sampler": "refine", "sigma": 1.25, "temperature": 0}
    assert four == one | {"nfe": 4, "commit": True, "fresh_noise": True, "repetition_penalty": 0.0}
    assert described(sampler, {"nfe": 4, "scorer": "spread"})["kappa"] is None
    assert described(sampler, {"nfe": 4, "scorer": "none"})["nfe"] == 4, "as it was asked for, though one round does it"
    assert described(random_sampler(letters("ar")), {}) == {"temperature": 1.0, "top_p": 1.0}
