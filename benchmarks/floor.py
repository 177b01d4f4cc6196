"""An estimate from below of an epoch's time: its work, counted, at rates of the same run.

Counted exactly from the blocks: the non-zeros of the features X on ``rows0`` and of the propagation
matrix on ``rows1`` and ``rows2``, forward and backward, times the width of what they multiply.
Nothing else of the forward and backward pass is counted, no dense product, loss or dropout. It is
an estimate, not a proof: rates are measured on random columns, and backward products are priced at
the bandwidth of forward ones.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from batched import HIDDEN, Batched
from probes import gather, sparse_products, update_pass
from timing import fastest

from private_graphs.training.kernels import aligned_zeros
from private_graphs.training.noise import fill_normals

_NUMBER, _NONZERO = 4, 8
"""Bytes of a float32; of a stored non-zero, value and index."""
_PROBED_ROW = 32
"""Non-zeros per row of the probed matrices."""


@dataclass
class Product:
    """One kind of sparse product, summed over what one replica-epoch makes of it."""

    flops: float = 0.0
    bytes: float = 0.0
    largest_table: float = 0.0
    """Bytes of the dense rows that the non-zeros of one block select from."""

    def add(self, nonzeros: int, rows: int, width: int, table_rows: int, backward: bool) -> None:
        """Count one block. Backward, each selected row is read and written."""
        self.flops += 2.0 * nonzeros * width
        touched = (2 if backward else 1) * width * _NUMBER
        self.bytes += nonzeros * (_NONZERO + touched) + rows * width * _NUMBER
        self.largest_table = max(self.largest_table, table_rows * width * _NUMBER)


@dataclass(frozen=True)
class Floor:
    """Milliseconds of one replica-epoch, and the counts behind them."""

    flops: float
    bytes: float
    products: float
    draws: int
    noise: float
    update: float

    @property
    def total(self) -> float:
        """The floor."""
        return self.products + self.noise + self.update


class Rates:
    """Rates of this machine at this moment, each the fastest of many short runs."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._bandwidth: dict[int, float] = {}
        self._pass: dict[tuple[str, int], float] = {}
        flops = 2.0 * 16 * 1024 * HIDDEN
        self.flops = flops / self._gather_seconds(table_rows=64, rows=16, repeats=32)

    def _gather_seconds(self, table_rows: int, rows: int, repeats: int) -> float:
        """Seconds of products of ``rows`` x ``table_rows`` with random columns."""
        generator = np.random.default_rng(0)
        nonzeros = rows * _PROBED_ROW
        pointers = np.arange(0, nonzeros + 1, _PROBED_ROW, dtype=np.int64)
        indices = generator.integers(0, table_rows, nonzeros).astype(np.int32)
        values = np.ones(nonzeros, np.float32)
        dense = aligned_zeros((table_rows, HIDDEN), np.float32)
        out = aligned_zeros((rows, HIDDEN), np.float32)
        start, lanes = aligned_zeros((1, HIDDEN), np.float32), (True,) * HIDDEN
        return fastest(
            lambda: gather(lanes, repeats, pointers, indices, values, dense, start, out),
            self.seconds,
        )

    def bandwidth(self, table: float) -> float:
        """Bytes per second of the gather kernel on a table of about ``table`` bytes.

        Tables are rounded down to a power of two, from 8 KiB on: the floor stays a floor.
        """
        power = max(13, int(np.log2(max(table, 1))))
        if power not in self._bandwidth:
            table_rows = 2**power // (HIDDEN * _NUMBER)
            rows = max(16, 4 * table_rows // _PROBED_ROW)
            repeats = max(1, 16384 // (rows * _PROBED_ROW))
            taken = self._gather_seconds(table_rows, rows, repeats)
            nonzeros = rows * _PROBED_ROW
            moved = nonzeros * (_NONZERO + HIDDEN * _NUMBER) + rows * HIDDEN * _NUMBER
            self._bandwidth[power] = repeats * moved / taken
        return self._bandwidth[power]

    def draw(self, parameters: int) -> float:
        """Seconds per Gaussian draw where a replica has this many parameters."""
        return self._per_parameter("draw", parameters)

    def update(self, optimizer: str, parameters: int) -> float:
        """Seconds per parameter of one pass of the optimizer."""
        return self._per_parameter(optimizer, parameters)

    def _per_parameter(self, what: str, parameters: int) -> float:
        if (what, parameters) not in self._pass:
            length = -(-parameters // 16) * 16
            theta, g, m, v = (aligned_zeros((length,), np.float32) for _ in range(4))
            if what == "draw":
                words = aligned_zeros((4, length // 4), np.uint32)
                key = np.arange(4, dtype=np.uint32)

                def run() -> None:
                    fill_normals(key, 0, 0, theta, words, m[: length // 4], v[: length // 4])
            else:
                g[:], v[:] = 1e-3, 1e-3

                def run() -> None:
                    update_pass(what == "adam", theta, g, m, v)

            self._pass[what, parameters] = fastest(run, self.seconds) / length
        return self._pass[what, parameters]

    def rows(self, dataset: str) -> list[dict[str, object]]:
        """Return every rate that was asked for, as rows of a file."""
        rates = [("sparse product, data in the first cache", self.flops / 1e9, "GFLOP/s")]
        for power, rate in sorted(self._bandwidth.items()):
            size = f"{2**power // 1024:,} KiB"
            rates.append((f"sparse product, {size} to select from", rate / 1e9, "GB/s"))
        titles = {"draw": "Gaussian draw", "sgd": "SGD pass", "adam": "Adam pass"}
        for (what, parameters), rate in sorted(self._pass.items()):
            what = f"{titles[what]}, {parameters:,} parameters"
            rates.append((what, rate * 1e9, "ns per number"))
        names = ("dataset", "rate", "measured", "unit")
        return [dict(zip(names, (dataset, *rate), strict=True)) for rate in rates]


def _nonzeros(pointers: np.ndarray, rows: np.ndarray) -> int:
    return int((pointers[rows + 1] - pointers[rows]).sum())


def _count_block(ours: Batched, b: int, trains: bool, found: dict[str, Product]) -> None:
    """Add the products of block ``b``: forward, and backward where it trains."""
    inputs, blocks = ours.structure.inputs, ours.structure.blocks
    k, ap, n_loss = inputs.n_classes, inputs.a_pointers[blocks.graph[b]], int(blocks.n_loss[b])
    if trains and n_loss == 0:
        return

    def rows(name: str) -> np.ndarray:
        start = getattr(blocks, f"{name}_start")
        return getattr(blocks, name)[start[b] : start[b + 1]]

    rows0, rows1, rows2, words = (rows(name) for name in ("rows0", "rows1", "rows2", "words"))
    x, a1 = _nonzeros(inputs.x_pointers, rows0), _nonzeros(ap, rows1)
    found["X W1"].add(x, len(rows0), HIDDEN, len(words), False)
    found["A (X W1)"].add(a1, len(rows1), HIDDEN, len(rows0), False)
    found["A (H W2)"].add(_nonzeros(ap, rows2), len(rows2), k, len(rows1), False)
    if trains:
        found["A' dY"].add(_nonzeros(ap, rows2[:n_loss]), n_loss, k, len(rows1), True)
        found["A' dH"].add(a1, len(rows1), HIDDEN, len(rows0), not blocks.closed[b])
        found["X' dZ"].add(x, len(rows0), HIDDEN, len(words), True)


def count_products(ours: Batched) -> dict[str, Product]:
    """Sparse products of one replica-epoch, validation included, by kind; the mean replica's."""
    found: dict[str, Product] = defaultdict(Product)
    for b in ours.structure.parts.ravel():
        _count_block(ours, int(b), True, found)
    if not ours.structure.joined:
        for b in ours.structure.validation:
            _count_block(ours, int(b), False, found)
    for each in found.values():
        each.flops /= ours.replicas
        each.bytes /= ours.replicas
    return found


def floor_of(ours: Batched, rates: Rates) -> Floor:
    """The floor of one replica-epoch: products (the slower of bytes and flops), noise, update."""
    products = count_products(ours).values()
    draws = ours.updates if ours.training.noise else 0
    moved = sum(each.bytes / rates.bandwidth(each.largest_table) for each in products)
    flops = sum(each.flops for each in products)
    return Floor(
        flops=flops,
        bytes=sum(each.bytes for each in products),
        products=max(moved, flops / rates.flops) * 1e3,
        draws=draws,
        noise=draws * rates.draw(ours.parameters) * 1e3 if draws else 0.0,
        update=ours.updates * rates.update(ours.training.optimizer, ours.parameters) * 1e3,
    )


def products_alone(ours: Batched, seconds: float) -> float:
    """Milliseconds per replica-epoch of the counted products, run with nothing around them."""
    inputs, structure = ours.structure.inputs, ours.structure
    nodes, width = len(inputs.labels), len(inputs.class_lanes)
    w1, g1 = (aligned_zeros((inputs.n_features, HIDDEN), np.float32) for _ in range(2))
    z0, h1 = (aligned_zeros((nodes, HIDDEN), np.float32) for _ in range(2))
    y, logits = (aligned_zeros((nodes, width), np.float32) for _ in range(2))
    zeros = aligned_zeros((1, max(HIDDEN, width)), np.float32)
    scored = structure.validation[: 0 if structure.joined else None]
    trained = structure.parts.ravel()
    tables = (w1, g1, z0, h1, y, logits, zeros)
    taken = fastest(
        lambda: sparse_products(inputs, structure.blocks, trained, scored, *tables), seconds
    )
    return taken / ours.replicas * 1e3
