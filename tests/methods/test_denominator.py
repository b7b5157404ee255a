"""One denominator for a whole batch: the split into micro-batches does not change the objective."""

from dataclasses import replace

import pytest
import torch

from dbtm.config import ModelConfig, RunConfig, TrainConfig
from dbtm.core import rng
from dbtm.core.registry import METHODS
from dbtm.methods.base import Examples, backward
from dbtm.methods.dbtm import Config, PathConfig, QualityConfig, RilConfig
from dbtm.tasks.toy import Markov

pytestmark = pytest.mark.usefixtures("double")
B, L, V = 6, 5, 4


def method_of(name):
    cls = METHODS.get(name)
    settings = cls.Config()
    if name == "dbtm":
        quality = QualityConfig(width=8, depth=1, heads=2)
        path = PathConfig(coupling="independent")
        settings = Config(path=path, ril=RilConfig(weight=0.7, depths=(2,)), quality=quality)
    config = RunConfig(
        recipe="test",
        task=Markov(vocab=V, length=L),
        model=ModelConfig(width=8, depth=1, heads=2, dropout=0.0),
        method=settings,
        sample=cls.Options(),
        train=TrainConfig(batch=B),
    )
    method = cls(config).start()
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in method.network.double().parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return method


def batch():
    """Rows with 0 to 4 given tokens."""
    torch.manual_seed(2)
    prompt = torch.arange(L) < torch.tensor([0, 4, 1, 3, 0, 2])[:, None]
    key = rng.fold(5, torch.arange(B))
    return Examples(torch.randint(0, V, (B, L)), prompt, key, 0, place=torch.arange(B))


def rows(examples, some):
    parts = {name: value[some] for name, value in examples.tensors().items()}
    return replace(examples, **parts)


def gradients(method):
    out = {name: p.grad.clone() for name, p in method.network.named_parameters() if p.grad is not None}
    method.network.zero_grad()
    return out


@pytest.mark.parametrize("name", ["dbtm", "mdlm", "ar", "flm", "fmlm", "fmlm-plus"])
def test_micro_batches_of_unequal_prompts_add_up_to_the_whole(name):
    method, whole = method_of(name), batch()
    terms = backward(method, whole)
    want = gradients(method)
    share = (~whole.prompt).sum().double() / 3
    sums = {}
    for cut in ((0, 2), (2, 4), (4, 6)):
        part = backward(method, replace(rows(whole, slice(*cut)), targets=share), scale=1 / 3)
        sums = {key: sums.get(key, 0.0) + value / 3 for key, value in part.items()}
    for key, gradient in gradients(method).items():
        torch.testing.assert_close(gradient, want[key], rtol=1e-9, atol=1e-12, msg=key)
    for key, value in terms.items():
        torch.testing.assert_close(sums[key], value, rtol=1e-9, atol=1e-12, msg=key)


def test_a_micro_batchs_own_denominator_would_not():
    """The error that the test above would catch."""
    method, whole = method_of("ar"), batch()
    backward(method, whole)
    want = gradients(method)
    for cut in ((0, 2), (2, 4), (4, 6)):
        backward(method, rows(whole, slice(*cut)), scale=1 / 3)
    got = gradients(method)
    assert any((got[key] - want[key]).abs().max() > 1e-4 for key in want)


def test_the_quality_head_reads_what_is_proposed_where_a_round_commits_it(monkeypatch):
    """With supervise=remaining, positions committed in this round have no loss. The head still reads the map's proposal
    there, not the true token, which is unknown in sampling.
    """
    method = method_of("dbtm")
    method.settings = replace(method.settings, ril=RilConfig(weight=1.0, depths=(3,), supervise="remaining"))
    examples, seen = batch(), []
    read = method.network.quality_logits
    proposals = []
    monkeypatch.setattr(
        method.network, "quality_logits", lambda trunk, tokens: (seen.append(tokens), read(trunk, tokens))[1]
    )
    term = method.quality_term

    def watched(trunk, argmax, tokens, open_BL, counted, count):
        proposals.append((argmax, open_BL, counted))
        return term(trunk, argmax, tokens, open_BL, counted, count)

    monkeypatch.setattr(method, "quality_term", watched)
    for _ in method.parts(examples):
        pass
    rounds = list(zip(seen, proposals, strict=True))[1:]  # the first is the pass at I_t
    assert len(rounds) == 3
    for given, (argmax, open_BL, counted) in rounds:
        assert (counted <= open_BL).all()
        torch.testing.assert_close(given, torch.where(open_BL, argmax, examples.tokens))
    committed_now = [(open_BL & ~counted).any() for _, (_, open_BL, counted) in rounds]
    assert all(committed_now)
