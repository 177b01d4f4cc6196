"""Graph operations: normalisation, splits, samples of the training nodes."""
