"""Distillation from a frozen teacher by KL(student || teacher), in chunks of rows.

This direction is mode-seeking: with several targets drawn for one input, its optimum is their normalised geometric
mean, not their mean.
"""

import torch
from torch import Tensor, nn

from dbtm.kernels.product import product
from dbtm.losses.rows import chunked_rows
from dbtm.losses.soft_head import aligned


def student_first(
    trunk: Tensor, head: nn.Linear, teacher_trunk: Tensor, teacher_head: nn.Linear, beta: Tensor, rows: Tensor
) -> tuple[Tensor, Tensor]:
    """(sum_n beta_n KL_n under autograd, KL (N,) as a constant) of trunk states (N, D), over `rows`."""
    W, bias = aligned(teacher_head.weight.detach(), teacher_trunk.dtype), teacher_head.bias.detach()

    def row_loss(logits: Tensor, index: Tensor) -> Tensor:
        with torch.no_grad():
            f = product(teacher_trunk[index], W.T)[:, : len(bias)]
            log_q = (f + bias.to(f.dtype)).to(logits.dtype).log_softmax(-1)
        log_p = logits.log_softmax(-1)
        return (log_p.exp() * (log_p - log_q)).sum(-1)

    return chunked_rows(trunk, head, row_loss, beta, rows)
