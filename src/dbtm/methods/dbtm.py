"""Discrete Beckmann Transport Models: the paper's training step (alg:btm-train-context, alg:btm-ril)."""

import copy
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from dbtm import losses, rng
from dbtm.config import RunConfig
from dbtm.errors import UsageError
from dbtm.methods.base import Examples
from dbtm.nn import TransportMap
from dbtm.sampling.sampler import Sampler
from dbtm.simplex import State, assignment, commit, commitment_time, ot_cost, partial_context
from dbtm.simplex.interpolant import interpolate

# streams of random numbers within a step
NOISE, TIME, FRACTION, CONTEXT, ROUND = range(5)


class DBTM:
    """Puts coupling, interpolant, map and losses together."""

    def __init__(self, config: RunConfig):
        self.config = config
        with torch.random.fork_rng():
            torch.manual_seed(config.train.seed)
            self.model = TransportMap(config.model)
        if config.model.position_axes:
            self.model.position_ids.copy_(self.position_ids(config))
        self.frozen: dict[str, TransportMap] = {}
        if config.distill.weight:
            self.frozen["teacher"] = copy.deepcopy(self.model).requires_grad_(False).eval()
        path, loss, ril = config.path, config.loss, config.ril
        self.t_anchor = (
            commitment_time(config.model.vocab, path.sigma, path.a) if path.t_anchor is None else path.t_anchor
        )
        self.weights = {
            "transport": loss.transport,
            "semigroup": loss.semigroup,
            "boundary": loss.boundary,
            "anchor": loss.anchor,
            "quality": loss.quality,
            "ril": ril.weight,
            "ril_quality": ril.weight * ril.quality,
            "distill": config.distill.weight,
        }

    @staticmethod
    def position_ids(config: RunConfig) -> Tensor:
        """The task's entries of the learned position tables, which must fit the tables the model has."""
        ids, axes = config.task.position_ids(), config.model.position_axes
        if ids is None or ids.shape != (config.model.length, len(axes)) or (ids.max(0) >= np.array(axes)).any():
            raise UsageError(
                f"model.position_axes={list(axes)} does not fit the positions of task '{config.task.name}'"
            )
        return torch.from_numpy(ids)

    # -- the step --------------------------------------------------------------------------------------------------

    def parts(self, examples: Examples) -> Iterator[dict[str, Tensor]]:
        """The objective in named terms, one network pass at a time.

        x0 W is computed once and shared by every state: the passes read a detached copy, whose gradient is handed on
        to the embedding when the last of them has been backpropagated.
        """
        config = self.config
        noise_BLV = self.draw_noise(examples)
        shared_BLD = self.model.embed_noise(noise_BLV)
        noise_BLD = shared_BLD.detach().requires_grad_(shared_BLD.requires_grad)
        state, t_BL = self.draw_state(examples, noise_BLV)
        some = examples.first(config.loss.interpolant_fraction)
        rows = slice(0, len(some.tokens))
        yield self.interpolant_terms(state.rows(rows), noise_BLD[rows], t_BL[rows], some)
        if config.loss.boundary:
            yield {"boundary": self.boundary_term(state, noise_BLD, examples)}
        if config.ril.weight and examples.step >= config.ril.start:
            for k in config.ril.depths:
                yield from self.ril_rounds(k, state, noise_BLD, examples)
        if config.distill.weight and examples.step >= config.distill.start:
            yield from self.distill_rounds(state, noise_BLD, examples)
        if noise_BLD.grad is not None:
            shared_BLD.backward(noise_BLD.grad)

    def draw_noise(self, examples: Examples) -> Tensor:
        """x0 ~ N(0, sigma^2), coupled to the data; prompts and tokens stay where they are."""
        shape = (examples.tokens.shape[1], self.config.model.vocab)
        noise_BLV = self.config.path.sigma * rng.normal(examples.key(NOISE), *shape, dtype=self.noise_dtype)
        if self.config.path.coupling == "ot" and len(noise_BLV) > 1:
            noise_BLV = noise_BLV[assignment(ot_cost(noise_BLV, examples.tokens, ~examples.prompt))]
        return noise_BLV

    @property
    def noise_dtype(self) -> torch.dtype:
        return torch.promote_types(self.model.embedding.dtype, torch.float32)

    def draw_state(self, examples: Examples, noise_BLV: Tensor) -> tuple[State, Tensor]:
        """The partial-context interpolant and its per-position times."""
        t_B = rng.uniform(examples.key(TIME), 1)[:, 0].to(noise_BLV.dtype)
        f_B = rng.uniform(examples.key(FRACTION), 1)[:, 0] * float(self.config.path.context)
        u_BL = rng.uniform(examples.key(CONTEXT), examples.tokens.shape[1])
        clean_BL, t_BL = partial_context(t_B, f_B, u_BL, examples.prompt)
        return interpolate(examples.tokens, noise_BLV, clean_BL, t_BL, self.config.path.a), t_BL

    # -- terms -----------------------------------------------------------------------------------------------------

    def interpolant_terms(self, state: State, noise_BLD: Tensor, t_BL: Tensor, examples: Examples) -> dict[str, Tensor]:
        """Transport, anchor, semigroup and quality: everything that reads the map at I_t."""
        weights, target, free = self.config.loss, ~examples.prompt, ~state.clean
        if not weights.transport:
            state = State(state.tokens, state.alpha, state.noise)  # no rate: no tangent is computed
        trunk, dtrunk = self.model.hidden(*self.model.embed(state, noise_BLD))
        logits, dlogits = self.model.head(trunk, dtrunk)
        terms = {}
        if dlogits is not None:
            terms["transport"] = losses.total(losses.transport(logits, dlogits, weights.c, weights.r) * free, target)
        if weights.anchor:
            endpoint = (weights.endpoint_c, weights.endpoint_r)
            per_token = losses.anchor(logits, state.tokens, t_BL, free, self.t_anchor, *endpoint)
            terms["anchor"] = losses.total(per_token, target)
        if weights.semigroup and examples.step >= weights.semigroup_start:
            per_token = losses.semigroup(logits, self.iterates(logits, state))
            terms["semigroup"] = losses.total(per_token * free, target)
        if self.model.quality is not None and weights.quality:
            proposed = logits.detach().argmax(-1)
            per_token = losses.quality(
                self.model.quality_logits(trunk, proposed), proposed, state.tokens, weights.positive_weight
            )
            terms["quality"] = losses.total(per_token * free, target)
        return terms

    @torch.no_grad()
    def iterates(self, logits: Tensor, state: State) -> Iterator[Tensor]:
        """T^k(I_t) for k in K, clean positions held; the first application is the one already made."""
        depths, x1_BLV = self.config.loss.semigroup_depths, None
        p = logits.detach().softmax(-1)
        for k in range(1, max(depths) + 1):
            if k > 1:
                x1_BLV = state.at_noise(torch.ones_like(state.clean)).dense() if x1_BLV is None else x1_BLV
                x = torch.where(state.clean[..., None], x1_BLV, p)
                p = self.model(x)
            if k in depths:
                yield p

    def boundary_term(self, state: State, noise_BLD: Tensor, examples: Examples) -> Tensor:
        """CE(T(x1), x1), on the first rows of the batch where only a fraction of them is to pay for it."""
        weights = self.config.loss
        target = ~examples.first(weights.boundary_fraction).prompt
        data = state.rows(slice(0, len(target))).at_noise(torch.ones_like(target))
        logits, _ = self.model.logits(*self.model.embed(data, noise_BLD[: len(target)]))
        return losses.total(
            losses.boundary(logits, data.tokens, weights.endpoint_c, weights.endpoint_r) * target, target
        )

    def ril_rounds(self, k: int, state: State, noise_BLD: Tensor, examples: Examples) -> Iterator[dict[str, Tensor]]:
        """Refinement in the loop: the rollout is the supervised pass itself, committed from its detached output."""
        ril, weights, target = self.config.ril, self.config.loss, ~examples.prompt
        committed, p, x0_BLV, x0_BLD = examples.prompt, None, state.noise, noise_BLD
        for r in range(1, k + 1):
            if r == 2 and ril.later_fraction < 1:
                examples = examples.first(ril.later_fraction)
                rows = slice(0, len(examples.tokens))
                state, target, committed = state.rows(rows), target[rows], committed[rows]
                x0_BLV, x0_BLD, p = x0_BLV[rows], x0_BLD[rows], None if p is None else p[rows]
            if ril.fresh_noise and r > 1:
                x0_BLV = self.fresh_noise(examples, k, r)
                x0_BLD = self.model.embed_noise(x0_BLV)
            now = State(state.tokens, state.alpha, x0_BLV).at_noise(committed if ril.commit else examples.prompt)
            if ril.commit or p is None:
                h, _ = self.model.embed(now, x0_BLD)
            else:  # non-committed: confident positions hold their distribution, a dense state
                h, _ = self.model.embed_dense(torch.where((committed & target)[..., None], p, now.dense()))
            trunk, _ = self.model.hidden(self.model.condition(h, p))
            logits, _ = self.model.head(trunk)
            with torch.no_grad():
                p = logits.softmax(-1)
                score = p.gather(-1, state.tokens[..., None]).squeeze(-1)
                after = commit(score, committed, r, k, ril.kappa)
            counted = target & ~(committed if ril.count_committed_now else after) if ril.commit else target
            kind = losses.ril_c if ril.commit else losses.ril_nc
            per_token = kind(logits, state.tokens, counted, weights.endpoint_c, weights.endpoint_r)
            terms = {"ril": losses.total(per_token, target)}
            if self.model.quality is not None and ril.quality:
                proposed = logits.detach().argmax(-1)
                q = self.model.quality_logits(trunk, proposed)
                per_token = losses.ril_quality(q, proposed, state.tokens, counted, weights.positive_weight)
                terms["ril_quality"] = losses.total(per_token, target)
            yield terms
            committed = after

    def fresh_noise(self, examples: Examples, k: int, r: int) -> Tensor:
        key = rng.fold(examples.key(ROUND), k, r)
        return self.config.path.sigma * rng.normal(
            key, examples.tokens.shape[1], self.config.model.vocab, dtype=self.noise_dtype
        )

    # -- self-distillation -----------------------------------------------------------------------------------------

    def distill_rounds(self, state: State, noise_BLD: Tensor, examples: Examples) -> Iterator[dict[str, Tensor]]:
        """soft-ril: the student at every state of the teacher's own rollout, towards the teacher's last round.

        The target is a function of the noise alone, so it cannot average over different data (app:ril-training).
        """
        kind = losses.soft_ril_c if self.config.distill.commit else losses.soft_ril_nc
        states, target_p = self.teacher_rollout(state, examples.prompt)
        for x, counted in states:
            h, _ = self.model.embed(x, noise_BLD) if isinstance(x, State) else self.model.embed_dense(x)
            logits, _ = self.model.logits(h)
            yield {"distill": losses.total(kind(logits, target_p, counted), ~examples.prompt)}

    @torch.no_grad()
    def teacher_rollout(self, state: State, prompt: Tensor) -> tuple[list[tuple[State | Tensor, Tensor]], Tensor]:
        """The teacher's k rounds from x0: every round's input with the positions it counts, and the final target."""
        distill, teacher = self.config.distill, self.frozen["teacher"]
        noise_BLD = teacher.embed_noise(state.noise)
        tokens, committed, p = state.tokens, prompt, None
        states: list[tuple[State | Tensor, Tensor]] = []
        logits = state.noise
        for r in range(1, distill.depth + 1):
            now: State | Tensor = state.at_noise(committed if distill.commit else prompt, tokens)
            if not distill.commit and p is not None:
                assert isinstance(now, State)
                now = torch.where((committed & ~prompt)[..., None], p, now.dense())
            states.append((now, ~committed if distill.commit else ~prompt))
            h, _ = teacher.embed(now, noise_BLD) if isinstance(now, State) else teacher.embed_dense(now)
            logits, _ = teacher.logits(h)
            p = logits.softmax(-1)
            score, proposed = p.max(-1)
            after = commit(score, committed, r, distill.depth, distill.kappa)
            tokens = torch.where(after & ~committed, proposed, tokens) if distill.commit else tokens
            committed = after
        target_p = losses.soft_target(logits, distill.temperature)
        if distill.commit:  # what was committed on the way keeps its token
            kept = torch.nn.functional.one_hot(tokens, target_p.shape[-1]).to(target_p.dtype)
            target_p = torch.where(states[-1][1][..., None], target_p, kept)
        return states, target_p

    # -- what else the trainer asks for ----------------------------------------------------------------------------

    def after_step(self, step: int, ema: TransportMap) -> None:
        """Refresh the frozen teacher from the EMA when self-distillation starts, then every `refresh` steps."""
        distill = self.config.distill
        if "teacher" in self.frozen and step >= distill.start and (step - distill.start) % distill.refresh == 0:
            self.frozen["teacher"].load_state_dict(ema.state_dict())

    def sampler(self, model: TransportMap) -> Sampler:
        return Sampler(model, self.config.sampling(), self.config.task)
