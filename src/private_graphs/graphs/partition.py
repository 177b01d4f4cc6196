"""A partition of the training nodes that a user gives in place of a drawn one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from private_graphs.core.errors import UserError


@dataclass(frozen=True)
class Partition:
    """A partition that a user gave."""

    nodes: np.ndarray
    """(T,) its nodes, rows of the data from 0, sorted."""
    parts: np.ndarray
    """(T,) their parts, 0 to ``count`` - 1."""
    name: str
    """Hash of nodes and parts: 16 hexadecimal digits."""

    @property
    def count(self) -> int:
        """Number of parts."""
        return int(self.parts.max()) + 1


@cache
def read_partition(path: str) -> Partition:
    """Read a CSV file with the columns ``node`` (row of the data, from 0) and ``part`` (from 0).

    Raises UserError for another file, a node that is named twice, and a part without a node.
    """
    try:
        table = pd.read_csv(path, dtype={"node": "Int64", "part": "Int64"})
        nodes, parts = (table[name].to_numpy(np.int64, copy=True) for name in ("node", "part"))
    except (OSError, OverflowError, TypeError, ValueError, KeyError) as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"splits: {path}: not readable ({line}); expected a CSV file with the columns node "
            "(row of the data, from 0) and part (from 0)"
        ) from None
    order = np.argsort(nodes, kind="stable")
    nodes, parts = nodes[order], parts[order]
    if len(np.unique(nodes)) < len(nodes):
        raise UserError(f"splits: {path}: a node is named twice; expected a part for every node")
    ids = np.unique(parts)
    if len(ids) < 2 or not np.array_equal(ids, np.arange(len(ids))):
        raise UserError(
            f"splits: {path}: parts {', '.join(map(str, ids[:9]))}; expected 0, 1, ... without a "
            "gap, two at least"
        )
    digest = hashlib.sha256(np.stack([nodes, parts]).tobytes()).hexdigest()
    return Partition(nodes, parts, digest[:16])
