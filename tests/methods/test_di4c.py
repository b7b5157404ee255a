"""Di4C: in one step, a mixture learns the two-point distribution, which no product can; for both kinds of noise."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from dbtm.config import ModelConfig
from dbtm.methods.di4c import DuoDi4C, MDLMDi4C, Mixture
from dbtm.tasks.toy import Markov
from tests.methods.reference import examples, run_of, sampled

TWO = torch.tensor([[0, 0], [1, 1]])
MASK = 2


def small(method_class, **settings):
    """A method on two tokens of two kinds, with a real network."""
    base = run_of(method_class, **settings).config
    model = ModelConfig(width=32, depth=2, heads=2, dropout=0.0, gate_init=0.5, embed_std=0.5, softcap=0.0)
    return method_class(replace(base, task=Markov(vocab=2, length=2), model=model)).start()


class TwoPoint(nn.Module):
    """The exact masked denoiser of P = (delta_00 + delta_11) / 2: the other token if known, else one half."""

    def embed_tokens(self, tokens):
        return tokens[..., None].float()

    def hidden(self, h):
        ids = h[..., 0].long().flip(1)  # the other position
        known = 12.0 * (2 * nn.functional.one_hot(ids.clamp(max=1), 2) - 1.0)
        return torch.where((ids == MASK)[..., None], torch.zeros_like(known), known), None

    def head(self, trunk):
        return trunk, None


def one_step(method, n=400):
    """p(x1, x2) of one evaluation from two masks, as the mean over latents."""
    latent = (torch.arange(n) + 0.5) / n
    z = torch.full((n, 2), MASK)
    with torch.no_grad():
        p = method.network.head(method.read_state(method.network, z, 1.0, latent))[0].softmax(-1)
    return (p[:, 0, :, None] * p[:, 1, None, :]).mean(0).double()


def test_a_student_goes_below_log_two_in_one_step():
    """Every product has KL >= log 2 to the two-point distribution."""
    method = small(MDLMDi4C, latents=8, data_weight=1.0, small_share=0.0)
    method.frozen["teacher"] = TwoPoint()
    torch.manual_seed(0)
    nn.init.normal_(method.network.head.weight, std=1.5)  # at zero, no latent makes a difference
    optimizer = torch.optim.Adam(method.network.parameters(), lr=1e-3)
    tokens = TWO.repeat(16, 1)
    for step in range(60):
        (part,) = method.parts(replace(examples(tokens, seed=step), step=step))
        optimizer.zero_grad()
        part.loss.backward()
        optimizer.step()
    p = one_step(method)
    divergence = -0.5 * float(p[0, 0].log() + p[1, 1].log()) - math.log(2)
    assert divergence < 0.35
    assert p.sum(1).tolist() == pytest.approx([0.5, 0.5], abs=0.2)  # the marginals stay the teacher's


@pytest.mark.parametrize("method_class", [MDLMDi4C, DuoDi4C])
def test_times_are_on_the_grid_and_small_ones_have_their_share(method_class):
    method = small(method_class)
    drawn = [Mixture(method).time(replace(examples(TWO), step=step)) for step in range(600)]
    assert all((t * 1024).is_integer() and 0 < t <= 1 for t, _ in drawn)
    share = sum(small_ for _, small_ in drawn) / 600
    assert share == pytest.approx(0.3, abs=0.08)
    assert all(t <= 0.02 + 1 / 1024 for t, small_ in drawn if small_)


@pytest.mark.parametrize("method_class", [MDLMDi4C, DuoDi4C])
def test_the_student_starts_as_its_teacher_with_a_latent_of_its_own(method_class):
    method = small(method_class)
    weights = {
        k: torch.randn_like(v) for k, v in method.frozen["teacher"].state_dict().items() if v.is_floating_point()
    }
    weights |= {k: v for k, v in method.frozen["teacher"].state_dict().items() if not v.is_floating_point()}
    fresh = {k: v.clone() for k, v in method.network.state_dict().items() if k.startswith("latent.")}
    method.adopt(weights)
    state = method.network.state_dict()
    assert all(torch.equal(state[k], v) for k, v in (weights | fresh).items())
    assert fresh


def test_a_settled_token_is_what_the_later_state_shows():
    """MDLM: after the teacher's step an unmasked token is certain, and is the one drawn."""
    method = small(MDLMDi4C, latents=4)
    method.frozen["teacher"] = TwoPoint()
    mixture, batch = Mixture(method), examples(TWO.repeat(50, 1))
    z, active = torch.full((100, 2), MASK), torch.ones(100, 2, dtype=torch.bool)
    told = TwoPoint().hidden(TwoPoint().embed_tokens(z))[0]
    later = mixture.later(batch, z, active, told, t=1 / 1024)  # half of the tokens are unmasked
    assert later.settled.float().mean().item() == pytest.approx(0.5, abs=0.08)
    assert torch.equal(later.drawn_NK[later.settled], later.tokens[later.settled])
    assert (later.drawn_NK < 2).all()
    mean = later.mean(method.network, torch.arange(200))
    torch.testing.assert_close(mean.sum(-1), torch.ones(200))
    all_settled = later.settled.all(1)
    want = nn.functional.one_hot(later.tokens[all_settled].clamp(max=1), 2).float().mean(1)
    torch.testing.assert_close(mean[all_settled], want)


@pytest.mark.parametrize("method_class", [MDLMDi4C, DuoDi4C])
@pytest.mark.parametrize("small_share", [0.0, 1.0])
def test_all_terms_have_gradients_and_prompts_have_none(method_class, small_share):
    method = small(method_class, latents=3, small_share=small_share, delta=0.9)
    torch.manual_seed(0)
    for network in (method.network, *method.frozen.values()):
        nn.init.normal_(network.head.weight)
    tokens = TWO.repeat(9, 1)
    (part,) = method.parts(examples(tokens, torch.tensor([[True, False]]).expand(18, 2)))
    part.loss.backward()
    assert method.network.latent[0].weight.grad.abs().sum() > 0
    assert part.loss.isfinite()
    assert set(part.terms) == {"joint", "teacher", "consistency"}
    assert (part.terms["consistency"] == 0) == (small_share == 1.0)
    learned = {name for name, p in method.network.named_parameters() if p.grad is not None}
    method.network.zero_grad()
    (nothing,) = method.parts(examples(tokens, torch.ones(18, 2, dtype=torch.bool)))
    assert nothing.loss.item() == 0
    nothing.loss.backward()
    gradients = {name: p.grad for name, p in method.network.named_parameters() if p.grad is not None}
    assert gradients.keys() == learned, "all devices exchange gradients of the same weights"
    assert not any(gradient.any() for gradient in gradients.values())


@pytest.mark.parametrize("method_class", [MDLMDi4C, DuoDi4C])
def test_every_evaluation_has_a_latent_of_its_own(method_class):
    method = run_of(method_class).start()
    seen = []
    embed = method.network.embed_latent
    method.network.embed_latent = lambda latent: (seen.append(latent.clone()), embed(latent))[1]
    trace = sampled(method, method.network.eval(), 40, nfe=4)
    assert trace.nfe.max() == 4
    assert len(seen) == 4
    assert not torch.equal(seen[0][:5], seen[1][:5])
    assert seen[0].unique().numel() == 40
