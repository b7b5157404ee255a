"""MAUVE (Pillutla et al., 2021) of two sets of feature vectors: 1 for indistinguishable sets, towards 0 otherwise.

Vectors are normalised, reduced to the directions that hold nine tenths of their variance, and clustered together. The
two histograms P and Q of clusters are compared along their mixtures R = lambda P + (1 - lambda) Q: the area under the
curve (exp(-c KL(Q | R)), exp(-c KL(P | R))), c = 5. The value depends on the numbers of samples and of
clusters, so it only compares models measured in the same way, and real text measured against other real text.
"""

import warnings

import numpy as np

SCALE = 5.0
MIXTURES = 99
VARIANCE = 0.9


def mauve(first_ND: np.ndarray, second_MD: np.ndarray, seed: int = 0) -> float:
    """Of two sets of vectors, with a cluster for every ten vectors of the smaller one."""
    clusters = max(2, min(len(first_ND), len(second_MD)) // 10)
    labels = _cluster(np.concatenate([first_ND, second_MD]), clusters, seed)
    p, q = (np.bincount(part, minlength=clusters) / len(part) for part in np.split(labels, [len(first_ND)]))
    return frontier_area(p, q)


def frontier_area(p: np.ndarray, q: np.ndarray) -> float:
    """The area under the divergence curve of two histograms."""
    weight = np.linspace(0, 1, MIXTURES + 2)[1:-1, None]
    mixture = weight * p + (1 - weight) * q
    x = np.exp(-SCALE * np.array([_divergence(q, r) for r in mixture]))
    y = np.exp(-SCALE * np.array([_divergence(p, r) for r in mixture]))
    x, y = np.concatenate([[0.0], x[::-1], [1.0]]), np.concatenate([[1.0], y[::-1], [0.0]])
    order = np.argsort(x, kind="stable")
    return float(np.trapezoid(y[order], x[order]))


def _divergence(p: np.ndarray, r: np.ndarray) -> float:
    """KL(p | r); r is positive wherever p is."""
    some = p > 0
    return float((p[some] * np.log(p[some] / r[some])).sum())


def _cluster(x_ND: np.ndarray, clusters: int, seed: int) -> np.ndarray:
    """(N,) the cluster of every vector: k-means from a spread of the points."""
    from scipy.cluster.vq import kmeans2

    x = x_ND / np.linalg.norm(x_ND, axis=1, keepdims=True).clip(min=1e-12)
    x = x - x.mean(0)
    left, size, _ = np.linalg.svd(x, full_matrices=False)
    if size[0] < 1e-9:  # all points are one
        return np.zeros(len(x), dtype=np.int64)
    share = np.cumsum(size**2) / max((size**2).sum(), 1e-300)
    kept = int(np.searchsorted(share, VARIANCE)) + 1
    points = left[:, :kept] * size[:kept]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster is harmless
        labels: np.ndarray = kmeans2(points, _spread(points, clusters, seed), minit="matrix")[1]
    return labels


def _spread(x_ND: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Some of the points, each drawn by its squared distance to the points drawn before (k-means++)."""
    generator = np.random.default_rng(seed)
    chosen = [int(generator.integers(len(x_ND)))]
    distance_N = np.full(len(x_ND), np.inf)
    while len(chosen) < count:
        distance_N = np.minimum(distance_N, ((x_ND - x_ND[chosen[-1]]) ** 2).sum(1))
        total = distance_N.sum()
        p_N = distance_N / total if total > 0 else np.full(len(x_ND), 1 / len(x_ND))
        chosen.append(int(generator.choice(len(x_ND), p=p_N)))
    return x_ND[chosen]
