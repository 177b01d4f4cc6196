"""A synthetic campus in the format of Facebook100.

Friendships follow a degree-corrected block model whose blocks are graduation years: 60 % stay
within a year. Status and housing depend on the year, gender, major and minor do not. Draws are on
integers from the legacy ``RandomState``, whose streams NumPy keeps unchanged (NEP 19): the bytes
are the same on every machine.
"""

from __future__ import annotations

import io

import numpy as np
import scipy.sparse

_SEED = 20226
_NODES, _FRIENDSHIPS = 2_350, 60_000
_YEARS, _FEW = tuple(range(2004, 2010)), 2003


def _draw(rng: np.random.RandomState, weights: np.ndarray, size: int) -> np.ndarray:
    """Draw ``size`` positions with probability proportional to integer ``weights``."""
    ends = np.cumsum(weights.astype(np.int64))
    return np.searchsorted(ends, rng.randint(0, ends[-1], size=size), side="right")


def _info(rng: np.random.RandomState) -> np.ndarray:
    """Return (N, 7) attributes; 12 % have no year, 40 have a year with few members."""
    years = np.array(_YEARS)[_draw(rng, np.array([9, 14, 17, 20, 21, 19]), _NODES)]
    years[rng.randint(0, 100, size=_NODES) < 12] = 0
    years[:40] = _FEW
    year = np.where(years == 0, rng.randint(0, 6, size=_NODES), np.clip(years - 2004, 0, 5))
    noisy = np.where(rng.randint(0, 100, size=_NODES) < 55, year, rng.randint(0, 6, size=_NODES))
    columns = [
        1 + (year < 2) * (rng.randint(0, 100, size=_NODES) < 70),  # status: 2 means alumni
        1 + rng.randint(0, 2, size=_NODES),
        1 + rng.randint(0, 40, size=_NODES),
        1 + rng.randint(0, 40, size=_NODES),
        1 + 10 * noisy + rng.randint(0, 10, size=_NODES),
        years,
        1 + rng.randint(0, 500, size=_NODES),
    ]
    info = np.stack(columns, axis=1)
    for column, percent in ((0, 1), (1, 9), (2, 14), (3, 70), (4, 40), (6, 30)):
        info[rng.randint(0, 100, size=_NODES) < percent, column] = 0
    return info.astype(np.uint16)


def _friends(rng: np.random.RandomState, info: np.ndarray) -> scipy.sparse.csc_matrix:
    """Return the symmetric (N, N) 0/1 matrix; people without a year befriend any year alike."""
    tail = (1 - rng.random_sample(_NODES)) ** (-1 / 3)
    weight = np.rint(1000 * np.minimum(tail, 12)).astype(np.int64)
    first, second = (_draw(rng, weight, _FRIENDSHIPS) for _ in range(2))
    inside = rng.randint(0, 100, size=_FRIENDSHIPS) < 52  # some of the others stay by chance
    years = info[:, 5]
    for year in _YEARS:
        members = np.flatnonzero(years == year)
        chosen = np.flatnonzero(inside & (years[first] == year))
        second[chosen] = members[_draw(rng, weight[members], len(chosen))]
    ends = np.r_[first, second], np.r_[second, first]
    matrix = scipy.sparse.coo_matrix((np.ones(2 * _FRIENDSHIPS), ends), (_NODES, _NODES)).tolil()
    matrix.setdiag(0)
    matrix = matrix.tocsc()
    matrix.eliminate_zeros()
    matrix.data[:] = 1
    return matrix


def campus_bytes(info: np.ndarray, friends: scipy.sparse.spmatrix) -> bytes:
    """Return a MATLAB 5 file with ``A`` and ``local_info``, without a timestamp."""
    from scipy.io import savemat  # the import takes a quarter of a second

    packed = io.BytesIO()
    savemat(packed, {"A": friends, "local_info": info}, format="5", do_compression=False)
    return b"MATLAB 5.0 MAT-file".ljust(116) + packed.getvalue()[116:]


def campus() -> bytes:
    """Return the bytes of the campus's file."""
    rng = np.random.RandomState(_SEED)
    info = _info(rng)
    return campus_bytes(info, _friends(rng, info))
