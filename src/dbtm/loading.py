"""Loading a trained map: `dbtm.load(checkpoint)` gives a Sampler."""

from pathlib import Path

import torch

from dbtm import config as configuration
from dbtm.nn import TransportMap
from dbtm.sampling.sampler import Sampler
from dbtm.train import checkpoint
from dbtm.train.loop import pick_device


def load(path: str | Path, device: str = "auto") -> Sampler:
    """The averaged weights of a checkpoint (or of a run's newest), checked against their sha256, as a sampler."""
    folder = checkpoint.find(path)
    checkpoint.verify(folder, {"config.json", "ema.safetensors"})
    config = configuration.loads((folder / "config.json").read_text())
    target = pick_device(device)
    model = TransportMap(config.model)
    model.load_state_dict(checkpoint.read_tensors(folder, "ema"))
    if target.type == "cuda":
        model.compute_dtype = torch.bfloat16
    return Sampler(model.to(target).eval().requires_grad_(False), config.sample, config.task)
