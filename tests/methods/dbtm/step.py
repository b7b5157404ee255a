"""Shared by the tests of DBTM's training step: a tiny method in float64, a batch, and its dense noise and states."""

from dataclasses import replace
from itertools import permutations

import torch

from dbtm.core import rng
from dbtm.methods.base import Examples
from dbtm.methods.dbtm import DBTM, DistillConfig, LossConfig, PathConfig, RilConfig
from dbtm.methods.dbtm.streams import CONTEXT, FRACTION, NOISE, TIME
from tests.train.test_resume import tiny_run

B, L, V, PROMPT = 4, 6, 5, 2


def build(**sections) -> DBTM:
    """DBTM with these sections of its settings or of the run, the others at their defaults; no dropout."""
    plain = {"path": PathConfig(t_anchor=0.4), "loss": LossConfig(), "ril": RilConfig(), "distill": DistillConfig()}
    model = replace(tiny_run().model, dropout=0.0)
    method = DBTM(tiny_run(**{"model": model, **plain, **sections})).start()
    perturbed(method.network.double(), 4)
    return method


def perturbed(model, seed):
    """Weights away from their initial values: an untrained map is uniform."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model


def examples(step=0):
    torch.manual_seed(3)
    prompt = torch.zeros(B, L, dtype=torch.bool)
    prompt[:, :PROMPT] = True
    return Examples(torch.randint(0, V, (B, L)), prompt, rng.fold(1, step, torch.arange(B) + 7), step)


def one_hot(tokens):
    return torch.eye(V)[tokens]


def weighted_ce(p, e, c=1.0, r=0.5):
    weight = (((p - e) ** 2).sum(-1) + c).detach() ** -r
    return weight * -(e * p.log()).sum(-1)


def coupled_noise(method, batch, *stream):
    """x0 = sigma z from the samples' keys, with the rows in the order nearest to the data among all B! orders."""
    z = rng.normal(rng.fold(batch.sample_key, *(stream or (NOISE,))), L, V, dtype=torch.float64)
    x0, e = method.settings.path.sigma * z, one_hot(batch.tokens)
    cost = torch.cdist(x0[:, PROMPT:].flatten(1), e[:, PROMPT:].flatten(1)) ** 2
    return x0[list(min(permutations(range(B)), key=lambda order: sum(cost[order[j], j] for j in range(B))))]


def interpolant(method, batch):
    """I_t and dI_t/dt of alg:btm-train-context as dense tensors, the clean positions (B, L) and the times (B, 1)."""
    path, x0, e = method.settings.path, coupled_noise(method, batch), one_hot(batch.tokens)
    t, f = (rng.uniform(batch.key(stream), 1) for stream in (TIME, FRACTION))
    clean = batch.prompt | (rng.uniform(batch.key(CONTEXT), L) < f) if path.context else batch.prompt
    still = clean[..., None]
    share, rate = ((1 - t) ** path.a)[..., None], (-path.a * (1 - t) ** (path.a - 1))[..., None]
    return torch.where(still, e, share * x0 + (1 - share) * e), torch.where(still, 0.0, rate * (x0 - e)), clean, t
