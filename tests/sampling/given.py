"""Random prompts for maps of the size defined in conftest.py."""

import numpy as np

L, V = 9, 7


def prompts(n, seed=0):
    generator = np.random.default_rng(seed)
    tokens, clean = generator.integers(0, V, (n, L)), generator.random((n, L)) < 0.3
    return tokens, clean
