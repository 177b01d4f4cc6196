"""The batched engine: random streams, visits, per-part gradients, DP steps, scores."""
