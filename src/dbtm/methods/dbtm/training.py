"""Discrete Beckmann Transport Models: the paper's training step (alg:btm-train-context, alg:btm-ril)."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dbtm import losses
from dbtm.config import RunConfig
from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.kernels.noise import coupling_cost
from dbtm.losses.head import Adaptive, HeadLosses, chunked_head
from dbtm.methods import register_method
from dbtm.methods.base import Examples, Likelihood, Method, Part
from dbtm.methods.dbtm.config import NO_POSTERIOR, Config
from dbtm.methods.dbtm.denoising import denoising
from dbtm.methods.dbtm.distill import distill_parts, teacher_rollout
from dbtm.methods.dbtm.evaluator import Evaluator
from dbtm.methods.dbtm.exported import ExportedRounds
from dbtm.methods.dbtm.iterate import SAMPLERS
from dbtm.methods.dbtm.network import TransportMap
from dbtm.methods.dbtm.options import Options
from dbtm.methods.dbtm.planning import plan_by_nfe
from dbtm.methods.dbtm.reflow import noise_reader, reflow_parts
from dbtm.methods.dbtm.revise import confirm, revise
from dbtm.methods.dbtm.ril import hand_on, ril_parts, shared
from dbtm.methods.dbtm.streams import AGAIN, CONTEXT, FRACTION, KNOWN, LOOPS, NOISE, ONE, START, TIME, TURN
from dbtm.nn import Backbone
from dbtm.sampling import Given, Trace, Watch
from dbtm.simplex import Noise, State, assignment, commitment_time, interpolate, partial_context, spread

SHARED_PASS_LIMIT = 0.25  # boundary rows per row at I_t, up to which they share its pass


@register_method
class DBTM(Method[Config, Options]):
    """Puts coupling, interpolant, map and losses together."""

    name = "dbtm"
    network: TransportMap

    def __init__(self, config: RunConfig):
        super().__init__(config)
        path, loss, ril = self.settings.path, self.settings.loss, self.settings.ril
        self.noise_reader: Tensor | None = None  # reflow's R of this step's weights
        self.t_anchor = (
            commitment_time(self.shape.vocab, path.sigma, path.a) if path.t_anchor is None else path.t_anchor
        )
        self.weights = {  # lambda of every term
            "transport": loss.transport,
            "semigroup": loss.semigroup,
            "boundary": loss.boundary,
            "anchor": loss.anchor,
            "quality": loss.quality,
            "posterior": self.settings.posterior.weight,
            "ril": ril.weight,
            "ril_quality": ril.weight * ril.quality,
            "ril_transport": ril.transport,
            "ril_anchor": ril.anchor,
            "semi_r": ril.semigroup,
            "distill": self.settings.distill.weight,
            "reflow": self.settings.reflow.weight,
        }

    def build(self) -> TransportMap:
        return TransportMap(self.shape, self.config.model, self.settings.quality)

    def start(self) -> "DBTM":
        super().start()
        if self.settings.teaching:
            self.frozen["teacher"] = copy.deepcopy(self.network).requires_grad_(False).eval()
        return self

    def check_start(self, initialised: bool) -> None:
        super().check_start(initialised)
        teaching = self.settings.teaching
        if teaching and not teaching.start and not initialised:
            raise UsageError(
                f"{teaching.section}.start=0 needs a teacher that is trained: start from one, train.init=CHECKPOINT"
            )

    def check_length(self, steps: int) -> None:
        teaching = self.settings.teaching
        if teaching and steps <= teaching.start:
            raise UsageError(
                f"{steps} steps fit into the time, but {teaching.section}.start={teaching.start}: give it more, or let "
                "it start earlier"
            )

    # -- the step --------------------------------------------------------------------------------------------------

    def phase(self, step: int) -> tuple[int, ...]:
        """Whether semigroup, refinement in the loop and semi-r are on, the one round of every depth that is supervised
        (0: all), the number of self-distillation's teacher, whose folded constants are other tensors than those of
        the teacher before, and, where it is drawn, the number of loops.
        """
        *starts, teacher = self.stage(step)
        rolling = bool(starts[1])
        rounds = (self.supervised_round(step, k) if rolling else 0 for k in self.settings.ril.depths)
        drawn = (self.loops_at(step),) if self.settings.loops else ()
        return *starts, *rounds, teacher, *drawn

    def stage(self, step: int) -> tuple[int, ...]:
        loss, ril, teaching = self.settings.loss, self.settings.ril, self.settings.teaching
        teacher = max(0, (step - teaching.start) // teaching.refresh + 1) if teaching else 0
        starts = ((loss.semigroup, loss.semigroup_start), (ril.on, ril.start), (ril.semigroup, ril.semigroup_start))
        return *(int(bool(weight) and step >= start) for weight, start in starts), teacher

    def loops_at(self, step: int) -> int:
        choices = self.settings.loops
        if not choices:
            return super().loops_at(step)
        return choices[int(rng.uniform(rng.fold(self.config.train.seed, LOOPS, step)[None], 1) * len(choices))]

    def supervised_round(self, step: int, k: int) -> int:
        """The round of a rollout that is supervised in a step, the same for all its samples; 0 for all rounds."""
        if self.settings.ril.rounds == "all":
            return 0
        return 1 + int(rng.uniform(rng.fold(self.config.train.seed, ONE, step, k)[None], 1) * k)

    def parts(self, examples: Examples) -> Iterator[Part]:
        """The objective, one network pass at a time (end of sec:refinement-in-loop):

            L = transport + l_semi semigroup + l_bnd boundary + l_anchor anchor + l_phi quality
                + l_post posterior + l_ril (ril + l_quality ril_quality) + l_semi_r semi_r + l_distill distill
                + l_reflow reflow

        x0 W is computed once, for the rows that read it, and shared by every state: the passes read a detached copy,
        whose gradient is handed on to the embedding when the last of them has been backpropagated.
        """
        with self.network.looped(self.loops_at(examples.step)):
            yield from self._parts(examples)

    def _parts(self, examples: Examples) -> Iterator[Part]:
        known = self.phase(examples.step)
        semigroup, ril, semi_r, *rounds, teacher = known[:-1] if self.settings.loops else known
        noise = self.draw_noise(examples)
        noisy = len(examples.first(self.settings.noisy_fraction).tokens)
        embedded_BLD = self.network.embed_noise(noise[:noisy])
        noise_BLD = shared(embedded_BLD)
        state, t_BL = self.draw_state(examples, noise)
        if self.settings.at_interpolant:
            yield from self.interpolant_parts(state, noise_BLD, t_BL, examples, bool(semigroup))
        if self.weights["posterior"]:
            yield self.posterior_part(examples.first(self.settings.posterior.fraction))
        if ril:
            yield from self.rollouts(state, noise_BLD, examples, rounds, bool(semi_r))
        if teacher and self.settings.distill.weight:
            yield from self.soft_ril_parts(state, noise_BLD, examples)
        elif teacher:
            some = examples.first(self.settings.reflow.fraction)
            yield from reflow_parts(self, noise_BLD[: len(some.tokens)], some)
        hand_on(embedded_BLD, noise_BLD)

    def rollouts(
        self, state: State, noise_BLD: Tensor, examples: Examples, rounds: list[int], semi_r: bool
    ) -> Iterator[Part]:
        """Rollouts of all depths: a datum's first from the step's own noise, its others from noise of their own."""
        ril = self.settings.ril
        for sample in range(ril.samples):
            for k, only in zip(ril.depths, rounds, strict=True):
                if not sample:
                    yield from ril_parts(self, k, state, noise_BLD, examples, sample, semi_r, only)
                    continue
                other = replace(state, noise=self.draw_noise(examples, AGAIN, sample, k))
                embedded_BLD = self.network.embed_noise(other.noise)
                copy_BLD = shared(embedded_BLD)
                yield from ril_parts(self, k, other, copy_BLD, examples, sample, semi_r, only)
                hand_on(embedded_BLD, copy_BLD)

    def prepare(self, examples: Examples) -> Examples:
        """Couple noise to data, which takes a while on the CPU and none of the weights."""
        if self.settings.path.coupling == "independent" or len(examples.tokens) == 1:
            return examples
        return replace(examples, noise_rows=self.couple(self.noise(examples, NOISE), examples))

    def noise(self, examples: Examples, *stream: int) -> Noise:
        """x0 ~ N(0, sigma^2), each row from its own sample's key."""
        key_B = rng.fold(examples.sample_key, *stream)
        path = self.settings.path
        return Noise(key_B, examples.tokens.shape[1], self.shape.vocab, path.sigma, self.noise_dtype)

    def couple(self, noise: Noise, examples: Examples) -> Tensor:
        """The row of noise that every row of data is given, by optimal transport; prompts and tokens stay."""
        return assignment(coupling_cost(noise, examples.tokens, ~examples.prompt))

    def draw_noise(self, examples: Examples, *stream: int) -> Noise:
        """x0, coupled to the data: the keys of the noise are permuted."""
        noise = self.noise(examples, *(stream or (NOISE,)))
        if self.settings.path.coupling == "independent" or len(noise) == 1:
            return noise
        known = None if stream else examples.noise_rows
        return noise[self.couple(noise, examples) if known is None else known]

    @property
    def noise_dtype(self) -> torch.dtype:
        return torch.promote_types(self.network.embedding.dtype, torch.float32)

    def draw_state(self, examples: Examples, noise: Noise) -> tuple[State, Tensor]:
        """The partial-context interpolant and its per-position times."""
        t_B = rng.uniform(examples.key(TIME), 1)[:, 0].to(noise.dtype).clamp(max=1 - 2**-24)  # rounded, it may be 1
        f_B = rng.uniform(examples.key(FRACTION), 1)[:, 0] * float(self.settings.path.context)
        u_BL = rng.uniform(examples.key(CONTEXT), examples.tokens.shape[1])
        clean_BL, t_BL = partial_context(t_B, f_B, u_BL, examples.prompt)
        return interpolate(examples.tokens, noise, clean_BL, t_BL, self.settings.path.a), t_BL

    # -- terms -----------------------------------------------------------------------------------------------------

    def read_head(
        self,
        trunk: Tensor,
        dtrunk: Tensor | None,
        tokens: Tensor,
        alpha: Tensor,
        beta: Tensor,
        rows: Tensor,
        adaptive: Adaptive | None = None,
    ) -> HeadLosses:
        """The head at some positions, a chunk of them at a time: weighted losses and what it predicts."""
        weights, head = self.settings.loss, self.network.head
        adaptive = adaptive or Adaptive(weights.c, weights.r, weights.endpoint_c, weights.endpoint_r)
        flat = (tokens.flatten(), alpha.flatten(), beta.flatten())
        dh = None if dtrunk is None else dtrunk.flatten(0, 1)
        loss, *reads = chunked_head(trunk.flatten(0, 1), dh, head.weight, head.bias, *flat, adaptive, rows)
        return HeadLosses(loss, *(read.view_as(tokens) for read in reads))

    def interpolant_parts(
        self, state: State, noise_BLD: Tensor, t_BL: Tensor, examples: Examples, semigroup: bool
    ) -> Iterator[Part]:
        """Everything that reads the map at I_t (transport, anchor, semigroup, quality), and the boundary CE(T(x1), x1),
        each on its fraction of the examples. A few boundary rows ride in the same batch, where they carry a
        zero tangent, wasted but cheap; many make a pass of their own.
        """
        weights = self.settings.loss
        some, edge = examples.first(weights.interpolant_fraction), examples.first(weights.boundary_fraction)
        n, m = len(some.tokens), len(edge.tokens) if weights.boundary else 0
        if m > SHARED_PASS_LIMIT * n:
            yield self.boundary_part(state.rows(slice(0, m)), noise_BLD[:m], edge)
            m = 0
        if not weights.transport:
            state = State(state.tokens, state.alpha, state.noise)  # no rate: no tangent is computed
        now, t_BL = state.rows(slice(0, n)), t_BL[:n]
        both = now.joined(state.rows(slice(0, m)).at_data())
        free, inside = ~now.clean, ~edge.prompt[:m]
        anchored = (~some.prompt if weights.anchor_context else free) & (t_BL > self.t_anchor)
        count, edge_count = some.count(), edge.count()
        at_free, at_data, lambdas = 1 / count, 1 / edge_count, self.weights
        alpha = torch.cat((lambdas["transport"] * at_free * free, torch.zeros_like(inside, dtype=t_BL.dtype)))
        beta = torch.cat((lambdas["anchor"] * at_free * anchored, lambdas["boundary"] * at_data * inside))
        rows = self.rows(torch.cat((free | anchored if weights.anchor_context else free, inside)))
        trunk, dtrunk = self.network.hidden(*self.network.embed(both, torch.cat((noise_BLD[:n], noise_BLD[:m]))))
        read = self.read_head(trunk, dtrunk, both.tokens, alpha, beta, rows)
        terms = {}
        if weights.anchor:
            terms["anchor"] = losses.total(read.endpoint[:n] * anchored, count)
        if weights.transport:
            terms["transport"] = losses.total(read.transport[:n] * free, count)
        if m:
            terms["boundary"] = losses.total(read.endpoint[n:] * inside, edge_count)
        others = {}
        if semigroup:
            logits, _ = self.network.head(trunk[:n])
            per_token = losses.semigroup(logits, self.iterates(logits, now))
            others["semigroup"] = losses.total(per_token * free, count)
        if self.network.quality is not None and weights.quality:
            others["quality"] = self.quality_term(trunk[:n], read.argmax[:n], now.tokens, free, free, count)
        yield self.part(read.loss, terms, others)

    def boundary_part(self, state: State, noise_BLD: Tensor, examples: Examples) -> Part:
        """CE(T(x1), x1) in a pass of its own."""
        h, _ = self.network.embed(state.at_data(), noise_BLD)
        return self.cross_entropy_part("boundary", h, ~examples.prompt, examples)

    def posterior_part(self, examples: Examples) -> Part:
        """CE(T(x1 on C, 1/V elsewhere), x1) outside of C: its minimum is p(x1 | x1 on C) and nothing else."""
        posterior = self.settings.posterior
        known = self.drawn_context(examples, KNOWN, 0.0, posterior.spread, posterior.late)
        h = self.network.embed_known(examples.tokens, known)
        return self.cross_entropy_part("posterior", h, ~known, examples, Adaptive(endpoint_r=0.0))

    def cross_entropy_part(
        self, name: str, h: Tensor, learned: Tensor, examples: Examples, adaptive: Adaptive | None = None
    ) -> Part:
        """CE(T(x), x1) of an embedded state at some positions."""
        count = examples.count()
        beta = self.weights[name] * (1 / count) * learned
        rows = self.rows(learned)
        trunk, _ = self.network.hidden(h)
        read = self.read_head(trunk, None, examples.tokens, beta * 0, beta, rows, adaptive)
        return Part(read.loss, {name: losses.total(read.endpoint * learned, count)})

    def part(self, head_loss: Tensor, head_terms: dict[str, Tensor], others: dict[str, Tensor]) -> Part:
        """The head's losses, weighted already, and the other terms with their weights."""
        loss = head_loss + losses.objective(others, self.weights) if others else head_loss
        return Part(loss, head_terms | others)

    def quality_term(
        self, trunk: Tensor, argmax: Tensor, tokens: Tensor, open_BL: Tensor, counted: Tensor, count: Tensor
    ) -> Tensor:
        """The quality head on what the map proposes at the open positions; where nothing is to be proposed it reads the
        token that is there, as it does when sampling. Which of the open positions count is another matter.
        """
        proposed = torch.where(open_BL, argmax, tokens)
        q = self.network.quality_logits(trunk, proposed)
        return losses.total(losses.quality(q, proposed, tokens, self.settings.loss.positive_weight) * counted, count)

    @torch.no_grad()
    def iterates(self, logits: Tensor, state: State) -> Iterator[Tensor]:
        """T^k(I_t) for k in K, clean positions held; the first application is the one already made, the others are
        made without dropout.
        """
        depths, x1_BLV, training = self.settings.loss.semigroup_depths, None, self.network.training
        p = logits.detach().softmax(-1)
        for k in range(1, max(depths) + 1):
            if k > 1:
                x1_BLV = state.at_data().dense() if x1_BLV is None else x1_BLV
                x = torch.where(state.clean[..., None], x1_BLV, p)
                p = self.network.eval()(x)
                self.network.train(training)
            if k in depths:
                yield p

    def rollout_start(self, examples: Examples) -> Tensor:
        """What is clean when a rollout starts: the prompt and, where asked for, at least a share of the positions."""
        ril = self.settings.ril
        return self.drawn_context(examples, START, ril.context, ril.spread) if ril.context else examples.prompt

    def drawn_context(self, examples: Examples, stream: int, least: float, share: float, late: float = 1.0) -> Tensor:
        """The prompt and a share of the positions, from `least` to 1: uniform, or Beta(late, 1) above `least`. They are
        random or, in a `share` of the rows, those that spread commits begin with.
        """
        length, key_B = examples.tokens.shape[1], examples.key(stream)
        f_B = rng.uniform(rng.fold(key_B, 0), 1)[:, 0]
        f_B = least + (1 - least) * (f_B if late == 1 else f_B ** (1 / late))
        u_BL = rng.uniform(rng.fold(key_B, 1), length)
        if share:
            rank_L = (-spread(length, u_BL.device)).argsort().argsort().to(u_BL.dtype)
            rank_L = (rank_L + 1) / length  # from no position, where sampling starts, to all but one
            u_BL = torch.where(rng.uniform(rng.fold(key_B, 2), 1) < share, rank_L, u_BL)
        return examples.prompt | (u_BL < f_B[:, None])

    def soft_ril_parts(self, state: State, noise_BLD: Tensor, examples: Examples) -> Iterator[Part]:
        """Self-distillation on some rows, each with its own turn of an order that is spread."""
        some, length = slice(0, len(examples.tokens)), examples.tokens.shape[1]
        turn_B = (rng.uniform(examples.key(TURN), 1)[:, 0] * length).long()
        teacher, config = self.frozen["teacher"], self.settings.distill
        assert isinstance(teacher, TransportMap)
        rounds, end = teacher_rollout(teacher, config, state.rows(some), examples.prompt, turn_B, self.rows)
        return distill_parts(
            self.network, rounds, end, noise_BLD[some], examples.count(), self.weights["distill"], self.rows
        )

    # -- what else is asked of a method ----------------------------------------------------------------------------

    def before_step(self, step: int) -> None:
        """Compute what reflow reads noise by, into the same tensor: a recording knows it by its address."""
        if self.settings.reflow.weight and self.stage(step)[-1]:
            reader_DV = noise_reader(self.network)
            self.noise_reader = reader_DV if self.noise_reader is None else self.noise_reader.copy_(reader_DV)

    def after_step(self, step: int, ema: Backbone) -> None:
        """Refresh the frozen copy from the EMA when its term starts, then every `refresh` steps."""
        teaching = self.settings.teaching
        if teaching and step >= teaching.start and (step - teaching.start) % teaching.refresh == 0:
            self.frozen["teacher"].load_state_dict(ema.state_dict())
            self.frozen["teacher"].fold()

    def options(self) -> Options:
        """The prior's scale is the one of training unless the options have one."""
        options = super().options()
        return options if options.sigma is not None else replace(options, sigma=self.settings.path.sigma)

    def check_options(self, options: Options) -> None:
        if options.scorer == "quality" and not self.settings.quality.enabled:
            raise UsageError("this model has no quality head: use the scorer 'confidence'")
        if options.mean_from and not self.settings.posterior.weight:
            raise UsageError(NO_POSTERIOR)

    def denoising(self, network: Backbone, examples: Examples) -> Likelihood:
        return denoising(network, examples, self.settings.path)

    def tune(self, network: Any, given: Given) -> Options:
        """The run's options with rounds planned."""
        options = self.options()
        if not options.spreads:
            raise UsageError(
                f"sample.scorer={options.scorer} of this model chooses by its own scores how many positions a round "
                "commits: rounds are planned where commits are spread"
            )
        plans = plan_by_nfe(Evaluator.plain(network), given, options)
        assert isinstance(self.config.sample, Options)
        return replace(self.config.sample, rounds="planned", plan_by_nfe=plans)

    def evaluator(self, network: TransportMap, replay: bool) -> Evaluator:
        plain = Evaluator.plain(network)
        return plain.replayed() if replay else plain

    def sample(
        self, network: Evaluator | ExportedRounds, given: Given, options: Options, seed: int, watch: Watch
    ) -> Trace:
        if isinstance(network, ExportedRounds):
            return network.sample(given, options, seed, watch)
        network = network.looped(options.loops)
        if options.rule == "revise":
            return revise(network, given, options, seed, watch)
        sampler = confirm if options.check else SAMPLERS[options.sampler]
        return sampler(network, given, options, seed, watch)
