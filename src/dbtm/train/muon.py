"""Muon for many small matrices: momentum, orthogonalised by Newton-Schulz, one batched product per shape.

The update is that of torch.optim.Muon (a test compares them). Stacking equal shapes turns thousands of kernel launches
per step into a few dozen; launches dominate the step time of a small model on a GPU.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from dbtm.train.distributed import local

_A, _B, _C = 3.4445, -4.7750, 2.0315  # coefficients of the quintic iteration that moves all singular values towards 1


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


def _whole(matrices: list[Tensor]) -> list[Tensor]:
    """Each matrix orthogonalised, in its own dtype. On a CPU one at a time: there, the last bit of a product depends on
    the number of stacked matrices, and shards stack fewer. In bfloat16 that bit would change the run.
    """
    if not matrices:
        return []
    at_once = 1 if matrices[0].device.type == "cpu" else len(matrices)
    stacks = (torch.stack(matrices[i : i + at_once]) for i in range(0, len(matrices), at_once))
    return [update for stack in stacks for update in orthogonalise(stack).to(stack.dtype).unbind()]


def in_turn(
    shards: list[Tensor], rows: int, group: dist.ProcessGroup, make: Callable[[list[Tensor]], list[Tensor]]
) -> list[Tensor]:
    """`make` of matrices whose rows are sharded over a group. Process k mod n gathers matrix k, computes its update and
    sends all processes their rows. This takes two exchanges for any number of matrices; each is computed once.
    """
    n, me = dist.get_world_size(group), dist.get_rank(group)
    most = -(-rows // n)  # FSDP2 splits like torch.chunk: the last processes may have fewer rows, or none
    cut = [max(0, min(most, rows - most * s)) for s in range(n)]
    columns, count = shards[0].shape[1], [len(shards[owner::n]) for owner in range(n)]
    mine = torch.cat([x.flatten() for owner in range(n) for x in shards[owner::n]])
    there = [c * cut[me] * columns for c in count]  # my rows of every owner's matrices
    back = [count[me] * r * columns for r in cut]  # everyone's rows of my matrices
    pieces = _exchange(mine, there, back, group)
    whole = torch.cat([x.view(count[me], r, columns) for x, r in zip(pieces, cut, strict=True)], 1)
    updates = make(list(whole.unbind()))
    made = torch.stack(updates) if updates else whole
    split = torch.cat([x.flatten() for x in made.split(cut, 1)])
    by_owner = _exchange(split, back, there, group)
    out: list[Tensor] = [shards[0]] * len(shards)
    for owner, x in enumerate(by_owner):
        out[owner::n] = x.view(count[owner], cut[me], columns).unbind()
    return out


def _exchange(x: Tensor, out: list[int], into: list[int], group: dist.ProcessGroup) -> tuple[Tensor, ...]:
    """Exchange shares of a flat tensor between all processes."""
    received = x.new_empty(sum(into))
    dist.all_to_all_single(received, x, into, out, group=group)
    return received.split(into)


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
                weights = [local(p.data) for p in parameters]
                gradients = [local(p.grad) for p in parameters]
                buffers = [local(self._buffer(p)) for p in parameters]
                torch._foreach_lerp_(buffers, gradients, 1 - group["momentum"])
                ahead = list(torch._foreach_lerp(gradients, buffers, group["momentum"]))
                if group["weight_decay"]:
                    torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
                cut = getattr(parameters[0], "device_mesh", None)
                updates = _whole(ahead) if cut is None else in_turn(ahead, shape[0], cut.get_group(), _whole)
                scale = max(1.0, shape[0] / shape[1]) ** 0.5
                torch._foreach_add_(weights, updates, alpha=-group["lr"] * scale)

    def _buffer(self, parameter: nn.Parameter) -> Tensor:
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        return state["momentum_buffer"]
