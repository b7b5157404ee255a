"""Networks built for weights that come from a file."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from dbtm.nn.unfilled import TooLarge, Unfilled


def test_nothing_is_drawn():
    state = torch.get_rng_state()
    with Unfilled(10**6):
        layers = [nn.Linear(8, 8), nn.Embedding(5, 8), nn.Parameter(torch.randn(3, 8) * 0.5)]
        nn.init.normal_(layers[0].weight)
    assert torch.equal(torch.get_rng_state(), state)
    assert [tuple(layer.shape) for layer in layers[2:]] == [(3, 8)]


def test_what_is_computed_is_right():
    with Unfilled(10**6):
        ones, angles = torch.ones(3), torch.arange(4.0).cos()
    assert ones.tolist() == [1, 1, 1]
    assert torch.equal(angles, torch.arange(4.0).cos())


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(11),
        lambda: torch.empty((11, 1)),
        lambda: torch.randn(2**40, 2**20),
        lambda: torch.empty(size=(2**62,)),
        lambda: (torch.ones(6), torch.ones(5)),
        lambda: nn.Linear(2**20, 2**20),
    ],
)
def test_no_more_is_made_than_there_may_be(make):
    with pytest.raises(TooLarge), Unfilled(10):
        make()
    with Unfilled(10):
        torch.zeros(2, 5)


def test_the_first_solve_imports_no_compiler():
    """Each of these takes about as long to import as all else together."""
    code = (
        "import sys, dbtm; dbtm.load('sudoku').solve('530070000600195000098000060800060003400803001700020006060000280'"
        "'000419005000080079'); print([name for name in "
        "('torch._dynamo', 'sympy', 'scipy', 'matplotlib', 'transformers', 'numba') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
