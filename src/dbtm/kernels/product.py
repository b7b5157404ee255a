"""Matrix products with float32 results."""

import torch
from torch import Tensor


def product(a: Tensor, b: Tensor) -> Tensor:
    """a b of two matrices, summed and returned in float32 or wider."""
    if a.is_cuda and a.dtype in (torch.bfloat16, torch.float16):
        return torch.mm(a, b, out_dtype=torch.float32)
    wide = torch.promote_types(a.dtype, torch.float32)
    return a.to(wide) @ b.to(wide)
