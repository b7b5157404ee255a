"""The interpreter as used by the other tests: no access outside the given tensors, bfloat16 rounded to nearest."""

import pytest
import torch

from tests.kernels.conftest import INTERPRETED, needs_triton

pytestmark = [needs_triton, pytest.mark.skipif(not INTERPRETED, reason="only for the interpreter")]


def copy(x: torch.Tensor, y: torch.Tensor, n: int) -> None:
    """y[:n] = x[:n] by a kernel that does not check n."""
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(X, Y, n, N: tl.constexpr):
        at = tl.arange(0, N)
        tl.store(Y + at, tl.load(X + at, mask=at < n).to(Y.dtype.element_ty), mask=at < n)

    kernel[(1,)](x, y, n, 16)


@pytest.mark.parametrize(("source", "target"), [(12, 16), (16, 12)])
def test_no_read_or_write_beyond_a_tensor(source, target):
    x, y = torch.ones(source), torch.zeros(target)
    copy(x, y, 12)
    assert y[:12].eq(1).all()
    with pytest.raises(Exception, match="beyond its tensors"):
        copy(x, y, 13)


def test_a_bfloat16_is_the_nearest_one():
    x = torch.linspace(1, 2, 16)
    y = torch.zeros(16, dtype=torch.bfloat16)
    copy(x, y, 16)
    assert torch.equal(y, x.bfloat16())
    assert y.float().gt(x).any(), "some are rounded up"
