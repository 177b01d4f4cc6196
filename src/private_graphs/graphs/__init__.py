"""Graph operations: normalisation, splits, node samples, METIS partitions, PageRank."""
