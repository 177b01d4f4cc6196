"""Graph partitions by METIS, which read every edge."""

from __future__ import annotations

import numpy as np


def metis_partition(edge_index: np.ndarray, n_nodes: int, parts: int) -> np.ndarray:
    """Return (N,) part numbers 0..parts-1 of an undirected graph, by METIS: few edges are cut.

    ``edge_index`` is (2, E), each edge once. The partition depends on the build of METIS. It reads
    every edge, so no method with a privacy claim uses it. Source: Karypis & Kumar, SIAM J. Sci.
    Comput. 1998.
    """
    from pymetis import CSRAdjacency, part_graph

    edges = np.hstack([edge_index, edge_index[::-1]])
    edges = edges[:, np.lexsort((edges[1], edges[0]))]
    starts = np.searchsorted(edges[0], np.arange(n_nodes + 1))
    return np.asarray(part_graph(parts, CSRAdjacency(starts, edges[1])).vertex_part)
