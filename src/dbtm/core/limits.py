"""Upper limits of requests: a typo is refused immediately, rather than after hours or after filling the memory.

They are far above any useful value.
"""

MOST_COUNT = 10_000_000  # samples, puzzles, problems
MOST_EVALUATIONS = 100_000  # network evaluations of one sample
MOST_THREADS = 1 << 12  # of a CPU's matrix products
MOST_ROWS = 1 << 20  # of a training batch, or sampled in parallel
MOST_REPEATS = 100_000  # of a measurement
MOST_ROUNDS = 1_024  # of a rollout within a training step
MOST_WORKERS = 1_024
MOST_SEED = 2**63 - 1
MOST_MINUTES = 10 * 366 * 24 * 60.0
