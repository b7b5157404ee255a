"""Reflow: the copy's draws follow the exact k-step law, are a function of the noise, and are what the map learns."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from dbtm.config import Shape
from dbtm.core import rng
from dbtm.core.errors import UsageError
from dbtm.methods.base import backward
from dbtm.methods.dbtm import LossConfig, PathConfig, PosteriorConfig, ReflowConfig
from dbtm.methods.dbtm.reflow import drawn, gumbel, known_rounds, noise_reader
from dbtm.methods.dbtm.streams import REFLOW
from dbtm.simplex import Noise, spread
from tests.conftest import random_map
from tests.methods.dbtm.step import PROMPT, L, V, build, coupled_noise, examples, one_hot, perturbed

ALONE = LossConfig(transport=0.0, anchor=0.0, boundary=0.0, quality=0.0)
TINY = 1e-9  # weight of the posterior, without which there is nothing to draw from


def test_gumbel_noise_draws_from_the_softmax():
    torch.manual_seed(0)
    f = torch.randn(7)
    z = torch.randn(200_000, 7)
    share = torch.bincount((f + gumbel(z)).argmax(-1), minlength=7) / len(z)
    assert share.tolist() == pytest.approx(f.softmax(-1).tolist(), abs=0.005)
    assert gumbel(torch.tensor([-9.0, 9.0])).isfinite().all()


@pytest.mark.parametrize("vocab", [7, 40])  # the width is 16
def test_noise_that_a_map_can_read_is_standard_normal(vocab):
    model = random_map(shape=Shape(vocab, 9))
    noise = Noise(rng.fold(3, torch.arange(4000)), 9, vocab, sigma=1.7)
    z = (model.embed_noise(noise) @ noise_reader(model) / 1.7).flatten(0, 1)
    assert z.shape[1] == vocab
    assert z.mean(0).abs().max() < 0.03
    assert z.std(0).tolist() == pytest.approx([1.0] * vocab, abs=0.03)
    if vocab == 7:
        torch.testing.assert_close(z, noise.dense().flatten(0, 1) / 1.7, rtol=1e-3, atol=1e-4)
    else:  # no more than x0 W is read: what of x0 lies in the range of W
        Q, _ = torch.linalg.qr(model.token_embedding.detach())
        want = noise.dense() @ Q @ Q.T / Q.norm(dim=1)
        torch.testing.assert_close(z, want.flatten(0, 1) / 1.7, rtol=1e-3, atol=1e-4)


def test_a_direction_that_all_embeddings_have_is_not_shared():
    model = random_map(shape=Shape(40, 9))
    with torch.no_grad():
        model.embedding += 3 * torch.randn(16)
    W = model.token_embedding.detach()
    covariance = noise_reader(model).T @ (W.T @ W) @ noise_reader(model)
    torch.testing.assert_close(covariance.diagonal(), torch.ones(40), rtol=1e-4, atol=0)
    assert covariance.fill_diagonal_(0).square().mean().sqrt() < 0.25, "of 16 dimensions"


def test_a_token_without_an_embedding_is_drawn_without_noise():
    model = random_map(shape=Shape(40, 9))
    with torch.no_grad():
        model.embedding[3] = 0
    reader = noise_reader(model)
    assert reader.isfinite().all()
    assert reader[:, 3].abs().max() < 1e-3


def test_the_noise_is_read_by_the_weights_of_every_step():
    """Into the same tensor, which a recording reads; the copy's own weights do not matter."""
    method = build(posterior=PosteriorConfig(weight=1.0), reflow=ReflowConfig(weight=1.0, start=2))
    method.before_step(1)
    assert method.noise_reader is None, "it has not begun"
    method.before_step(2)
    first, before = method.noise_reader, method.noise_reader.clone()
    with torch.no_grad():
        method.network.embedding.mul_(torch.linspace(0.5, 2, method.network.embedding.shape[1]))
    method.before_step(3)
    assert method.noise_reader is first
    torch.testing.assert_close(first, noise_reader(method.network))
    assert not torch.equal(first, before)


class Law:
    """A copy that knows the posterior of a joint law of two ternary tokens; its state is (tokens, known)."""

    def __init__(self, joint):
        self.joint, self.token_embedding = joint, torch.eye(3)

    def embed_known(self, tokens, known):
        return torch.where(known, tokens, -1)

    def hidden(self, h):
        rows = []
        for first, second in h.tolist():
            joint = self.joint.clone()
            joint = joint[first : first + 1].expand(3, -1) if first >= 0 else joint
            joint = joint[:, second : second + 1].expand(-1, 3) if second >= 0 else joint
            rows.append(torch.stack((joint.sum(1), joint.sum(0))).log())
        return torch.stack(rows), None

    def head(self, trunk):
        return trunk, None


@pytest.mark.parametrize("rounds", [1, 2])
def test_draws_follow_the_law_of_k_rounds(rounds):
    """Two rounds draw from the joint law, one from the product of its marginals."""
    joint = torch.tensor([[0.3, 0.02, 0.08], [0.05, 0.25, 0.0], [0.1, 0.0, 0.2]]) + 1e-9
    n = 6000
    batch = SimpleNamespace(tokens=torch.zeros(n, 2, dtype=torch.long), prompt=torch.zeros(n, 2, dtype=torch.bool))
    config = SimpleNamespace(rounds=rounds, temperature=1.0)
    noise = Noise(rng.fold(5, torch.arange(n)), 2, 3)
    tokens, round_BL = drawn(Law(joint), config, batch, noise.dense(), torch.eye(3))
    law = torch.bincount(3 * tokens[:, 0] + tokens[:, 1], minlength=9).view(3, 3) / n
    want = joint if rounds == 2 else joint.sum(1)[:, None] * joint.sum(0)
    assert 0.5 * (law - want).abs().sum() < 0.02
    assert round_BL.unique(dim=0).tolist() == [[1, rounds]]
    again, _ = drawn(Law(joint), config, batch, noise.dense(), torch.eye(3))
    assert torch.equal(tokens, again), "a function of the noise"


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("small", [True, False])
def test_the_term_recomputed_with_dense_states(monkeypatch, small):
    """One row and one round at a time, with its gradients; the copy receives none, and the prompt has no loss."""
    monkeypatch.setattr(Shape, "small_vocab", property(lambda self: small))
    config = ReflowConfig(weight=0.6, rounds=3, temperature=0.8, states=2, fraction=0.75)
    method = build(loss=ALONE, path=PathConfig(sigma=1.3), posterior=PosteriorConfig(weight=TINY), reflow=config)
    batch = examples()
    copy = perturbed(method.frozen["teacher"].double(), 11)
    x0, want = coupled_noise(method, batch), torch.zeros(())
    order = spread(L).argsort(descending=True).tolist()
    for b in range(3):  # of four rows
        tokens, known = batch.tokens[b].clone(), {*range(PROMPT)}
        drawn_in = dict.fromkeys(range(PROMPT), 0)
        for r in range(3):
            x = torch.stack([one_hot(tokens[l]) if l in known else torch.full((V,), 1 / V) for l in range(L)])
            logits = copy.logits(copy.embed_dense(x[None])[0])[0][0].detach()
            for l in order[2 * r : 2 * r + 2]:
                if l >= PROMPT:
                    u = 0.5 * (1 + torch.erf(x0[b, l] / 1.3 / 2**0.5))
                    tokens[l] = (logits[l] / 0.8 - torch.log(-torch.log(u))).argmax()
                    known, drawn_in = known | {l}, drawn_in | {l: r + 1}
        u = rng.uniform(rng.fold(batch.sample_key[b : b + 1], REFLOW, 1), 1)[0, 0]
        for m in (0, 1 + int(2 * u)):
            x = torch.stack([one_hot(tokens[l]) if drawn_in[l] <= m else x0[b, l] for l in range(L)])
            p = method.network(x[None])[0]
            want = want + sum(-p[l, tokens[l]].log() for l in range(L) if drawn_in[l] > m)
    want = want / (3 * (L - PROMPT))
    got, parameters = backward(method, batch), list(method.network.parameters())
    assert got["reflow"].item() == pytest.approx(want.item(), rel=1e-9)
    for parameter, gradient in zip(parameters, torch.autograd.grad(0.6 * want, parameters, allow_unused=True)):
        if gradient is not None:
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-6, atol=1e-8)
    assert all(q.grad is None for q in copy.parameters())


def test_states_cover_the_rounds():
    keys = rng.fold(1, torch.arange(4000))
    batch, config = (
        SimpleNamespace(key=lambda stream: rng.fold(keys, stream), sample_key=keys, tokens=torch.zeros(4000, 28)),
        ReflowConfig(rounds=7, states=3),
    )
    shares = [torch.bincount(known_rounds(config, batch, j).flatten(), minlength=8) / 4000 for j in range(3)]
    third = pytest.approx(1 / 3, abs=0.03)
    assert shares[0].tolist() == [1.0] + [0.0] * 7
    assert shares[1].tolist() == [0.0, third, third, third, 0.0, 0.0, 0.0, 0.0]
    assert shares[2].tolist() == [0.0, 0.0, 0.0, 0.0, third, third, third, 0.0]
    whole = ReflowConfig(rounds=4, states=4)
    assert [known_rounds(whole, batch, j).unique().tolist() for j in range(4)] == [[0], [1], [2], [3]]


@pytest.mark.parametrize(("length", "rounds", "drawn"), [(10, 7, 5), (128, 48, 43), (12, 4, 4), (3, 16, 3)])
def test_no_state_knows_a_whole_answer(length, rounds, drawn):
    """There may be fewer rounds than asked for: positions per round are a whole number."""
    keys, config = rng.fold(1, torch.arange(400)), ReflowConfig(rounds=rounds, states=2)
    batch = SimpleNamespace(key=lambda stream: rng.fold(keys, stream), sample_key=keys, tokens=torch.zeros(400, length))
    assert known_rounds(config, batch, 1).unique().tolist() == [*range(1, drawn)]


def test_the_copy_is_refreshed_on_its_schedule():
    config = ReflowConfig(weight=1.0, start=2, refresh=3)
    method = build(posterior=PosteriorConfig(weight=1.0), reflow=config)
    ema = perturbed(build().network, 5)
    assert [method.stage(step)[-1] for step in range(9)] == [0, 0, 1, 1, 1, 2, 2, 2, 3]
    before = [p.clone() for p in method.frozen["teacher"].parameters()]
    for step in (0, 1, 3, 4):
        method.after_step(step, ema)
        assert all(torch.equal(p, q) for p, q in zip(before, method.frozen["teacher"].parameters()))
    method.after_step(5, ema)
    assert all(torch.equal(p.float(), q) for p, q in zip(ema.parameters(), method.frozen["teacher"].parameters()))


def test_what_it_needs():
    on = ReflowConfig(weight=1.0)
    with pytest.raises(UsageError, match=r"method\.posterior\.weight=1"):
        build(reflow=on)
    with pytest.raises(UsageError, match="each need a frozen copy"):
        build(reflow=on, posterior=PosteriorConfig(weight=1.0), distill=replace(build().settings.distill, weight=1.0))
    method = build(reflow=on, posterior=PosteriorConfig(weight=1.0))
    with pytest.raises(UsageError, match=r"method\.reflow\.start=0 needs a teacher"):
        method.check_start(initialised=False)
    with pytest.raises(UsageError, match=r"method\.reflow\.rounds"):
        ReflowConfig(rounds=1)
    with pytest.raises(UsageError, match=r"method\.reflow\.states"):
        ReflowConfig(rounds=4, states=5)
