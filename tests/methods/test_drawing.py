"""Options for drawn tokens: refused if nothing is drawn."""

import pytest

from dbtm.core.errors import UsageError
from dbtm.methods.dbtm import Options


@pytest.mark.parametrize("sampler", ["iterate", "integrate"])
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("top_p", {"top_p": 0.9}),
        ("top_p", {"top_p": 0.9, "temperature": 0.0}),
        ("temperature", {"temperature": 1.0}),
        ("temperature", {"temperature": 1.0, "top_p": 0.9}),
    ],
)
def test_samplers_that_draw_no_tokens_refuse_the_options_of_draws(sampler, name, changes):
    with pytest.raises(UsageError, match=f"^{name} changes nothing where sampler={sampler} draws no tokens: leave it"):
        Options(temperature=0.5).changed("dbtm", {"sampler": sampler, **changes})


def test_a_checkpoint_that_draws_can_be_iterated():
    iterated = Options(temperature=0.5, top_p=0.9).changed("dbtm", {"sampler": "iterate", "nfe": 8})
    assert (iterated.temperature, iterated.draws) == (0.5, False)
