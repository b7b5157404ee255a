"""The exact denoiser and flow of the reference problem, and a network for either: its embedding is the identity."""

from types import SimpleNamespace

import torch
from torch import Tensor, nn

from dbtm.simplex import Noise, State
from dbtm.simplex.interpolant import one_hot
from tests.methods.reference import ALL, Identity, L, P, V

VERTICES = one_hot(ALL, V, torch.float64)  # (9, L, V)
X = torch.tensor([[[0.5, -0.3, 0.8], [-1.0, 0.2, 0.4]]], dtype=torch.float64)
D_2 = torch.tensor([[[0.347852, 0.206730, 0.445418], [0.268697, 0.263298, 0.468006]]], dtype=torch.float64)
D_6 = torch.tensor([[[0.091184, 0.006041, 0.902775], [0.001752, 0.144181, 0.854067]]], dtype=torch.float64)
X_2_7 = torch.tensor([[[0.270874, -0.076363, 0.805489], [-0.336922, 0.158533, 0.653389]]], dtype=torch.float64)
DELTA_2_7 = torch.tensor([[[0.133398, 0.057820, 0.808782], [0.060925, 0.133652, 0.805423]]], dtype=torch.float64)


def denoiser(x_BLV: Tensor, t: Tensor, clean_BL: Tensor | None = None) -> Tensor:
    """D(x, t) by enumeration of the nine sequences; t is (B,). Clean positions are a given vertex."""
    clean_BL = torch.zeros(x_BLV.shape[:2], dtype=torch.bool) if clean_BL is None else clean_BL
    weight_BL = torch.where(clean_BL, 0.0, (t / (1 - t) ** 2)[:, None])
    score = torch.einsum("blv,klv->blk", x_BLV, VERTICES)
    log_w = P.flatten().log() + (weight_BL[..., None] * score).sum(1)
    agrees = ((score > 0.5) | ~clean_BL[..., None]).all(1)
    return torch.einsum("bk,klv->blv", torch.where(agrees, log_w, -torch.inf).softmax(-1), VERTICES)


def flow(x_BLV: Tensor, s: Tensor, t: Tensor, clean_BL: Tensor | None = None, steps: int = 200) -> Tensor:
    """The exact X_{s,t}(x), t < 1, by RK4 in -log(1 - t), in which the flow is dx = D - x; s and t are (B,)."""
    start, width = -torch.log1p(-s), (torch.log1p(-s) - torch.log1p(-t)) / steps
    free = torch.ones(x_BLV.shape[:2], dtype=torch.bool) if clean_BL is None else ~clean_BL

    def velocity(x, now):
        return torch.where(free[..., None], denoiser(x, -torch.expm1(-now), clean_BL) - x, 0.0)

    x, h = x_BLV, width[:, None, None]
    for i in range(steps):
        now = start + i * width
        k1 = velocity(x, now)
        k2 = velocity(x + h / 2 * k1, now + width / 2)
        k3 = velocity(x + h / 2 * k2, now + width / 2)
        k4 = velocity(x + h * k3, now + width)
        x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x


def two_time(x_BLV: Tensor, s: Tensor, t: Tensor, clean_BL: Tensor | None = None, steps: int = 200) -> Tensor:
    """delta_{s,t}(x) of the exact flow; t = 1 is replaced by .9999, where a sample is at its vertex."""
    t = t.clamp(max=0.9999)
    same = (t - s < 1e-12)[:, None, None]
    end = flow(x_BLV, s, torch.where(t - s < 1e-12, s + 1e-3, t), clean_BL, steps)
    s_, t_ = s[:, None, None], t[:, None, None]
    delta = ((1 - s_) * end - (1 - t_) * x_BLV) / (t_ - s_).clamp(min=1e-12)
    return torch.where(same, denoiser(x_BLV, s, clean_BL), delta)


def two_time_of_tokens(x_BLV: Tensor, s_BL: Tensor, t_BL: Tensor, steps: int = 200) -> Tensor:
    """The same with times per token, 1 for clean ones."""
    clean = s_BL == 1
    s, t = (torch.where(clean, 0.0, x).amax(1).double() for x in (s_BL, t_BL))
    return two_time(x_BLV, s, t, clean, steps)


class Exact(nn.Module):
    """A network whose trunk state is log p(x, *times) + `free`, a parameter that starts at 0: its gradient is that of
    the logits. The embedding is the identity, so an embedded state is the state itself.
    """

    def __init__(self, p, rows: int = 1, learn: bool = True):
        super().__init__()
        self.p, self.head = p, Identity()
        self.shape, self.config = SimpleNamespace(vocab=V, length=L, small_vocab=True), SimpleNamespace(width=V)
        self.free = nn.Parameter(torch.zeros(rows, L, V, dtype=torch.float64)) if learn else None
        self.dtype = torch.float64
        self.token_embedding = torch.eye(V, dtype=torch.float64)
        self.calls, self.recall = 0, None

    def embed_noise(self, noise: Noise | Tensor) -> Tensor:
        return noise.dense() if isinstance(noise, Noise) else noise

    def embed_tokens(self, tokens: Tensor) -> Tensor:
        return one_hot(tokens, V, torch.float64)

    def embed(self, state: State, noise_BLD=None):
        return state.dense().double(), None

    def hidden(self, h: Tensor, dh=None, times=(), rates=None, cache=None):
        self.calls += 1
        logits = self.p(h, *times).clamp(min=1e-300).log()
        learned = self.free is not None and len(self.free) == len(h)  # the trained pass has all rows
        return (logits + self.free if learned else logits), None
