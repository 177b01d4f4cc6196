"""Raw files -> :class:`~private_graphs.datasets.graph_dataset.GraphDataset`."""
