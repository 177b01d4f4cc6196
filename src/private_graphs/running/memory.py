"""Memory that a job needs, and memory that is available.

The prediction is the peak of one process, from sizes that are known before the data are read;
docs/cluster.md compares it with measurements.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

from private_graphs.core.errors import UsageError
from private_graphs.core.limits import CANDIDATE_PICTURES, PUBLISHED_AT_ONCE
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


def refuse_too_large(needed: int, what: str) -> None:
    """Raise UsageError if less than ``needed`` MiB are available for ``what``."""
    limit, source = min(_limits())
    if needed > limit:
        raise UsageError(
            f"{what} would need about {needed:,} MB of memory; found {limit:,} MB ({source}): ask "
            "for fewer seeds at once, for a smaller graph or smaller settings such as hidden, or "
            "for a machine with more"
        )


def _limits() -> Iterator[tuple[int, str]]:
    """Yield each bound on the resident memory of this process in MiB, with its name."""
    page = os.sysconf("SC_PAGE_SIZE")
    yield os.sysconf("SC_PHYS_PAGES") * page // 2**20, "of this machine"
    bound, _ = resource.getrlimit(resource.RLIMIT_AS)
    if bound != resource.RLIM_INFINITY:
        with contextlib.suppress(OSError):  # libraries reserve addresses that they never fill
            reserved, resident = map(int, Path("/proc/self/statm").read_text().split()[:2])
            bound -= (reserved - resident) * page
        yield bound // 2**20, "ulimit -v, less what libraries reserve"
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            yield from _limits_of_group(*line.split(":", 2)[1:])


def _limits_of_group(controllers: str, path: str) -> Iterator[tuple[int, str]]:
    """Yield the limits of a control group (version 1 or 2) and of the groups that contain it."""
    if controllers not in ("", "memory"):
        return
    root = Path("/sys/fs/cgroup", controllers)
    name = "memory.limit_in_bytes" if controllers else "memory.max"
    group = root / path.lstrip("/")
    for folder in (group, *group.parents):
        with contextlib.suppress(OSError, ValueError):  # no such file here, or "max"
            yield int((folder / name).read_text()) // 2**20, (folder / name).as_posix()
