"""Muon for many small matrices: momentum, orthogonalised by Newton-Schulz, one batched product for each shape.

The update is that of torch.optim.Muon (a test compares them); stacking equal shapes turns thousands of kernel launches
a step into a few dozen, and launches are what a small model's step time is made of on a GPU.
"""

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

_A, _B, _C = 3.4445, -4.7750, 2.0315  # the quintic whose iteration drives all singular values towards 1


def orthogonalise(x: Tensor, steps: int = 5, eps: float = 1e-7) -> Tensor:
    """Approximately U V^T for every matrix U S V^T of the batch (n, rows, columns), in bfloat16."""
    wide = x.shape[-2] <= x.shape[-1]
    x = (x if wide else x.mT).bfloat16()
    x = x / x.flatten(1).norm(dim=1).clamp(min=eps)[:, None, None]
    for _ in range(steps):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C)
        x = torch.baddbmm(x, polynomial, x, beta=_A)
    return x if wide else x.mT


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum; learning rate scaled by sqrt(max(1, rows / columns))."""

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float = 0.02, momentum: float = 0.95, weight_decay: float = 0.0
    ):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[parameter.shape].append(parameter)
            for shape, parameters in by_shape.items():
                gradients = [p.grad for p in parameters]
                buffers = [self._buffer(p) for p in parameters]
                torch._foreach_lerp_(buffers, gradients, 1 - group["momentum"])
                ahead = torch._foreach_lerp(gradients, buffers, group["momentum"])
                updates = orthogonalise(torch.stack(ahead)).to(parameters[0].dtype)
                if group["weight_decay"]:
                    torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
                scale = max(1.0, shape[0] / shape[1]) ** 0.5
                torch._foreach_add_(parameters, list(updates.unbind()), alpha=-group["lr"] * scale)

    def _buffer(self, parameter: nn.Parameter) -> Tensor:
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        return state["momentum_buffer"]
