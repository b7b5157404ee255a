"""The bound of uniform-token diffusion against its definition, and the chunked head against dense logits."""

import pytest
import torch
from torch import nn

from dbtm.losses.rows import chunked_rows
from dbtm.losses.uniform import uniform_bound

V = 7


def definition(logits, x, z, alpha, rate):
    """Term by term, in float64."""
    D = logits.double().softmax(-1)
    bar, predicted = V * alpha * nn.functional.one_hot(x, V).double() + 1 - alpha, V * alpha * D + 1 - alpha
    ratio = bar / bar[z]
    inner = (ratio * (predicted[z] * bar / (predicted * bar[z])).log()).sum()
    return rate / (V * alpha) * (V / bar[z] - V / predicted[z] - inner)


@pytest.mark.parametrize("alpha", [1e-3, 0.3, 0.999])
@pytest.mark.parametrize("same", [True, False])
def test_it_is_its_definition(alpha, same):
    generator = torch.Generator().manual_seed(1)
    for _ in range(5):
        logits = 2 * torch.randn(V, dtype=torch.float64, generator=generator)
        x = torch.randint(V, (), generator=generator)
        z = x if same else (x + 3) % V
        noise, rate = torch.tensor([[1 - alpha], [-0.7]], dtype=torch.float64)
        want = definition(logits, x, z, alpha, -0.7)
        torch.testing.assert_close(
            uniform_bound(logits[None], x[None], z[None], noise, rate)[0], want, atol=1e-9 / alpha, rtol=1e-8
        )


def test_single_precision_is_enough_at_both_ends():
    """A vocabulary of text, alpha near 0 and near 1: float32 logits give the same result as float64 logits."""
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(4, 5_000, generator=generator, dtype=torch.float64)
    x, z = torch.tensor([1, 1, 7, 7]), torch.tensor([1, 2, 7, 9])
    noise, rate = torch.tensor([1e-3, 1e-5, 0.999, 0.999], dtype=torch.float64), -torch.ones(4)
    wide = uniform_bound(logits, x, z, noise, rate)
    torch.testing.assert_close(uniform_bound(logits.float(), x, z, noise, rate), wide, rtol=1e-4, atol=1e-6)


def test_one_token_is_predicted_best_by_its_prior_whatever_was_seen():
    """The minimiser does not use the evidence of z itself: for one token it is the prior, at every z."""
    prior, alpha = torch.tensor([0.1, 0.2, 0.3, 0.1, 0.1, 0.15, 0.05], dtype=torch.float64), 0.5
    logits = prior.log().expand(V, V).clone().requires_grad_()  # a row for every z
    loss = torch.zeros((), dtype=torch.float64)
    for x in range(V):
        q = alpha * nn.functional.one_hot(torch.tensor(x), V) + (1 - alpha) / V
        rows = (
            logits,
            torch.full((V,), x),
            torch.arange(V),
            torch.full((V,), 1 - alpha, dtype=torch.float64),
            -torch.ones(V),
        )
        loss = loss + prior[x] * (q * uniform_bound(*rows)).sum()
    loss.backward()
    assert logits.grad.abs().max() < 1e-15
    assert loss > 0


def test_the_chunked_head_equals_dense_logits():
    torch.manual_seed(0)
    head = nn.Linear(5, V, dtype=torch.float64)
    h = torch.randn(11, 5, dtype=torch.float64, requires_grad=True)
    target, beta = torch.arange(11) % V, torch.rand(11, dtype=torch.float64)
    rows = torch.tensor([0, 2, 3, 5, 8, 9, 10])

    def row_loss(logits, index):
        return (logits.log_softmax(-1)[torch.arange(len(index)), target[index]] * (1 + index)).sin()

    def gradients(loss):
        return torch.autograd.grad(loss, (h, head.weight, head.bias))

    loss, per_row = chunked_rows(h, head, row_loss, beta, rows, budget=3 * 64 * 24)  # several chunks
    dense = row_loss(head(h[rows]), rows)
    torch.testing.assert_close(per_row[rows], dense.detach())
    assert (per_row[[1, 4, 6, 7]] == 0).all()
    want = (beta[rows] * dense).sum()
    torch.testing.assert_close(loss, want)
    for got, expected in zip(gradients(2 * loss), gradients(2 * want), strict=True):
        torch.testing.assert_close(got, expected, atol=1e-12, rtol=0)
