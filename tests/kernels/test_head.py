"""The head's Triton kernel against the plain formulas of losses/head.py."""

import pytest
import torch

from dbtm.losses.head import Adaptive, row_terms
from tests.kernels.conftest import DEVICE, needs_triton

pytestmark = needs_triton


@pytest.mark.parametrize("V", [12, 1000, 5000])
@pytest.mark.parametrize("tangent", [True, False])
@pytest.mark.parametrize("adaptive", [Adaptive(), Adaptive(0.3, 0.0, 0.7, 0.0)])
@pytest.mark.parametrize("scale", [1e-3, 3.0, 100.0])
def test_rows(V, tangent, adaptive, scale):
    from dbtm.kernels import triton_head

    torch.manual_seed(V)
    f, df = (torch.randn(4, V, device=DEVICE) for _ in range(2))
    f, df = f * scale, df + 10  # a common part of df is no tangent of T
    bias = torch.randn(V, device=DEVICE)
    bias[9] = bias[3]
    f[1, 7] = f[1].max() + 10
    f[2, 3] = f[2, 9] = f[2].max() + 10  # a tie: the first one wins
    tokens = torch.tensor([0, 7, 9, V - 1], device=DEVICE)
    alpha, beta = torch.tensor([[1.0, 0.5, 0.0, 2.0], [1.0, 0.0, 0.5, 2.0]], device=DEVICE)
    df = df if tangent else None
    got = triton_head.row_terms(f, df, bias, tokens, alpha, beta, adaptive, torch.float32)
    wide = [None if x is None else x.double() for x in (f, df, bias)]
    want = row_terms(*wide, tokens, alpha.double(), beta.double(), adaptive, True)
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g.to(w.dtype), w, rtol=1e-4, atol=1e-6)
    assert got[2].tolist()[1:3] == [7, 3]
    longer = [None if x is None else torch.nn.functional.pad(x, (0, 5), value=1e9) for x in (f, df)]
    padded = triton_head.row_terms(*longer, bias, tokens, alpha, beta, adaptive, torch.float32)
    for g, w in zip(padded[:5], got[:5], strict=True):
        torch.testing.assert_close(g, w)
    torch.testing.assert_close(padded[5], torch.nn.functional.pad(got[5], (0, 5)))
    assert triton_head.row_terms(f, df, bias, tokens, alpha, beta, adaptive, None)[-1] is None


def test_a_row_of_nan_has_an_argmax():
    """A diverged run must reach its report, which says so, and not fail with an index beyond the vocabulary."""
    from dbtm.kernels import triton_head

    f, one = torch.full((2, 12), torch.nan, device=DEVICE), torch.ones(2, device=DEVICE)
    tokens = torch.zeros(2, dtype=torch.int64, device=DEVICE)
    read = triton_head.row_terms(f, None, torch.zeros(12, device=DEVICE), tokens, one, one, Adaptive(), torch.float32)
    assert ((read[2] >= 0) & (read[2] < 12)).all()
    assert read[1].isnan().all()
