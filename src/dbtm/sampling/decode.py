"""From logits to proposed tokens and their probability."""

import torch
from torch import Tensor

from dbtm.core.device import wide, wide_device


def count_committed(tokens_BL: Tensor, committed_BL: Tensor, vocab: int) -> Tensor:
    """n_j(C): the number of committed positions with token j, (B, V)."""
    counts = torch.zeros(len(tokens_BL), vocab, device=tokens_BL.device)
    return counts.scatter_add_(1, tokens_BL, committed_BL.to(counts.dtype))


def propose(
    logits_BLV: Tensor,
    temperature: float = 0.0,
    uniform_BL: Tensor | None = None,
    penalty: float = 0.0,
    counts_BV: Tensor | None = None,
    top_p: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Proposed tokens x_hat and their probability <T, x_hat>, (B, L) each (sec:confidence-correct).

    Temperature 0 takes the argmax. Otherwise one float64 uniform per position draws from softmax(f / temperature),
    truncated to top_p, by inverting its cumulative sum; this is unbiased, unlike float32 Gumbel noise. The repetition
    penalty divides both the decoded distribution (at any temperature) and the score by (1 + n_j)^penalty. The score is
    a probability of T itself, at temperature 1.
    """
    log_z = logits_BLV.logsumexp(-1)
    tempered_BLV = wide(logits_BLV) / temperature if temperature else None
    if penalty and counts_BV is not None:
        cost_BLV = penalty * torch.log1p(counts_BV)[:, None, :]
        logits_BLV = logits_BLV - cost_BLV
        tempered_BLV = None if tempered_BLV is None else tempered_BLV - cost_BLV.to(tempered_BLV.device)
    if tempered_BLV is None:
        top, tokens = logits_BLV.max(-1)
        return tokens, (top - log_z).exp()
    assert uniform_BL is not None, "sampling at a temperature needs uniforms"
    tokens = invert(nucleus(tempered_BLV.softmax(-1), top_p), uniform_BL).to(logits_BLV.device)
    return tokens, (logits_BLV.gather(-1, tokens[..., None]).squeeze(-1) - log_z).exp()


def draw_categorical(logits: Tensor, uniform: Tensor, temperature: float = 1.0, top_p: float = 1.0) -> Tensor:
    """Tokens (...,) from softmax(logits / temperature) over the last axis; temperature 0 takes the argmax.

    In float64, by inverting the cumulative sum at one uniform per draw: float32 Gumbel noise is truncated and acts as a
    lower temperature. With top_p below 1, only the most likely tokens that together reach top_p can be drawn.
    """
    if not temperature:
        return logits.argmax(-1)
    return invert(tempered(logits, temperature, top_p), uniform).to(logits.device)


def tempered(logits: Tensor, temperature: float = 1.0, top_p: float = 1.0) -> Tensor:
    """float64 probabilities softmax(logits / temperature), one-hot at 0, truncated to the most likely tokens that reach
    top_p; then they need not sum to 1. On `wide_device`.
    """
    if not temperature:
        at = wide_device(logits.device)
        zeros = torch.zeros_like(logits, dtype=torch.float64, device=at)
        return zeros.scatter_(-1, logits.argmax(-1, keepdim=True).to(at), 1.0)
    return nucleus((wide(logits) / temperature).softmax(-1), top_p)


def invert(weights: Tensor, uniform: Tensor) -> Tensor:
    """Tokens (...,) with probabilities proportional to float64 weights (..., V), one uniform per draw; on the device
    of the weights.
    """
    cumulative = weights.cumsum(-1)
    level = wide(uniform)[..., None] * cumulative[..., -1:]
    return torch.searchsorted(cumulative, level, right=True).squeeze(-1).clamp(max=weights.shape[-1] - 1)


def token_log_p(logits: Tensor, tokens: Tensor) -> Tensor:
    """float64 log-probabilities (...,) of tokens, on `wide_device`."""
    log_p = wide(logits).log_softmax(-1)
    return log_p.gather(-1, tokens[..., None].to(log_p.device)).squeeze(-1)


def nucleus(p: Tensor, top_p: float) -> Tensor:
    """Probabilities, with 0 for all but the most likely tokens that together reach top_p; top_p = 1 keeps all."""
    if top_p >= 1:
        return p
    ordered, order = p.sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    return torch.zeros_like(p).scatter(-1, order, ordered * (before < top_p))
