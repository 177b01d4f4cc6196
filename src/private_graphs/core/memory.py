"""Memory that is available to this process."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

from private_graphs.core.errors import UsageError


def refuse_too_large(needed: int, what: str, remedy: str) -> None:
    """Raise UsageError if less than ``needed`` MiB are available for ``what``; the ``remedy`` says
    what else to do than to take a larger machine."""
    limit, source = min(_limits())
    if needed > limit:
        raise UsageError(
            f"{what} would need about {needed:,} MB of memory; found {limit:,} MB ({source}): "
            f"{remedy}, or take a machine with more"
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
