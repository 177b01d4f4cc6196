"""Largest counts and sizes that commands, configurations and files may ask for.

Each is beyond every real use and within what a machine can hold or do, so that a slip of the pen is
refused before anything is allocated.
"""

MOST_SEEDS = 10_000
"""Most seeds; a larger number is a single seed written without brackets."""
LARGEST_SEED = 2**62
"""Largest seed; rows store seeds as int64."""
MOST_THREADS = 1024
MOST_EDGES = 10**15
MOST_RUNS = 10**6
"""Most runs of one audit."""
MOST_COUNT = 10**6
"""Largest whole number among a method's settings: epochs, hidden units, splits, parts."""
MOST_JOBS = 10_000
"""Most combinations of settings in one entry of a study file."""
SMALLEST_DELTA = 1e-300
"""Smallest δ: the reciprocal of a smaller one overflows."""
MOST_TABLE_BYTES = 2**32
"""Largest table of a user's graph or documents: a file, or what Parquet unpacks."""
MOST_LINE_BYTES = 2**24
"""Longest line of a CSV file."""
LONGEST_BLOCK = 2**28
"""Most bytes of one row of a table."""
MOST_NAME_BYTES = 2**25  # of a list of words, or of ids of neighbours in a model
LONGEST_NAME = 1000
"""Most characters of the name of a class."""
MOST_DOCUMENT_BYTES = 2**28
"""Largest JSON document or list of scores, also after unpacking."""
MOST_VALUES = 2**22  # of a JSON document
CANDIDATE_PICTURES = 2000
"""Most images whose membership an attack tests; all other images are members."""
PUBLISHED_AT_ONCE = 2**26
"""Most entries of an attack's array of published class scores."""
