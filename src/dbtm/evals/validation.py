"""The method's objective on held-out examples: the validation loss of any recipe."""

import numpy as np
import torch

from dbtm.core import rng
from dbtm.methods.base import Examples, Method
from dbtm.sampling import Sampler

STREAM = 302  # of random numbers
EXAMPLES = 256  # at most
BATCHES = 4  # at most, of the run's own size


def validation_loss(sampler: Sampler, seed: int = 0) -> float | None:
    """The weighted sum of all terms with the weights of the last step, so that values are comparable along a run whose
    terms start at different times. The noise is always the same. None if the task has no held-out examples.
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
    shares = sampler.everywhere(_losses, np.asarray(examples.tokens), np.asarray(prompt), seed, size)
    losses = [loss for _, loss in sorted(each for share in shares for each in share)]
    total, count = (sum(each) for each in zip(*losses, strict=True))
    return total / count if count else None


@torch.no_grad()
def _losses(
    sampler: Sampler, rank: int, ranks: int, tokens_NL: np.ndarray, prompt_NL: np.ndarray, seed: int, size: int
) -> list[tuple[int, tuple[float, int]]]:
    """Of this process's batches: the number of the first example, the loss times its targets, and these."""
    method, network, found = sampler.method, sampler.network, []
    assert isinstance(method, Method)
    train, trained, training = method.config.train, getattr(method, "network", None), network.training
    method.network = network.eval()
    try:
        for first in range(0, len(tokens_NL), size)[rank::ranks]:
            rows = np.arange(first, min(first + size, len(tokens_NL)))
            tokens_BL = torch.from_numpy(np.asarray(tokens_NL[rows], dtype=np.int64))
            prompt_BL = torch.from_numpy(np.array(prompt_NL[rows]))
            key_B = rng.fold(seed, STREAM, torch.from_numpy(rows))
            place_B = torch.arange(len(rows)) * train.batch // len(rows)  # spread over the times of a whole batch
            tensors = (each.to(sampler.device) for each in (tokens_BL, prompt_BL, key_B, place_B))
            tokens, mask, keys, place = tensors
            batch = Examples(tokens, mask, keys, step=train.steps - 1, place=place)
            targets = int((~prompt_BL).sum())
            loss = sum(float(part.loss) for part in method.parts(method.prepare(batch)))
            found.append((first, (targets * loss, targets)))
    finally:
        network.train(training)
        if trained is None:
            del method.network
        else:
            method.network = trained
    return found
