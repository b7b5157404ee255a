"""x0 from its keys: the same numbers in any order of drawing, and x0 W with its gradient without storing x0."""

import pytest
import torch

from dbtm.core import rng
from dbtm.kernels import noise as prior
from dbtm.simplex import Noise, ot_cost
from tests.kernels.conftest import DEVICE, needs_triton


def draw(B=5, L=3, V=7, dtype=torch.float64) -> Noise:
    return Noise(rng.fold(3, torch.arange(B)), L, V, sigma=1.7, dtype=dtype)


@pytest.mark.parametrize("V", [7, 8])
def test_single_numbers_are_those_of_the_whole(V):
    noise = draw(V=V)
    tokens = torch.randint(0, V, (5, 3, 4))
    assert torch.equal(noise.gather(tokens), noise.dense().gather(-1, tokens))
    assert torch.equal(noise[1:3].dense(), noise.dense()[1:3])
    assert torch.equal(noise[torch.tensor([4, 0])].dense(), noise.dense()[[4, 0]])


def test_the_coupling_costs_the_same_without_the_noise():
    noise, tokens = draw(), torch.randint(0, 7, (5, 3))
    target = torch.rand(5, 3) < 0.7
    want = -torch.einsum("ilv,jlv,jl->ij", noise.dense(), torch.eye(7, dtype=torch.float64)[tokens], target.double())
    torch.testing.assert_close(ot_cost(noise, tokens, target), want)
    torch.testing.assert_close(ot_cost(noise.dense(), tokens, target), want)


def test_chunked_embedding_equals_the_product(monkeypatch):
    noise = draw()
    W = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    g = torch.randn(5, 3, 4, dtype=torch.float64)
    whole = prior.embed(noise, W)
    (want,) = torch.autograd.grad(whole, W, g)
    torch.testing.assert_close(whole, noise.dense() @ W)
    drawn = []
    plain = prior.draw
    monkeypatch.setattr(prior, "ALIGN", 4)
    monkeypatch.setattr(prior, "BUDGET", 2 * 3 * 8 * 8)  # two samples of 3 x (7 padded to 8) at a time
    monkeypatch.setattr(prior, "draw", lambda some, *rest: drawn.append(len(some)) or plain(some, *rest))
    chunked = prior.embed(noise, W)
    torch.testing.assert_close(chunked, whole, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(torch.autograd.grad(chunked, W, g)[0], want, rtol=1e-12, atol=1e-12)
    assert drawn == [2, 2, 1] * 2


@needs_triton
@pytest.mark.parametrize("V", [7, 12, 2050])
def test_the_kernel_draws_the_same_numbers(V):
    from dbtm.kernels import triton_noise

    noise = Noise(rng.fold(3, torch.arange(2)).to(DEVICE), 3, V, sigma=0.5)
    got = triton_noise.draw(noise, torch.float32, V + 3)
    exact = 1e-5 if DEVICE == "cuda" else 2e-6  # a GPU's sine and cosine are accurate to 1e-6 of the radius
    torch.testing.assert_close(got[..., :V], noise.dense(), rtol=1e-4, atol=exact)
    assert (got[..., V:] == 0).all()


@needs_triton
@pytest.mark.parametrize(("B", "V"), [(3, 7), (130, 12)])
def test_the_kernel_costs_the_coupling_the_same(B, V):
    from dbtm.kernels import triton_noise

    noise = Noise(rng.fold(3, torch.arange(B)).to(DEVICE), 3, V, sigma=0.5)
    tokens, target = torch.randint(0, V, (B, 3), device=DEVICE), torch.rand(B, 3, device=DEVICE) < 0.7
    got = triton_noise.cost(noise, tokens, target)
    torch.testing.assert_close(got, ot_cost(noise, tokens, target), rtol=1e-4, atol=1e-5)
