"""The method's own objective on examples that are never trained on: the validation loss of any recipe."""

import numpy as np
import torch

from dbtm.core import rng
from dbtm.methods.base import Examples, Method
from dbtm.sampling import Sampler

STREAM = 302  # of random numbers
EXAMPLES = 256  # at most
BATCHES = 4  # at most, of the run's own size


@torch.no_grad()
def validation_loss(sampler: Sampler, seed: int = 0) -> float | None:
    """The weighted sum of all terms, as the last step of the run has them, so that it can be compared along a run whose
    terms start at different times. The noise is the same every time. None where the task holds nothing out.
    """
    method, task = sampler.method, sampler.task
    if task is None or not isinstance(method, Method) or type(method).parts is Method.parts:
        return None
    train = method.config.train
    size = min(train.micro_batch or train.batch, EXAMPLES)
    examples = task.held_out_examples(min(EXAMPLES, BATCHES * size))
    if examples is None or not len(examples.tokens):
        return None
    prompt = np.zeros(examples.tokens.shape, dtype=bool) if examples.prompt is None else examples.prompt
    network, trained = sampler.network, getattr(method, "network", None)
    training, total, count = network.training, 0.0, 0
    method.network = network.eval()
    try:
        for first in range(0, len(examples.tokens), size):
            rows = np.arange(first, min(first + size, len(examples.tokens)))
            tokens_BL = torch.from_numpy(np.asarray(examples.tokens[rows], dtype=np.int64))
            prompt_BL = torch.from_numpy(np.array(prompt[rows]))
            key_B = rng.fold(seed, STREAM, torch.from_numpy(rows))
            place_B = torch.arange(len(rows)) * train.batch // len(rows)  # spread over a whole batch's times
            tensors = (each.to(sampler.device) for each in (tokens_BL, prompt_BL, key_B, place_B))
            tokens, mask, keys, place = tensors
            batch = Examples(tokens, mask, keys, step=train.steps - 1, place=place)
            targets = int((~prompt_BL).sum())
            total += targets * sum(float(part.loss) for part in method.parts(method.prepare(batch)))
            count += targets
    finally:
        network.train(training)
        if trained is None:
            del method.network
        else:
            method.network = trained
    return total / count if count else None
