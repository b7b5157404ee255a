"""Replayed functions equal plain ones. Without a GPU the recording is a plain call on the recorded tensors."""

import pytest
import torch

from dbtm.core.graphs import Replayed, record

on_gpu = pytest.param(record, "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))


@pytest.mark.parametrize(("how", "device"), [(lambda run, _: run, "cpu"), on_gpu])
def test_any_number_of_rows(how, device):
    calls = []

    def function(x, y):
        calls.append(len(x))
        return x.cumsum(-1) * y[:, None]

    torch.manual_seed(0)
    replayed = Replayed(function, how)
    for n in (5, 8, 1, 6, 3, 8):
        x, y = torch.randn(n, 4).to(device), torch.randn(n).to(device)
        first = replayed(x, y)
        again = replayed(2 * x, y)
        torch.testing.assert_close(first, x.cumsum(-1) * y[:, None])  # not overwritten by the second call
        torch.testing.assert_close(again, 2 * first)
    assert set(calls) == {8, 1, 4}
    assert len(replayed.recorded) == 3


def test_shapes_and_dtypes_do_not_share_a_recording():
    replayed = Replayed(lambda x: x + 1, lambda run, _: run)
    for x in (torch.zeros(2, 3), torch.zeros(2, 4), torch.zeros(2, 3, dtype=torch.float64)):
        assert torch.equal(replayed(x), x + 1)
        assert replayed(x).dtype == x.dtype
    assert len(replayed.recorded) == 3
