"""Largest counts that commands and configurations accept; larger ones are mistakes."""

MOST_SEEDS = 10_000
"""Most seeds; a larger number is a single seed written without brackets."""
LARGEST_SEED = 2**62
"""Largest seed; rows store seeds as int64."""
MOST_THREADS = 1024
MOST_EDGES = 10**15
MOST_RUNS = 10**6
"""Most runs of one audit."""
