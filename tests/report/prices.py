"""Prices that take long, remembered: what the accountants' slow functions returned.

``python tests/report/prices.py`` computes those that recorded and golden statements need and
``tests/golden/prices.json.gz`` lacks, and leaves out others. A call that is not there is computed.
After a change of the functions themselves, delete the file first.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from private_graphs.core.errors import UserError
from private_graphs.privacy import (
    calibration,
    fourier,
    losses,
    moments,
    query_calibration,
    query_losses,
    renyi,
)

FILE = Path(__file__).parents[1] / "golden" / "prices.json.gz"
SLOW = (
    losses.pld_of,
    query_losses.pure_epsilon,
    query_losses.zcdp_epsilon_library,
    fourier.fourier_of,
    fourier.fourier_epsilon,
    renyi.renyi_epsilon,
    renyi.mironov_epsilon,
    renyi.classic_renyi_epsilon,
    renyi.occurrence_epsilon,
    renyi.fixed_lots_epsilon,
    calibration.pld_noise,
    query_calibration.lattice_noise,
    moments.moments_noise,
)
_FLOAT = re.compile(r"\d+\.\d+(?:e[+-]?\d+)?")


def _key(name: str, arguments: tuple, named: dict[str, Any]) -> str:
    """A name for a call; floats in it have the digits that all machines agree on."""
    text = _FLOAT.sub(lambda found: f"{float(found[0]):.9g}", f"{name}{arguments}{named}")
    return hashlib.sha256(text.encode()).hexdigest()[:10]


@contextmanager
def remembered(known: dict[str, float | str | None]) -> Iterator[set[str]]:
    """Let the slow functions answer from ``known``, which learns what is not there.

    Yields the keys that were asked for.
    """
    asked: set[str] = set()

    def answering(function: Callable) -> Callable:
        def answer(*arguments, **named):
            key = _key(function.__name__, arguments, named)
            asked.add(key)
            if key not in known:
                try:
                    known[key] = function(*arguments, **named)
                except UserError as error:
                    known[key] = str(error)
            if isinstance(known[key], str):
                raise UserError(known[key])
            return known[key]

        return answer

    ours = [module for name, module in sys.modules.items() if name.startswith("private_graphs")]
    patches = [
        mock.patch.object(module, name, answering(function))
        for function in SLOW
        for module in ours
        for name, value in list(vars(module).items())
        if value is function
    ]
    for patch in patches:
        patch.start()
    try:
        yield asked
    finally:
        for patch in patches:
            patch.stop()


def read() -> dict[str, float | str | None]:
    """Return the remembered prices."""
    return json.loads(gzip.decompress(FILE.read_bytes()))


def main() -> None:
    """Compute all prices of the recorded statements and write them."""
    from private_graphs.methods import all_methods
    from private_graphs.running.store import ROWS
    from private_graphs.site.record import read_recorded
    from private_graphs.site.restate import Statements

    all_methods()
    known, used = read() if FILE.is_file() else {}, set()
    folders = {FILE.parents[2] / "recorded": "", FILE.parent: "demo"}
    for path, scale in [(path, scale) for folder, scale in folders.items()
                        for path in sorted(folder.glob(f"*/{ROWS}"))]:  # fmt: skip
        with remembered(known) as asked:
            recorded = read_recorded(path.parent)
            statements = Statements(recorded, scale)
            for job in recorded.predictions:
                statements.of(job)
        used |= asked
        print(f"{path.parent}: {len(asked)} prices", flush=True)
    text = json.dumps({key: known[key] for key in sorted(used)}, separators=(",", ":"))
    FILE.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
