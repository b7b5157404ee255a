"""The denoising cross-entropy: a metric to compare maps, which have no likelihood."""

import torch

from dbtm.core import rng
from dbtm.core.device import wide_device
from dbtm.methods.base import Examples, Likelihood
from dbtm.methods.dbtm.config import PathConfig
from dbtm.methods.dbtm.streams import CONTEXT, FRACTION, NOISE, TIME
from dbtm.nn import Backbone
from dbtm.sampling.decode import token_log_p
from dbtm.simplex import Noise, State, interpolate, partial_context

TIMES = 8  # per example


@torch.no_grad()
def denoising(network: Backbone, examples: Examples, path: PathConfig) -> Likelihood:
    """CE(T(I_t), x1) on the noisy positions of I_t, at stratified times t, with independent noise and context as in
    training. Per example: means over times of the sum over noisy positions, and of their number.
    """
    at = wide_device(examples.tokens.device)
    sums_B, count_B = (torch.zeros(len(examples.tokens), dtype=torch.float64, device=at) for _ in range(2))
    length = examples.tokens.shape[1]
    for i in range(TIMES):
        key_B = rng.fold(examples.sample_key, TIME, i)
        t_B = ((rng.uniform(rng.fold(key_B, TIME), 1)[:, 0] + i) / TIMES).float().clamp(max=1 - 2**-24)
        f_B = rng.uniform(rng.fold(key_B, FRACTION), 1)[:, 0] * float(path.context)
        u_BL = rng.uniform(rng.fold(key_B, CONTEXT), length)
        clean_BL, t_BL = partial_context(t_B, f_B, u_BL, examples.prompt)
        dtype = torch.promote_types(network.embedding.dtype, torch.float32)
        noise = Noise(rng.fold(key_B, NOISE), length, network.shape.vocab, path.sigma, dtype)
        state = interpolate(examples.tokens, noise, clean_BL, t_BL.to(dtype), path.a)
        h = network.embed(State(state.tokens, state.alpha, state.noise), network.embed_noise(noise))[0]
        ce_BL, noisy_BL = -token_log_p(network.logits(h)[0], examples.tokens), ~clean_BL.to(at)
        sums_B += (ce_BL * noisy_BL).sum(-1) / TIMES
        count_B += noisy_BL.sum(-1) / TIMES
    return Likelihood(sums_B, count_B, exact=False)
