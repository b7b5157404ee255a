"""Validation loss: the objective of a step, on held-out examples, without dropout."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from dbtm.core import rng
from dbtm.evals.validation import STREAM, validation_loss
from dbtm.methods.base import Examples, backward, method_of
from dbtm.recipes import recipe
from dbtm.tasks.own import Own


def run(method="dbtm", **train):
    config = recipe("markov").by(method)
    model = replace(config.model, width=16, depth=1, heads=2, dropout=0.3)
    return replace(config, model=model, train=replace(config.train, batch=8, **train))


@pytest.mark.parametrize("method", ["dbtm", "mdlm", "ar"])
def test_it_is_the_objective_of_training(method):
    """Against the trainer's own `backward` on the same examples; dropout is off, weights and mode stay."""
    made = method_of(run(method, steps=100)).start()
    network = made.network.train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    found = validation_loss(made.sampler(network), seed=5)
    tokens = torch.from_numpy(made.config.task.held_out_examples(32).tokens)
    network.eval()
    losses = []
    for first in range(0, 32, 8):
        rows = torch.arange(first, first + 8)
        key = rng.fold(5, STREAM, rows)
        batch = tokens[first : first + 8]
        examples = Examples(batch, torch.zeros_like(batch, dtype=torch.bool), key, step=99, place=torch.arange(8))
        losses.append(float(backward(made, made.prepare(examples))["loss"]))
    assert found == pytest.approx(np.mean(losses), rel=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_the_networks_mode_and_the_method_are_left_as_they_were():
    made = method_of(run()).start()
    network, other = made.network.train(), made.build()
    validation_loss(made.sampler(other.train()))
    assert made.network is network
    assert other.training


def test_a_task_that_holds_nothing_out_has_none():
    made = method_of(run().on(Own(vocab=3, length=4))).start()
    assert validation_loss(made.sampler(made.network)) is None
