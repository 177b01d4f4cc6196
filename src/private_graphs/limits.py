"""Largest counts that commands and configurations take: more are a mistake, found at once."""

MOST_SEEDS = 10_000
"""More are a single seed that somebody wrote without brackets."""
LARGEST_SEED = 2**62
"""Rows hold seeds as int64."""
MOST_THREADS = 1024
MOST_EDGES = 10**15
MOST_RUNS = 10**6
"""Of one audit."""
