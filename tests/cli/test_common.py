"""What commands share."""

import pytest

from dbtm.cli.common import refuse_sigma
from dbtm.core.errors import UsageError
from dbtm.sampling import Sampler
from tests.conftest import random_map


def test_a_scale_that_the_map_does_not_see_is_refused():
    blind, seeing = (Sampler(random_map(input_norm=norm)) for norm in (True, False))
    with pytest.raises(UsageError, match=r"--sigma changes nothing"):
        refuse_sigma(blind, 0.5)
    for sampler, sigma in ((blind, None), (seeing, 0.5), (None, 0.5)):
        refuse_sigma(sampler, sigma)


def test_it_does_not_see_it():
    """What the refusal says is so: samples of a map with a norm on its input are the same for every sigma."""
    sampler = Sampler(random_map(input_norm=True, dropout=0.0))
    one, other = (sampler.sample(8, nfe=3, sigma=sigma).tokens for sigma in (1.0, 2.0))
    assert (one == other).all()
