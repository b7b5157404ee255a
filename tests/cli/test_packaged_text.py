"""The text model in the package: small, without a trace of where it was trained, and it writes words."""

import json
import re

import pytest

import dbtm
from dbtm.checkpoint.folder import read_tensors, verify
from dbtm.checkpoint.loading import find
from dbtm.checkpoint.migrate import read_config
from dbtm.evals.diversity import entropies


@pytest.fixture(scope="module")
def sampler():
    return dbtm.load("text", device="cpu")


def test_it_is_small_and_says_what_it_is():
    folder = find("text")
    weights = read_tensors(folder, "ema")
    assert sum(tensor.numel() for tensor in weights.values()) <= 8_000_000
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 16_000_000
    card = (folder / "README.md").read_text()
    assert "CC BY-SA" in card
    assert "CC BY 2.5" in card
    verify(folder, set(json.loads((folder / "manifest.json").read_text())))
    run = read_config(folder)
    assert (run.recipe, run.task.data, run.task.tokenizer) == ("text-small-distill", "", "")


@pytest.mark.parametrize("nfe", [1, 4, 16])
def test_it_writes_varied_words(sampler, nfe):
    """Not noise and not one word again and again: where real text has an entropy of 4.4 nats or so."""
    tokens = sampler.sample(8, nfe=nfe, seed=3).tokens
    assert 3.8 < entropies(tokens).mean() < 4.7
    words = re.findall(r"[A-Za-z]+", " ".join(sampler.task.decode(tokens)))
    common = sum(word in {"the", "of", "and", "in", "to", "a", "was", "is"} for word in words)
    assert 0.1 < common / len(words) < 0.6


def test_a_prompt_stays(command):
    code, out, _ = command("sample", "text", "--n", 1, "--nfe", 2, "--prompt", "The city of Paris")
    assert code == 0
    assert "The city of Paris" in out


def test_it_is_evaluated_without_the_text_it_was_trained_on(command):
    code, out, err = command("eval", "text", "text", "--judge", "none", "--n", 2, "--nfe", 1, "--device", "cpu")
    assert code == 0, err
    assert "real text is left out of the table" in err
    assert "1 NFE" in out
