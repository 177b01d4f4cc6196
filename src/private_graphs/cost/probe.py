"""How fast this machine is, from a small workload that resembles training."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

_SECONDS = 0.3


def probe_seconds() -> float:
    """Seconds of one round of sparse products, element-wise updates and draws; takes about .5 s.

    The fastest of many rounds: whatever else the machine does only adds time.
    """
    import numpy as np
    import scipy.sparse

    generator = np.random.default_rng(0)
    rows, columns = 2000, 1500
    matrix = scipy.sparse.random_array((rows, columns), density=0.012, format="csr", rng=generator)
    weights = generator.standard_normal((columns, 32)).astype(np.float32)
    matrix = matrix.astype(np.float32)
    moment = np.zeros_like(weights)

    def work() -> None:
        hidden = matrix @ weights
        gradient = matrix.T @ hidden
        gradient += generator.standard_normal(weights.shape, dtype=np.float32)
        np.multiply(moment, 0.9, out=moment)
        moment.__iadd__(gradient)

    work()
    fastest, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        started = time.perf_counter()
        work()
        fastest = min(fastest, time.perf_counter() - started)
    return fastest


def machine_words() -> str:
    """Return processor and cores: ``Intel(R) Xeon(R) Processor, 2 cores``."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(each.split(":", 1)[1].strip() for each in lines if "model name" in each)
    except (OSError, StopIteration):
        pass
    cores = os.cpu_count() or 1
    return f"{' '.join(name.split())}, {cores} core{'' if cores == 1 else 's'}"
