"""Di4C: a mixture of products over a latent, p(x | z) = E_lambda prod_l D_l(. | z, lambda), distilled from a teacher.

In one step a product cannot model the dependence of positions; a mixture can. lambda is uniform on (0, 1) and is read
as one more element of the sequence. With K latents per sequence, m_l = mean_lambda D_l, and Joint and Fact as in
`losses.mixture`, the loss of a sequence at time t (one t for the whole batch) is

    a_t [Fact(x) - Joint(x)] + sum_l KL(teacher_l || m_l)                    a_t = .1 sigmoid(20 (t - 1/2))
    t < delta:  + mean_lambda sum_l KL(teacher_l || D_l(. | lambda))
    t >= delta: + mean_i [Fact(x^i) - Joint(x^i)] + sum_l KL(mean_lambda' D^s_l || m_l)

where D^s is the student, without gradient, after one small step of the teacher, and x^i is drawn from it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from dbtm.config import MethodConfig, RunConfig
from dbtm.core import rng
from dbtm.core.device import widest
from dbtm.core.errors import UsageError
from dbtm.core.limits import MOST_ROUNDS
from dbtm.losses.mixture import joint_minus_fact, read_mixture
from dbtm.methods import duo, mdlm, register_method
from dbtm.methods.base import Examples, Likelihood, Method, Part
from dbtm.nn import Backbone
from dbtm.nn.latent import LatentBackbone
from dbtm.sampling.decode import draw_categorical

TIME, LATENT, STEP, LATER, CHOICE = 71, 72, 73, 74, 75  # streams of random numbers
SAMPLED = 270  # stream of the sampler's latents


@dataclass(frozen=True)
class Di4CConfig(MethodConfig):
    """Settings of latents and times."""

    latents: int = 16
    """Latents per sequence."""
    eps: float = 1e-3
    """Share of clean tokens at t = 1."""
    delta: float = 0.02
    """Below this time each latent learns from the teacher; above it, the student learns from its own next state."""
    small_share: float = 0.3
    """Share of steps at times below delta."""
    grid: int = 1_024
    """Times are multiples of 1 / grid, which is also the teacher's step size."""
    data_weight: float = 0.1
    """Weight of the data's joint likelihood at large t."""

    @property
    def copies(self) -> int:
        return self.latents

    def __post_init__(self):
        self.in_range(1, MOST_ROUNDS, "latents")
        self.positive("grid")
        self.in_range(0, 1, "small_share")
        self.not_negative("data_weight")
        if not 0 < self.eps < 1 or not 0 < self.delta < 1:
            raise UsageError(f"method.eps={self.eps} and method.delta={self.delta} must be above 0 and below 1")


class MDLMDi4CConfig(Di4CConfig):
    name: ClassVar[str] = "mdlm-di4c"


class DuoDi4CConfig(Di4CConfig):
    name: ClassVar[str] = "duo-di4c"


class Mixture:
    """The objective, for a method that defines its noise, its network and its teacher's step."""

    def __init__(self, method: Any):
        self.method, self.settings = method, method.settings

    def time(self, examples: Examples) -> tuple[float, bool]:
        """(t, t < delta), common to the batch: below delta with probability small_share, rounded up to the grid."""
        set_ = self.settings
        which, u = rng.uniform(rng.fold(examples.step_keys()[:1], TIME), 2)[0].tolist()
        small = which < set_.small_share
        t = u * set_.delta if small else set_.delta + u * (1 - set_.delta)
        return math.ceil(t * set_.grid) / set_.grid, small

    def latents(self, key_B: Tensor) -> Tensor:
        """lambda of every row and latent, (B K,)."""
        return rng.uniform(key_B, self.settings.latents).flatten()

    def parts(self, examples: Examples) -> Iterator[Part]:
        method, K = self.method, self.settings.latents
        t, small = self.time(examples)
        z_BL, active_BL = method.noisy_state(examples, t)
        (B, L), teacher = z_BL.shape, method.frozen["teacher"]
        place_n = active_BL.flatten().nonzero().squeeze(-1)
        learns = len(place_n) > 0
        if not learns:  # no noisy token: use one position of weight 0, as all devices must run the same passes
            place_n = place_n.new_zeros(1)
        with torch.no_grad():
            told = method.read_state(teacher, z_BL, t).flatten(0, 1)
            later = None if small else self.later(examples, z_BL, active_BL, told.view(B, L, -1), t)
        z_KL = z_BL.repeat_interleave(K, 0)
        trunk = method.read_state(method.network, z_KL, t, self.latents(examples.key(LATENT)))
        trunk_nKD = trunk.view(B, K, L, -1).transpose(1, 2).flatten(0, 1)[place_n]
        tokens_NT = examples.tokens.flatten()[place_n, None]
        if later is not None:
            tokens_NT = torch.cat((tokens_NT, later.drawn_NK[place_n]), 1)

        def targets(index_n: Tensor) -> tuple[Tensor, Tensor | None]:
            at = place_n[index_n]
            first = teacher.head(told[at])[0].softmax(-1)
            return first, None if later is None else later.mean(method.network, at)

        reads = read_mixture(trunk_nKD, method.network.head, tokens_NT, targets, each=small)
        excess_BT = joint_minus_fact(reads.at_nKT, reads.fact_nT, place_n // L, B)
        a_t = self.settings.data_weight / (1 + math.exp(-20 * (t - 0.5)))
        terms = {
            "joint": -a_t * excess_BT[:, 0].sum() / B,
            "teacher": (reads.to_mean_n + reads.to_each_n).sum() / B,
            "consistency": reads.to_second_n.sum() / B,
        }
        if later is not None:
            terms["consistency"] = terms["consistency"] - excess_BT[:, 1:].mean(1).sum() / B
        terms = {name: term * learns for name, term in terms.items()}
        yield Part(terms["joint"] + terms["teacher"] + terms["consistency"], terms)

    def later(self, examples: Examples, z_BL: Tensor, active_BL: Tensor, told_BLD: Tensor, t: float) -> "Later":
        """The student after one small step of the teacher, a separate step for each latent."""
        method, K = self.method, self.settings.latents
        s = t - min(1 / self.settings.grid, t / 2)
        key = rng.fold(examples.key(STEP)[:, None], torch.arange(K, device=z_BL.device)).flatten()
        z_KL, told = z_BL.repeat_interleave(K, 0), told_BLD.repeat_interleave(K, 0)
        active_KL = active_BL.repeat_interleave(K, 0)
        z_s, settled = method.teacher_step(method.frozen["teacher"], told, z_KL, active_KL, t, s, key)
        network, training = method.network, method.network.training
        network.eval()
        trunk = method.read_state(network, z_s, s, self.latents(examples.key(LATER)))
        network.train(training)
        uniform = rng.uniform(rng.fold(key, CHOICE), z_BL.shape[1])
        return Later(network, *(self.by_position(x) for x in (trunk, settled, z_s, uniform)))

    def by_position(self, x: Tensor) -> Tensor:
        """(B K, L, ...) to (B L, K, ...)."""
        return x.unflatten(0, (-1, self.settings.latents)).transpose(1, 2).flatten(0, 1)


class Later:
    """D^s at every position and latent: a token if final, else the head of a trunk state. No gradient."""

    def __init__(self, network: Backbone, trunk_NKD: Tensor, settled_NK: Tensor, tokens_NK: Tensor, uniform_NK: Tensor):
        self.trunk, self.settled, self.tokens = trunk_NKD, settled_NK, tokens_NK
        self.drawn_NK = tokens_NK.clone(memory_format=torch.contiguous_format)
        open_ = (~settled_NK).flatten().nonzero().squeeze(-1)
        at_once = max(1, 2**28 // (8 * network.shape.vocab))
        for at in open_.split(at_once):
            logits, _ = network.head(trunk_NKD.flatten(0, 1)[at])
            self.drawn_NK.view(-1)[at] = draw_categorical(logits, uniform_NK.flatten()[at])

    def mean(self, network: Backbone, at_n: Tensor) -> Tensor:
        """The mean over latents, (n, V)."""
        p_nKV = network.head(self.trunk[at_n])[0].softmax(-1)
        vertex = torch.zeros_like(p_nKV).scatter_(-1, self.tokens[at_n][..., None].clamp(max=p_nKV.shape[-1] - 1), 1.0)
        return torch.where(self.settled[at_n][..., None], vertex, p_nKV).mean(1)


class Di4C(Method):
    """Shared code of the mixtures; the extended method is the second base class."""

    needs = frozenset({"teacher"})
    taught_by: ClassVar[tuple[str, ...]]  # methods of possible teachers

    def start(self) -> "Di4C":
        super().start()
        with torch.random.fork_rng():
            teacher = super().build()  # the network of the extended method, which reads no latent
        teacher.position_ids.copy_(self.network.position_ids)
        self.frozen["teacher"] = teacher.requires_grad_(False).eval()
        return self

    def check_teacher(self, saved: RunConfig) -> None:
        if saved.method_name not in self.taught_by:
            which = " or ".join(f"'{name}'" for name in self.taught_by)
            raise UsageError(
                f"the method '{self.name}' needs a teacher trained by {which}: the checkpoint is of "
                f"'{saved.method_name}'"
            )

    def adopt(self, weights: dict[str, Tensor]) -> None:
        """Load weights into teacher and student; the student's latent embedding starts from random weights."""
        self.frozen["teacher"].load_state_dict(weights)
        own = {name: value for name, value in self.network.state_dict().items() if name.startswith("latent.")}
        self.network.load_state_dict(own | weights)

    def phase(self, step: int) -> tuple[int, ...]:
        """Every step has a different time, so nothing is replayed."""
        return (step,)

    def parts(self, examples: Examples) -> Iterator[Part]:
        return Mixture(self).parts(examples)

    def nll(self, network: Backbone, examples: Examples) -> Likelihood | None:
        """No bound is implemented for the mixture."""
        return None


@register_method
class MDLMDi4C(Di4C, mdlm.MDLM):  # type: ignore[misc]  # it has no likelihood
    """A mixture of masked-diffusion denoisers, from an MDLM or its SDTT student."""

    name = "mdlm-di4c"
    Config = MDLMDi4CConfig
    teacher = "mdlm"
    taught_by = ("mdlm", "mdlm-sdtt")
    settings: MDLMDi4CConfig

    def build(self) -> LatentBackbone:
        return LatentBackbone(self.shape, self.config.model, extra_ids=1)

    def noisy_state(self, examples: Examples, t: float) -> tuple[Tensor, Tensor]:
        at = examples.tokens.device
        t_B = torch.full((len(examples.tokens),), t, dtype=widest(at), device=at)
        masked = self.masked(examples, t_B)
        return torch.where(masked, self.mask, examples.tokens), masked

    def read_state(self, network: Any, z_BL: Tensor, t: float, latent_B: Tensor | None = None) -> Tensor:
        more = {} if latent_B is None else {"latent_B": latent_B}
        return network.hidden(network.embed_tokens(z_BL), **more)[0]

    def teacher_step(
        self, teacher: Backbone, trunk: Tensor, z: Tensor, active: Tensor, t: float, s: float, key: Tensor
    ) -> tuple[Tensor, Tensor]:
        """An ancestral step: masked tokens are unmasked with probability (t - s) / t, and are then final."""
        length = z.shape[1]
        now = active & (rng.uniform(rng.fold(key, 0), length) < (t - s) / t)
        drawn, _, _ = self._draw(teacher, trunk, now, rng.uniform(rng.fold(key, 1), length), mdlm.Options())
        z_s = torch.where(now, drawn, z)
        return z_s, z_s != self.mask

    def hidden(self, network: Any, h_BLD: Tensor, key_B: Tensor) -> Tensor:
        """A new latent in every evaluation, shared by all positions of a sample."""
        return network.hidden(h_BLD, latent_B=rng.uniform(rng.fold(key_B, SAMPLED), 1)[:, 0])[0]


@register_method
class DuoDi4C(Di4C, duo.Duo):  # type: ignore[misc]
    """The same for uniform tokens, from a Duo or its DCD student: our interpretation, with all positions active."""

    name = "duo-di4c"
    Config = DuoDi4CConfig
    teacher = "duo"
    taught_by = ("duo", "duo-dcd")
    settings: DuoDi4CConfig

    def build(self) -> LatentBackbone:
        return LatentBackbone(self.shape, self.config.model, times=1)

    def alpha(self, t: float) -> float:
        return 1 - (1 - self.settings.eps) * t

    def noisy_state(self, examples: Examples, t: float) -> tuple[Tensor, Tensor]:
        at = examples.tokens.device
        noise_B = torch.full((len(examples.tokens),), 1 - self.alpha(t), dtype=widest(at), device=at)
        return self.noised(examples, noise_B), ~examples.prompt

    def read_state(self, network: Any, z_BL: Tensor, t: float, latent_B: Tensor | None = None) -> Tensor:
        more = {} if latent_B is None else {"latent_B": latent_B}
        time_B = torch.full((len(z_BL),), -math.log(self.alpha(t)), dtype=widest(z_BL.device), device=z_BL.device)
        return network.hidden(network.embed_tokens(z_BL), times=(time_B,), **more)[0]

    def teacher_step(
        self, teacher: Backbone, trunk: Tensor, z: Tensor, active: Tensor, t: float, s: float, key: Tensor
    ) -> tuple[Tensor, Tensor]:
        """A draw from the posterior; no token is ever final."""
        uniform = rng.uniform(key, z.shape[1])
        alphas = self.alpha(t), self.alpha(s)
        z_s, _ = self._step(teacher, trunk, z, active, uniform, *alphas, duo.Options(), False)
        return z_s, ~active

    def hidden(self, network: Any, h_BLD: Tensor, time_B: Tensor, key_B: Tensor) -> Tensor:
        """A new latent in every evaluation, shared by all positions of a sample."""
        latent_B = rng.uniform(rng.fold(key_B, SAMPLED), 1)[:, 0]
        return network.hidden(h_BLD, times=(time_B,), latent_B=latent_B)[0]
