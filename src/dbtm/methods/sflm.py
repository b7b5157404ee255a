"""S-FLM: a flow on the sphere, from a uniform direction to a token's embedding.

x = slerp(n -> e_k; alpha), with n uniform on the sphere and e_k the token's embedding scaled to norm 1. The network
reads x and -log alpha, and predicts the token. The token is the argmax of <x, e_k> long before the arc ends, so the
signal alpha is truncated at that share of the arc (`truncate`). The clock maps times to alpha; it may follow the loss
(`adaptive`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from dbtm import losses
from dbtm.config import MethodConfig, ModelConfig, RunConfig, SampleConfig, Shape
from dbtm.core import rng
from dbtm.core.device import widest
from dbtm.core.errors import UsageError
from dbtm.losses.head import cross_entropy
from dbtm.methods import clock, register_method
from dbtm.methods.base import Examples, Method, Part
from dbtm.methods.times import places, stratified
from dbtm.nn import Backbone
from dbtm.sampling import Given, Trace, Watch
from dbtm.sampling.decode import invert, tempered
from dbtm.simplex import sphere
from dbtm.simplex.interpolant import one_hot

TIME, NOISE = 31, 32  # streams of random numbers of training
START, CHOICE = 231, 232  # and of the sampler
LEAST = 1e-3  # signal at t = 1
WINDOW = 50  # steps stored for a fit of the clock, and steps between fits
FIRST_FIT = 1_000
KEEP = 0.9  # decay of the average over fits


@dataclass(frozen=True)
class Config(MethodConfig):
    """Settings of signal and clock."""

    name: ClassVar[str] = "s-flm"

    truncate: bool = True
    """Truncate the signal at the share of the arc where tokens are already determined."""
    adaptive: bool = True
    """Draw times where the loss changes, in training and in sampling; from step 1,000 on."""


@dataclass(frozen=True)
class Options(SampleConfig):
    """Steps along the sphere."""

    nfe: int = 32
    """Network evaluations: steps of the flow, the last of which gives the tokens."""
    temperature: float = 1.0
    """Temperature of the predicted tokens that a step moves towards; 0 takes the most likely one."""
    top_p: float = 1.0
    """Predict only the most likely tokens that together reach this probability; 1 is off."""
    velocity: Literal["exact", "sample", "top"] = "exact"
    """A step moves towards the mean over tokens, towards a drawn token, or towards the most likely one."""
    tail: Literal["argmax", "sample"] = "argmax"
    """The last evaluation gives the most likely tokens, or draws them."""

    def __post_init__(self):
        self.positive("nfe")
        self.not_negative("temperature")
        self.up_to_one("top_p")


class SphereBackbone(Backbone):
    """A Backbone that reads unit vectors, with the state of the clock: recent losses, and the clock itself."""

    clock: Tensor
    density: Tensor
    fits: Tensor
    seen: Tensor
    latest: Tensor

    def __init__(self, shape: Shape, config: ModelConfig, batch: int):
        super().__init__(shape, config, times=1)
        torch.nn.init.normal_(self.embedding, std=config.width**-0.5)
        self.register_buffer("clock", torch.linspace(0, 1, clock.GRID + 1, dtype=torch.float64))
        self.register_buffer("density", torch.zeros(clock.GRID, dtype=torch.float64))
        self.register_buffer("fits", torch.zeros((), dtype=torch.int64))
        self.register_buffer("seen", torch.zeros(WINDOW, batch, 2, dtype=torch.float64))  # (t, loss)
        self.register_buffer("latest", torch.zeros(batch, 2, dtype=torch.float64))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "SphereBackbone":
        if widest(fn(torch.empty(0)).device) != torch.float64:
            raise UsageError("the method 's-flm' computes in float64, which this device lacks: use device cpu")
        super()._apply(fn, recurse)
        return self

    def directions(self, tokens_BL: Tensor) -> Tensor:
        """e of tokens, (B, L, D) float64; a product for few tokens, whose backward is faster than a gather's."""
        if self.shape.small_vocab:
            return one_hot(tokens_BL, self.shape.vocab, torch.float64) @ self.all_directions()
        return sphere.unit(F.embedding(tokens_BL, self.embedding).double())

    def all_directions(self) -> Tensor:
        """e of every token, (V, D) float64."""
        return sphere.unit(self.embedding.double())

    def read_direction(self, x_BLD: Tensor, signal_B: Tensor) -> Tensor:
        """The trunk state for unit vectors at these signals."""
        x_BLD = x_BLD.to(torch.promote_types(self.dtype, torch.float32))
        return self.hidden(x_BLD, times=(-torch.log(signal_B),))[0]


@register_method
class SFLM(Method[Config, Options]):
    """Cross-entropy of the token given a point of its arc."""

    name = "s-flm"
    network: SphereBackbone

    def __init__(self, config: RunConfig):
        super().__init__(config)
        whole = not self.settings.truncate
        self.most = 1.0 if whole else sphere.truncation(self.shape.vocab, config.model.width)

    def build(self) -> SphereBackbone:
        return SphereBackbone(self.shape, self.config.model, self.config.train.batch)

    def signal(self, t: Tensor) -> Tensor:
        """alpha at t: from the maximum at t = 0 to LEAST at t = 1."""
        return LEAST + (self.most - LEAST) * (1 - t)

    # -- training --------------------------------------------------------------------------------------------------

    def noised(self, examples: Examples, alpha_B: Tensor) -> Tensor:
        """x, (B, L, D) float64, given tokens at the end of their arc."""
        length, width = examples.tokens.shape[1], self.config.model.width
        n_BLD = sphere.unit(rng.normal(examples.key(NOISE), length, width).double())
        e_BLD = self.network.directions(examples.tokens)
        x_BLD = sphere.slerp(n_BLD, e_BLD, alpha_B[:, None, None])
        return torch.where(examples.prompt[..., None], e_BLD, x_BLD)

    def parts(self, examples: Examples) -> Iterator[Part]:
        """Mean cross-entropy of the tokens that are not given."""
        u_B = stratified(examples, TIME, self.config.train.batch)
        t_B = clock.read(self.network.clock, u_B)
        alpha_B, target, count = self.signal(t_B), ~examples.prompt, examples.count()
        rows = self.rows(target)
        trunk = self.network.read_direction(self.noised(examples, alpha_B), alpha_B)
        loss, per_token = cross_entropy(trunk, self.network.head, examples.tokens, target / count, rows)
        if self.settings.adaptive:
            of_row_B = (per_token * target).sum(-1) / target.sum(-1).clamp(min=1)
            self.network.latest[places(examples)] = torch.stack((t_B, of_row_B.double()), -1)
        yield Part(loss, {"cross_entropy": losses.total(per_token * target, count)})

    @torch.no_grad()
    def after_step(self, step: int, ema: Backbone) -> None:
        """Store the step's losses; fit the clock to them at intervals."""
        if not self.settings.adaptive:
            return
        network = self.network
        if dist.is_available() and dist.is_initialized():  # each device has written its own rows
            dist.all_reduce(network.latest)
        network.seen[(step - 1) % WINDOW] = network.latest
        network.latest.zero_()
        if step < FIRST_FIT or step % WINDOW:
            return
        t, loss = network.seen.flatten(0, 1).cpu().numpy().T
        fitted = torch.from_numpy(clock.density(t, loss)).to(network.density.device)
        network.density.mul_(KEEP).add_((1 - KEEP) * fitted)
        network.fits += 1
        mean = network.density / (1 - KEEP ** network.fits.item())
        network.clock.copy_(torch.from_numpy(clock.inverse(mean.cpu().numpy())))
        assert isinstance(ema, SphereBackbone)
        ema.clock.copy_(network.clock)

    # -- sampling --------------------------------------------------------------------------------------------------

    def sample(self, network: SphereBackbone, given: Given, options: Options, seed: int, watch: Watch) -> Trace:
        """k evaluations at the clock's times 1, 1 - 1/k, ..., 1/k: all but the last move x along the arc, the last one
        gives the tokens. Samples whose tokens are all given are not evaluated.
        """
        k, L = options.nfe, given.tokens.shape[1]
        rows = (~given.clean).any(-1).nonzero().squeeze(-1)
        tokens_BL, score_BL = given.tokens.clone(), given.clean.to(torch.float64)
        free = ~given.clean[rows]
        e_VD = network.all_directions()
        n_BLD = rng.normal(rng.fold(seed, START, given.index[rows]), L, e_VD.shape[1])
        x = torch.where(free[..., None], sphere.unit(n_BLD.double()), e_VD[given.tokens[rows]])
        u = torch.arange(k, -1, -1, device=x.device, dtype=torch.float64) / k
        alpha = self.signal(clock.read(network.clock, u))
        read = watch.counted(network.read_direction)
        choice_BR = given.keys(seed, CHOICE, k)
        for r in range(1, k + 1):
            if not len(rows):
                break
            trunk = read(x, alpha[r - 1].expand(len(rows)), rows=rows)
            uniform = rng.uniform(choice_BR[rows, r - 1], L)
            share = None if r == k else ((alpha[r] - alpha[r - 1]) / (1 - alpha[r - 1])).item()
            tokens, score, x = self._step(network, trunk, x, free, uniform, share, e_VD, options)
            tokens_BL[rows] = torch.where(free, tokens, given.tokens[rows])
            score_BL[rows] = torch.where(free, score, 1.0)
            if watch.tracing:
                done = given.clean if r < k else torch.ones_like(given.clean)
                watch.round(tokens_BL, done, score_BL.float(), time=1 - r / k)
        return watch.trace(tokens_BL, given.clean)

    def _step(
        self,
        network: SphereBackbone,
        trunk: Tensor,
        x_BLD: Tensor,
        free_BL: Tensor,
        uniform_BL: Tensor,
        share: float | None,
        e_VD: Tensor,
        options: Options,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Predicted tokens, their probabilities, and x moved by a share of the way; share None: the last evaluation.

        Probabilities over the vocabulary are computed for some positions at a time.
        """
        shape, device = free_BL.shape, free_BL.device
        tokens, score = torch.zeros(shape, dtype=torch.int64, device=device), torch.ones(shape, device=device).double()
        x_BLD = x_BLD.clone()
        flat = x_BLD.view(-1, x_BLD.shape[-1])
        for at in free_BL.flatten().nonzero().squeeze(-1).split(max(1, 2**27 // (8 * self.shape.vocab))):
            logits, _ = network.head(trunk.flatten(0, 1)[at])
            p = logits.double().softmax(-1)
            drawing = options.velocity == "sample" if share is not None else options.tail == "sample"
            D = tempered(logits, options.temperature, options.top_p)
            D = D / D.sum(-1, keepdim=True)
            token = invert(D, uniform_BL.flatten()[at]) if drawing else p.argmax(-1)
            tokens.view(-1)[at], score.view(-1)[at] = token, p.gather(-1, token[:, None]).squeeze(-1)
            if share is not None:
                x = flat[at]
                exact = options.velocity == "exact"
                v = sphere.mean_log_map(x, D, e_VD) if exact else sphere.log_map(x, e_VD[token])
                flat[at] = sphere.exp_map(x, share * v)
        return tokens, score, x_BLD
