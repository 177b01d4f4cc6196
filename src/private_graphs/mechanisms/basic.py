"""The basic mechanisms: Gaussian, Laplace, randomised response, exponential, a secret sample.

Every function takes the door, exact values and each replica's planned event, which fixes the noise;
the door counts its uses. Arrays are (R, …); None stands for a replica without DP.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from private_graphs.core.streams import Streams
from private_graphs.mechanisms.door import Array, Door, Lane, ReleaseMismatch
from private_graphs.privacy.queries import ExponentialChoice, GaussianQuery, LaplaceQuery, PureQuery

WITHOUT_NOISE = 2.0**-40
"""Lattice spacing of sums that get no noise."""


def gaussian(
    door: Door,
    exact: Array,
    queries: Sequence[GaussianQuery | None],
    *,
    stream: str = "noise",
    dtype: type = np.float64,
) -> Array:
    """Return (R, …) float64: ``exact`` plus the Gaussian noise of each query.

    Float sums are overwritten; ``dtype`` is the type in which normals are drawn. Integers count
    the query's lattice spacings, and get discrete noise (docs/privacy.md §0.6).
    """
    lattice = np.issubdtype(exact.dtype, np.integer)
    released = np.empty(exact.shape) if lattice else exact
    for row, out, lane, query in zip(exact, released, door.lanes, queries, strict=True):
        kept = row.copy() if door.watch.active else row
        if query is not None:
            if lattice != (query.spacing > 0):
                raise ReleaseMismatch("whole numbers and a spacing belong together")
            lane.ledger(door.name).spend(query)
        if lattice:
            out[...] = _discrete(lane, row, query, stream)
        elif query is not None:
            noise = lane.generator(stream).standard_normal(row.shape, dtype=dtype)
            out += dtype(query.noise_std) * noise
        if door.watch.active:
            out[...] = door.watch.passed(lane, door.name, "gaussian", query, kept, out)
    return released


def _discrete(lane: Lane, row: Array, query: GaussianQuery | None, stream: str) -> Array:
    if query is None:
        return row * WITHOUT_NOISE
    from private_graphs.training.exact import discrete_gaussian  # importing Numba takes .5 s

    steps = round(query.noise_std / query.spacing)
    return (row + discrete_gaussian(lane.generator(stream), steps, row.shape)) * query.spacing


def laplace(
    door: Door,
    exact: Array,
    queries: Sequence[LaplaceQuery | PureQuery | None],
    *,
    sensitivity: float | None = None,
    spacing: float = 0.0,
    weights: Array | float = 1,
    stream: str = "noise",
) -> Array:
    """Return (R, …) float64: ``exact`` plus Laplace noise of scale · ``weights``.

    The query's sensitivity is the L1 sensitivity of exact / ``weights``. If the plan gives ε
    alone, the sensitivity is ``sensitivity`` and the scale is sensitivity / ε. Integers count
    spacings of ``spacing`` and get discrete noise with integer ``weights`` (one per row of the
    first axis).
    """
    released = np.empty(exact.shape)
    for row, out, lane, query in zip(exact, released, door.lanes, queries, strict=True):
        lattice = np.issubdtype(row.dtype, np.integer)
        out[...] = row * spacing if lattice else row
        if query is not None:
            lane.ledger(door.name).spend(query)
            draw = lane.generator(stream)
            if isinstance(query, PureQuery):
                assert sensitivity is not None
                out += draw.laplace(0, sensitivity / query.epsilon * weights, row.shape)
            elif lattice:
                out[...] = (row + _discrete_laplace(draw, query, spacing, weights, row)) * spacing
            else:
                out += draw.laplace(0, query.scale * np.asarray(weights), row.shape)
        if door.watch.active:
            unit = sensitivity if isinstance(query, PureQuery) else 1.0
            _set_by(door, lane, unit, spacing, weights)
            kept = (row * spacing if lattice else row) / weights / unit
            out[...] = door.watch.passed(lane, door.name, "laplace", query, kept, out)
    return released


def rows(
    door: Door, exact: Array, query: GaussianQuery | None, asked: Array, *, stream: str = "noise"
) -> Array:
    """Return the ``asked`` rows of ``exact`` (n, …) with noise, else NaN; one replica only.

    Every asked row is one release of the query, whose count is a cap that is paid in full,
    because earlier releases may decide which rows are asked. Noise is drawn for all rows, so
    that the draws for a row do not depend on which other rows are asked. ``query`` None adds no
    noise.
    """
    [lane] = door.lanes
    noise = lane.generator(stream).standard_normal(exact.shape)
    noisy = np.full(exact.shape, np.nan)
    noisy[asked] = exact[asked]
    if query is not None:
        ledger = lane.ledger(door.name)
        ledger.capped.add(query)
        ledger.spend(query, int(asked.sum()))
        noisy[asked] += query.noise_std * noise[asked]
        told = door.watch.passed(lane, door.name, "rows", query, exact[asked], noisy[asked])
        noisy[asked] = told
    return noisy


def respond(
    door: Door,
    cells: Sequence[Array],
    n_cells: int,
    queries: Sequence[PureQuery | None],
    *,
    stream: str = "noise",
) -> list[Array]:
    """Return randomised responses to ``cells`` (n,), each one of ``n_cells`` answers.

    A cell is kept with probability e^ε / (e^ε + n_cells - 1), else replaced by any other one,
    uniformly.
    """
    released = []
    for own, lane, query in zip(cells, door.lanes, queries, strict=True):
        told = own
        if query is not None:
            lane.ledger(door.name).spend(query)
            draw = lane.generator(stream)
            keep = math.exp(query.epsilon) / (math.exp(query.epsilon) + n_cells - 1)
            others = draw.integers(0, n_cells - 1, size=len(own))
            others += others >= own
            told = np.where(draw.random(len(own)) < keep, own, others)
        if door.watch.active:
            _set_by(door, lane, n_cells)
        released.append(door.watch.passed(lane, door.name, "respond", query, own, told))
    return released


def flip(
    door: Door,
    codes: Array,
    total: int,
    keep: float,
    make: float,
    query: PureQuery,
    sample: Callable[[np.random.Generator, int], Array],
    *,
    stream: str = "noise",
) -> Array:
    """Return the bits that are set after randomised response, as codes; one replica only.

    ``codes`` are the set ones among ``total`` bits. A set bit stays with probability ``keep``;
    any other bit is set with probability ``make``. ``sample(generator, size)`` draws about
    ``size`` codes uniformly. No array has ``total`` entries: the number of newly set bits is
    binomial, and their positions are uniform.

    Raises:
        ReleaseMismatch: the probabilities have a higher privacy cost than the query.
    """
    [lane] = door.lanes
    cost = 0.0 if keep == make else math.inf
    if 0 < make < keep < 1:
        cost = math.log(max(keep / make, (1 - make) / (1 - keep)))
    if cost > query.epsilon * (1 + 1e-9):
        raise ReleaseMismatch(f"flips with {keep} and {make} cost {cost}: {query}")
    lane.ledger(door.name).spend(query)
    draw = lane.generator(stream)
    stay = codes[draw.random(len(codes)) < keep]
    wanted = draw.binomial(total - len(codes), make)
    others = np.empty(0, np.int64)
    while len(others) < wanted:
        more = sample(draw, wanted - len(others) + 64)
        others = np.concatenate([others, more[~np.isin(more, codes)]])
        _, first = np.unique(others, return_index=True)
        others = others[np.sort(first)]  # the first of equal draws, in the order of drawing
    told = np.concatenate([stay, others[:wanted]])
    if door.watch.active:
        _set_by(door, lane, total, keep, make)
    return door.watch.passed(lane, door.name, "flip", query, np.sort(codes), told)


def sample(
    door: Door, population: int, size: int, *, stream: str = "sample", shared: Streams | None = None
) -> list[Array]:
    """Return the positions of a secret sample in random order; the sample is never published.

    ``shared``: streams of a sample that all runs under one kept seed share.
    """
    released = []
    for lane in door.lanes:
        lane.ledger(door.name).sampled = True
        draw = lane.generator(stream) if shared is None else shared.generator(stream)
        released.append(door.watch.sampled(lane, draw.permutation(population), size))
    return released


def choose_top(
    door: Door,
    scores: Sequence[Array],
    top: int,
    queries: Sequence[ExponentialChoice | None],
    *,
    without: float,
    stream: str = "choice",
) -> list[Array]:
    """Return (n, top) sorted column indices for each row of a replica's (n, m) ``scores``.

    The exponential mechanism, ``top`` times without replacement: the largest of scores plus
    Gumbel noise (Durfee & Rogers 2019). All choices count as one call. ``without``: scale of
    the noise that breaks ties without DP.
    """
    released = []
    for own, lane, query in zip(scores, door.lanes, queries, strict=True):
        if query is not None:
            lane.ledger(door.name).spend(query)
        scale = without if query is None else query.scale
        noisy = own + lane.generator(stream).gumbel(0, scale, own.shape)
        places = np.sort(np.argpartition(-noisy, top - 1, axis=1)[:, :top], axis=1)
        released.append(door.watch.passed(lane, door.name, "choose_top", query, own, places))
    return released


def _set_by(door: Door, lane: Lane, *values: Any) -> None:
    """Show the watch noise parameters outside the query, which must be public."""
    for value in values:
        door.watch.public(lane, "what sets the noise", np.asarray(value))


def _discrete_laplace(
    draw: np.random.Generator,
    query: LaplaceQuery,
    spacing: float,
    weights: Array | float,
    row: Array,
) -> Array:
    """Return discrete Laplace noise in spacings; rows of equal weight are drawn together."""
    from private_graphs.training.exact import discrete_laplace  # imports Numba

    steps = round(query.scale / spacing)
    if np.ndim(weights) == 0:
        return discrete_laplace(draw, steps * int(weights), row.shape)
    noise = np.empty(row.shape, np.int64)
    flat = np.asarray(weights).reshape(len(row), -1)[:, 0]
    edges = np.flatnonzero(np.diff(flat)) + 1
    for begin, end in zip([0, *edges], [*edges, len(row)], strict=True):
        noise[begin:end] = discrete_laplace(draw, steps * int(flat[begin]), row[begin:end].shape)
    return noise
