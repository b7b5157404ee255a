"""Refinement in the loop (alg:btm-ril): the map is supervised at the states visited by its own rounds.

    x_hat_0 = x0;  for r = 1 .. k:
        T(x_hat_{r-1}) learns x1 (loss:ril-c, loss:ril-nc) and, optionally, T(x_hat_{k-1}) (semi-r)
        C_r <- C_{r-1} + the positions added by eq:commit-rule, by the probability of x1
        x_hat_r <- x1 on C_r (commit), or T(x_hat_{r-1}) on C_r (non-commit); x0 elsewhere
        optionally, transport and anchor learn at I_t(C_r), the interpolant with the rollout's context

Rows with the map's own choices (`own`) differ: x_hat_r is argmax T(x_hat_{r-1}) on C_r, right or wrong; C_r is chosen
again in every round, by the map's confidence; and all positions learn x1, including held ones. So the map reads
contexts with mistakes and learns to correct them (the sampler's rule "revise"). Without `uncommit`, such a row keeps
its tokens, as in the paper's rule.

The rollout is the supervised pass itself, committed from its detached output, so it needs no further passes. Only
semi-r needs the last round before the first is learned: it first runs the rollout without gradients and dropout.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from dbtm import losses
from dbtm.core import rng
from dbtm.losses.head import HeadLosses
from dbtm.losses.soft_head import SoftTarget, chunked_soft_head
from dbtm.methods.base import Examples, Part
from dbtm.methods.dbtm.streams import CONTEXT_TIME, OWN, ROUND
from dbtm.simplex import Noise, State, commit, interpolate

if TYPE_CHECKING:
    from dbtm.methods.dbtm.training import DBTM


class Ahead(NamedTuple):
    """A rollout without gradients."""

    committed: list[Tensor]  # C_0 .. C_k
    p: list[Tensor | None]  # distributions that rounds 1 .. k hold or recall
    end: SoftTarget  # T(x_hat_{k-1})


def shared(embedded_BLD: Tensor) -> Tensor:
    """A detached copy, to which several passes may backpropagate one after the other."""
    return embedded_BLD.detach().requires_grad_(embedded_BLD.requires_grad)


def hand_on(embedded_BLD: Tensor, copy_BLD: Tensor) -> None:
    """Backpropagate the passes' gradient at the copy to its source."""
    if copy_BLD.grad is not None:
        embedded_BLD.backward(copy_BLD.grad)


@dataclass
class Rollout:
    """A rollout of depth k and its current state."""

    method: "DBTM"
    k: int
    sample: int  # the number among a datum's rollouts
    state: State
    noise: Tensor | Noise
    noise_BLD: Tensor
    examples: Examples
    start: Tensor  # (B, L) bool: clean from the start
    committed: Tensor  # (B, L) bool: C_{r-1}
    own: Tensor | None = None  # (B, 1) bool: rows with the map's own choices
    held: Tensor | None = None  # (B, L) tokens held on C_{r-1}; None: x1
    p: Tensor | None = None  # the previous round's distributions, if held or recalled
    embedded: Tensor | None = None  # x0 W under autograd, if several passes share its detached copy `noise_BLD`

    def begin(self, r: int) -> None:
        """Changes before a round: fewer rows, other noise."""
        ril = self.method.settings.ril
        if r == 2 and ril.later_fraction < 1:
            self.examples = self.examples.first(ril.later_fraction)
            first = slice(0, len(self.examples.tokens))
            self.state, self.noise, self.noise_BLD = self.state.rows(first), self.noise[first], self.noise_BLD[first]
            self.committed, self.start = self.committed[first], self.start[first]
            self.p, self.own, self.held = (None if x is None else x[first] for x in (self.p, self.own, self.held))
        if ril.fresh_noise and r > 1:
            self.noise = self.method.draw_noise(self.examples, *self.stream(ROUND, r))
            self.noise_BLD = self.method.network.embed_noise(self.noise)
            if ril.on_contexts:
                self.embedded, self.noise_BLD = self.noise_BLD, shared(self.noise_BLD)

    def end(self) -> None:
        """After a round's backward pass: pass its noise's gradient to the embedding."""
        if self.embedded is not None:
            hand_on(self.embedded, self.noise_BLD)
            self.embedded = None

    def stream(self, name: int, r: int) -> tuple[int, ...]:
        """The random stream of a round."""
        return (name, self.k, r, self.sample) if self.sample else (name, self.k, r)

    def open(self) -> Tensor:
        """(B, L) bool: the proposed positions; they have a loss, unless only the remaining ones do."""
        return ~self.examples.prompt & ~self.settled(self.committed if self.method.settings.ril.commit else self.start)

    def settled(self, committed: Tensor) -> Tensor:
        """The final positions among some commits: only the start in rows with the map's own choices."""
        return committed if self.own is None else committed & (~self.own | self.start)

    def rows(self) -> Tensor:
        """The positions that the head visits."""
        everywhere = self.method.settings.ril.quality_on == "all"
        return self.method.rows(~self.start if everywhere else ~self.committed | self.open())

    def trunk(self) -> Tensor:
        """The network at x_hat_{r-1}."""
        network, holding = self.method.network, not self.method.settings.ril.commit
        known = self.start if holding else self.committed
        now = State(self.state.tokens, self.state.alpha, self.noise).at_noise(known, self.held)
        h, _ = network.embed(now, self.noise_BLD)
        if holding and self.p is not None:  # committed positions hold their distribution
            h = torch.where((self.committed & ~self.start)[..., None], network.embed_noise(self.p), h)
        return network.hidden(network.condition(h, self.p))[0]

    def remember(self, trunk: Tensor, r: int) -> None:
        """Store the distributions that the next round holds or recalls."""
        network = self.method.network
        if (not self.method.settings.ril.commit or network.recall is not None) and r < self.k:
            with torch.no_grad():
                self.p = network.head(trunk)[0].softmax(-1)

    def read(self, trunk: Tensor, beta: Tensor, rows: Tensor) -> HeadLosses:
        return self.method.read_head(trunk, None, self.state.tokens, beta * 0, beta, rows)

    def look(self, trunk: Tensor, rows: Tensor) -> HeadLosses:
        """The head's predictions, without a loss."""
        with torch.no_grad():
            return self.read(trunk, torch.zeros_like(self.committed, dtype=self.method.noise_dtype), rows)

    def commits(self, read: HeadLosses, r: int) -> Tensor:
        """C_r."""
        kappa = self.method.settings.ril.kappa
        committed = commit(read.right, self.committed, r, self.k, kappa)
        if self.own is None:
            return committed
        kept = self.start if self.method.settings.ril.uncommit else self.committed
        return torch.where(self.own, commit(read.confidence, kept, r, self.k, kappa), committed)

    def go_on(self, read: HeadLosses, committed: Tensor) -> None:
        """Move to C_r and its held values."""
        if self.own is not None:
            chosen = read.argmax
            if self.held is not None and not self.method.settings.ril.uncommit:
                chosen = torch.where(self.committed, self.held, chosen)
            self.held = torch.where(self.own & ~self.start, chosen, self.state.tokens)
        self.committed = committed

    @torch.no_grad()
    def walk(self, r: int) -> Tensor:
        """A round without a loss; returns its trunk state."""
        rows, trunk = self.rows(), self.trunk()
        self.remember(trunk, r)
        read = self.look(trunk, rows)
        self.go_on(read, self.commits(read, r))
        return trunk


def ril_parts(
    method: "DBTM",
    k: int,
    state: State,
    noise_BLD: Tensor,
    examples: Examples,
    sample: int = 0,
    semigroup: bool = False,
    only: int = 0,
) -> Iterator[Part]:
    """One rollout of depth k, a datum's `sample`-th; `only` is the one supervised round, 0: all."""
    ril, start = method.settings.ril, method.rollout_start(examples)

    own = None
    if ril.own:
        own = rng.uniform(rng.fold(examples.key(OWN), k, sample), 1) < ril.own

    def from_the_start() -> Rollout:
        return Rollout(method, k, sample, state, state.noise, noise_BLD, examples, start, start, own)

    ahead = look_ahead(from_the_start()) if semigroup else None
    rollout = from_the_start()
    for r in range(1, (only or k) + 1):
        rollout.begin(r)
        if ahead is not None:
            rollout.committed, rollout.p = ahead.committed[r - 1], ahead.p[r - 1]
        elif r < only:
            rollout.walk(r)
        if r >= only:
            yield _supervised(rollout, r, ahead)
            if ril.on_contexts and r < k:
                yield _at_context(rollout, r)
        rollout.end()


def _supervised(rollout: Rollout, r: int, ahead: Ahead | None) -> Part:
    """Round r under autograd: the losses at its state; then its commits."""
    method, ril, tokens = rollout.method, rollout.method.settings.ril, rollout.state.tokens
    share = 1 / ril.samples
    count, counted = rollout.examples.count(), rollout.open()
    open_BL, rows, trunk = counted, rollout.rows(), rollout.trunk()
    rollout.remember(trunk, r)
    if ril.commit and ril.supervise == "remaining":  # known only from the scores
        after = ahead.committed[r] if ahead is not None else rollout.commits(rollout.look(trunk, rows), r)
        counted = counted & ~rollout.settled(after)
    beta = method.weights["ril"] * share * (1 / count) * counted
    read = rollout.read(trunk, beta, rows)
    held = rollout.committed
    rollout.go_on(read, rollout.commits(read, r) if ahead is None else ahead.committed[r])
    terms = {"ril": losses.total(read.endpoint * counted, count) * share}
    others = {}
    if method.network.quality is not None and method.weights["ril_quality"]:
        proposed, learned = open_BL, counted
        if ril.quality_on == "all":
            proposed = learned = ~rollout.start
        elif ril.quality_on == "open":
            learned = counted & ~held
        quality = method.quality_term(trunk, read.argmax, tokens, proposed, learned, count)
        others["ril_quality"] = quality * share
    part = method.part(read.loss, terms, others)
    return part if ahead is None else _with_semi_r(rollout, part, trunk, counted, ahead.end)


def _with_semi_r(rollout: Rollout, part: Part, trunk: Tensor, counted: Tensor, end: SoftTarget) -> Part:
    """CE(T(x_hat_{r-1}), sg T(x_hat_{k-1})) at the same state, in addition to the loss with the data."""
    method, count, share = rollout.method, rollout.examples.count(), 1 / rollout.method.settings.ril.samples
    beta = method.weights["semi_r"] * share * (1 / count) * counted
    h, rows = trunk.flatten(0, 1), method.rows(counted)
    loss, cross_entropy = chunked_soft_head(h, method.network.head, end, beta.flatten(), rows)
    term = losses.total(cross_entropy.view_as(counted) * counted, count) * share
    return Part(part.loss + loss, part.terms | {"semi_r": term})


@torch.no_grad()
def look_ahead(rollout: Rollout) -> Ahead:
    """The whole rollout without gradients and dropout; the losses then use its states."""
    network, training = rollout.method.network, rollout.method.network.training
    network.eval()
    committed, held = [], []
    for r in range(1, rollout.k + 1):
        rollout.begin(r)
        committed.append(rollout.committed)
        held.append(rollout.p)
        trunk = rollout.walk(r)
    committed.append(rollout.committed)
    network.train(training)
    tokens = rollout.state.tokens.flatten()
    nothing = torch.zeros_like(tokens, dtype=torch.bool)  # no token is kept: the target is T everywhere
    return Ahead(committed, held, SoftTarget(trunk.flatten(0, 1), tokens, nothing, network.head))


def _at_context(rollout: Rollout, r: int) -> Part:
    """Transport and anchor at I_t(C_r), at a separate random time (app:on-policy-rollouts)."""
    method, lambdas, examples = rollout.method, rollout.method.weights, rollout.examples
    committed, count, share = rollout.committed, examples.count(), 1 / method.settings.ril.samples
    t_B = rng.uniform(rng.fold(examples.sample_key, *rollout.stream(CONTEXT_TIME, r)), 1)[:, 0].to(method.noise_dtype)
    t_BL = torch.where(committed, 1.0, t_B.clamp(max=1 - 2**-24)[:, None])
    now = interpolate(rollout.state.tokens, rollout.noise, committed, t_BL, method.settings.path.a)
    if not lambdas["ril_transport"]:
        now = State(now.tokens, now.alpha, now.noise)  # no rate: no tangent is computed
    free = ~committed
    anchored = free & (t_BL > method.t_anchor)
    alpha, beta = (
        lambdas[name] * share * (1 / count) * where
        for name, where in (("ril_transport", free), ("ril_anchor", anchored))
    )
    rows = method.rows(free)
    trunk, dtrunk = method.network.hidden(*method.network.embed(now, rollout.noise_BLD))
    read = method.read_head(trunk, dtrunk, now.tokens, alpha, beta, rows)
    terms = {"ril_anchor": losses.total(read.endpoint * anchored, count) * share}
    if lambdas["ril_transport"]:
        terms["ril_transport"] = losses.total(read.transport * free, count) * share
    return Part(read.loss, terms)
