"""Memory that a job needs.

The prediction is the peak of one process, from sizes that are known before the data are read;
docs/cluster.md compares it with measurements.
"""

from __future__ import annotations

from private_graphs.core.limits import CANDIDATE_PICTURES, PUBLISHED_AT_ONCE
from private_graphs.core.memory import refuse_too_large
from private_graphs.datasets.registry import dataset_spec
from private_graphs.datasets.spec import GraphSize
from private_graphs.methods import method_named
from private_graphs.running.jobs import Job

COMPILES = 300
"""MiB that compiling the kernels takes, once per machine and version."""
_LIBRARIES = 320
"""MiB of the interpreter with the libraries that every job loads."""
_NONZERO, _PIXEL, _EDGE = 20, 8, 250
"""Bytes of arrays per non-zero feature of a graph, pixel and undirected edge."""
_MARGIN = 1.1
_AUDIT = 500
"""MiB of an audit, whose tasks are tiny."""


def megabytes(job: Job, size: GraphSize | None = None) -> int:
    """Predict the peak resident memory of a job in MiB; ``size`` is that of its dataset."""
    if job.attack:
        return _AUDIT
    size = size or dataset_spec(job.dataset).size_with(job.features)
    method = method_named(job.method)
    peak = method.memory(method.settings.model_validate(job.settings), size, job.n_replicas)
    if job.leaks and job.leaks.attack == "membership":
        peak += _membership(size, method.data, job.n_replicas)
    itemsize = _PIXEL if method.data == "images" else _NONZERO
    data = size.nonzeros * itemsize + size.edges * _EDGE
    return int(_MARGIN * (_LIBRARIES + (data + peak) / 2**20))


def _membership(size: GraphSize, data: str, models: int) -> int:
    """Predict the bytes of a membership attack: five float32 arrays of published class scores by
    candidate, and 160 bytes for every model and candidate."""
    candidates = min(size.train_nodes, CANDIDATE_PICTURES if data == "images" else size.train_nodes)
    published = candidates * (size.test_nodes or size.nodes - size.train_nodes) * size.classes
    return 20 * min(published, PUBLISHED_AT_ONCE) + 160 * models * candidates


def refuse_large_job(needed: int, what: str) -> None:
    """Raise UsageError if less than ``needed`` MiB are available for ``what``, a job."""
    refuse_too_large(
        needed, what,
        "ask for fewer seeds at once, for a smaller graph or smaller settings such as hidden",
    )  # fmt: skip
