"""Optimizers and the learning-rate schedule (tab:hyperparameters)."""

from collections.abc import Callable, Mapping

import torch
from torch import nn

from dbtm.config import OptimConfig
from dbtm.train.distributed import local, rows_here
from dbtm.train.muon import Muon


def build_optimizers(model: nn.Module, config: OptimConfig, fused: bool) -> list[torch.optim.Optimizer]:
    """AdamW on all parameters; with Muon, AdamW on all but the matrices inside blocks."""
    named = {n: p for n, p in model.named_parameters() if p.requires_grad}
    matrices = {n: p for n, p in named.items() if config.name == "muon" and is_block_matrix(n, p)}
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(
            [p for n, p in named.items() if n not in matrices],
            lr=config.lr,
            betas=config.betas,
            eps=config.eps,
            weight_decay=config.weight_decay,
            fused=fused,
        )
    ]
    if matrices:
        optimizers.append(Muon(matrices.values(), config.muon_lr, config.muon_momentum, config.weight_decay))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["peak_lr"] = group["lr"]
    return optimizers


def is_block_matrix(name: str, parameter: torch.Tensor) -> bool:
    """Matrices that map hidden states to hidden states; embeddings, heads and modulation stay with Adam."""
    inside = any(part in name for part in ("attention.", "feed_forward."))
    return inside and parameter.ndim == 2 and name.endswith("weight")


def schedule(step: int, steps: int, config: OptimConfig) -> float:
    """The factor on the peak learning rate at a step (counted from 0) of a run of `steps`.

    Linear warm-up, then constant; with wsd, a linear decay to 0 over the last share.
    """
    warm = min(1.0, (step + 1) / config.warmup) if config.warmup else 1.0
    if config.schedule == "wsd":
        decay = max(1, round(config.decay_fraction * steps))
        return warm * min(1.0, (steps - step) / decay)
    return warm


def set_learning_rate(optimizers: list[torch.optim.Optimizer], factor: float) -> None:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["peak_lr"] * factor


# -- optimizer state as named tensors, for safetensors -----------------------------------------------------------------


def state_tensors(optimizers: list[torch.optim.Optimizer], model: nn.Module) -> dict[str, torch.Tensor]:
    """{'parameter|slot': tensor} of every optimizer's state; slots that are numbers become 0-d tensors."""
    names = {id(p): n for n, p in model.named_parameters()}
    out = {}
    for optimizer in optimizers:
        for parameter, state in optimizer.state.items():
            for slot, value in state.items():
                out[f"{names[id(parameter)]}|{slot}"] = torch.as_tensor(value)
    return out


def load_state_tensors(
    optimizers: list[torch.optim.Optimizer], model: nn.Module, tensors: Mapping[str, torch.Tensor]
) -> None:
    """Put the tensors of `state_tensors` back."""
    shapes = {key: tuple(value.shape) for key, value in tensors.items()}
    load_state(optimizers, model, shapes, lambda key, rows: tensors[key] if rows is None else tensors[key][rows])


def load_state(
    optimizers: list[torch.optim.Optimizer],
    model: nn.Module,
    shapes: Mapping[str, tuple[int, ...]],
    read: Callable[[str, slice | None], torch.Tensor],
) -> None:
    """Put the tensors of `state_tensors` back, each on its parameter's device (step counters stay on theirs).

    `shapes` are those of the full tensors; `read(key, rows)` returns one, or this process's rows.
    """
    parameters = dict(model.named_parameters())
    owner = {id(p): o for o in optimizers for g in o.param_groups for p in g["params"]}
    for key, shape in shapes.items():
        name, slot = key.rsplit("|", 1)
        parameter = parameters[name]
        if shape and shape != tuple(parameter.shape):
            raise ValueError(f"the state of {name} has another shape")
        state, fused = owner[id(parameter)].state[parameter], owner[id(parameter)].defaults.get("fused")
        if shape:
            value = read(key, rows_here(parameter))
            kept = torch.empty_like(parameter, dtype=value.dtype, requires_grad=False)
            local(kept).copy_(value)
            state[slot] = kept
        else:
            value = read(key, None)
            state[slot] = (value.to(parameter.device) if fused else value).clone()
