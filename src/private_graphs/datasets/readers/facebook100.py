"""Facebook100: friendships at US colleges in 2005, read as ProGAP does (WSDM 2024, Section 5.1).

A campus is a MATLAB file with the symmetric matrix of friendships ``A`` (N, N) and ``local_info``
(N, 7): status, gender, major, minor, housing, graduation year, high school; 0 means missing. The
year is the class. Traud, Mucha & Porter, Social Structure of Facebook Networks, Physica A 2012.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse

from private_graphs.datasets.arrays import UndirectedEdges, require, undirected_edges
from private_graphs.datasets.graph_dataset import ParsedGraph, SparseFeatures
from private_graphs.datasets.matlab import read_array
from private_graphs.datasets.prepared import prepared
from private_graphs.datasets.spec import DatasetSpec, GraphSize
from private_graphs.datasets.views import PAPER, RELEASED, SOUND, DataView

FOLDER = "facebook100"
YEAR, MISSING_YEAR = 5, "year missing"
"""Column of the year in ``local_info``, and the class of nodes without a year."""
_COLUMNS = 7
CAMPUSES = tuple(
    """
    Villanova62 UCLA26 Tennessee95 NYU9 Carnegie49 GWU54 USF51 Vanderbilt48 USC35 Rutgers89 UConn91
    MIT8 USFCA72 UChicago30 UIllinois20 UC61 Cal65 Yale4 Northeastern19 Dartmouth6 Vermont70
    Northwestern25 William77 Harvard1 Princeton12 UC64 Middlebury45 Haverford76 Bingham82 UNC28
    Berkeley13 Rochester38 Swarthmore42 Virginia63 WashU32 Columbia2 NotreDame57 Bucknell39 UVA16
    Maine59 MU78 Simmons81 MSU24 Colgate88 Temple83 Cornell5 Indiana69 Oklahoma97 Michigan23 BU10
    Brown11 Auburn71 FSU53 UGA50 UCF52 Howard90 UCSD34 Vassar85 Tufts18 UPenn7 Baylor93 UMass92
    Bowdoin47 Maryland58 Penn94 Wesleyan43 UC33 Rice31 UCSC68 Smith60 Caltech36 Hamilton46 Oberlin44
    American75 Mich67 Mississippi66 Williams40 UCSB37 Amherst41 Duke14 Pepperdine86 Wake73 Lehigh96
    Reed98 Tulane29 Texas84 Wellesley22 JMU79 Santa74 Wisconsin87 Stanford3 Texas80 UF21
    JohnsHopkins55 Syracuse56 BC17 Georgetown15 Trinity100 Brandeis99 Emory27
    """.split()
)
"""All campuses, in the order in which ProGAP joins them."""
PART = tuple(
    """
    Rutgers89 MIT8 UChicago30 Harvard1 Haverford76 Berkeley13 Swarthmore42 Simmons81 Cornell5 Rice31
    Caltech36 Amherst41 Reed98 Wisconsin87 JohnsHopkins55
    """.split()
)
"""Campuses of ``fb100-part``, in that order."""
CAMPUS_FEATURES, JOINED_FEATURES = (0, 1, 2, 3, 4), (0, 1, 2)
"""Columns that become features, for one campus and for several (minors and houses differ)."""


def one_hot(columns: np.ndarray) -> scipy.sparse.csr_matrix:
    """Return (N, F) float32: a column per value of each of the (N, k) integer ``columns``.

    Values are collected over all rows; 0 means missing and has no column. As in ProGAP's features,
    a column without missing values stays one column of integers and comes first.
    """
    whole = [column for column in columns.T if (column != 0).all()]
    blocks = [scipy.sparse.csr_matrix(column[:, None].astype(np.float32)) for column in whole]
    for column in columns.T:
        known = np.flatnonzero(column)
        if len(known) == len(column):
            continue
        values, code = np.unique(column[known], return_inverse=True)
        ones = np.ones(len(known), np.float32)
        blocks.append(scipy.sparse.csr_matrix((ones, (known, code)), (len(column), len(values))))
    return scipy.sparse.hstack(blocks, format="csr")


def with_class(years: np.ndarray, view: DataView, smallest: int) -> tuple[np.ndarray, list[int]]:
    """Return the (N,) mask of remaining nodes, and the years of classes of ``smallest`` nodes.

    ``missing_class`` kept: the smallest number that occurs is taken for "no year", so that a single
    negative one makes a class of all nodes without a year. That class is the last one.
    """
    unknown = years <= 0
    if view.missing_class == "kept" and (years == 0).any():
        unknown = years == years.min()
    values, counts = np.unique(years[~unknown], return_counts=True)
    classes = values[counts >= smallest].tolist()
    classes.sort(key=lambda year: (year <= 0, year))
    return ~unknown & np.isin(years, classes), classes


def _read(path: Path, variable: str) -> np.ndarray | scipy.sparse.spmatrix:
    """Read one variable of a campus; UserError if it is missing or malformed."""
    matrix = read_array(path, variable)
    if variable == "A":
        right = scipy.sparse.issparse(matrix) and matrix.shape[0] == matrix.shape[1]
        expected = "a square sparse matrix"
    else:
        right = isinstance(matrix, np.ndarray) and matrix.ndim == 2 and matrix.shape[1] == _COLUMNS
        right = right and matrix.dtype.kind in "iu"
        expected = f"a matrix of {_COLUMNS} columns of integers"
    shape = "nothing" if matrix is None else f"{matrix.dtype} of shape {matrix.shape}"
    require(right, f"{path}: {variable}", shape, expected)
    return matrix


def read_campuses(
    folder: Path,
    view: DataView = SOUND,
    *,
    campuses: Sequence[str],
    columns: Sequence[int] = CAMPUS_FEATURES,
    smallest: int = 1000,
) -> ParsedGraph:
    """Read the disjoint union of campuses, with classes of at least ``smallest`` nodes.

    Masks (75 % train, 10 % validate, 15 % test) are drawn by raw node number, before nodes without
    a class and then nodes without an edge are dropped. Campuses are read one by one.

    Raises:
        UserError: a file is missing or malformed, or fewer than two classes are left.
    """
    paths = [folder / f"{campus}.mat" for campus in campuses]
    info = [_read(path, "local_info").astype(np.int64) for path in paths]
    starts = np.cumsum([0, *map(len, info)])
    joined = np.concatenate(info)
    years = joined[:, YEAR]
    mask, classes = with_class(years, view, smallest)
    actual = f"{len(classes)} graduation years of {smallest:,} nodes or more"
    require(len(classes) >= 2, folder, actual, "two at least")
    parts, loops, duplicates, one_way = [], 0, 0, 0
    for path, start, end in zip(paths, starts[:-1], starts[1:], strict=True):
        adjacency = _read(path, "A")
        rows = adjacency.shape[0]
        require(rows == end - start, f"{path}: A", f"{rows} rows", f"{end - start}, as local_info")
        entries = scipy.sparse.coo_matrix(adjacency)
        inside = (entries.data != 0) & mask[start + entries.row] & mask[start + entries.col]
        edges = undirected_edges(entries.row[inside], entries.col[inside], end - start)
        parts.append(edges.edge_index + start)
        loops += edges.loops
        duplicates += edges.duplicates
        one_way += edges.one_way
    edges = UndirectedEdges(np.concatenate(parts, axis=1), loops, duplicates, one_way)
    del parts
    labels = np.full(len(mask), -1, np.int64)
    for label, year in enumerate(classes):
        labels[mask & (years == year)] = label
    features = one_hot(joined[:, list(columns)])
    return prepared(
        labels,
        len(classes),
        edges,
        lambda tied: SparseFeatures.from_scipy(features[tied]),
        (
            f"students of graduation years with {smallest:,} members at least are nodes, the year "
            "is the class; who then has no friend left is dropped: neighbours are defined after "
            "that",
            f"joined are {len(campuses)} campuses: {', '.join(campuses)}",
        )[: 1 if len(campuses) == 1 else 2],
        str(folder),
    )


def _git_blob(path: Path) -> str:
    content = path.read_bytes()
    whole = b"blob %d\0" % len(content) + content
    return hashlib.sha1(whole).hexdigest()  # noqa: S324 (it is what git identifies a file by)


ILLINOIS, _ILLINOIS_BLOB = "UIllinois20", "140f9c6e2f4bf041abe5c7cdf838f92786420b3a"


def read_illinois(folder: Path) -> ParsedGraph:
    """Read the campus that ProGAP calls Facebook; UserError if the file is another one."""
    path = folder / f"{ILLINOIS}.mat"
    blob = _git_blob(path)
    require(blob == _ILLINOIS_BLOB, path, f"the git blob id {blob}", _ILLINOIS_BLOB,
            "supply the file that the paper's code downloads")  # fmt: skip
    return read_campuses(folder, campuses=(ILLINOIS,))


def _read_any(folder: Path, campus: str) -> ParsedGraph:
    """Read a campus whose classes are read from its file.

    Classes are the years with 1,000 members; where fewer than two have as many, those with a
    twentieth of all people.
    """
    years = _read(folder / f"{campus}.mat", "local_info").astype(np.int64)[:, YEAR]
    smallest = 1000
    if len(with_class(years, SOUND, smallest)[1]) < 2:
        smallest = max(1, len(years) // 20)
    classes = with_class(years, SOUND, smallest)[1]
    names = tuple(f"class of {year}" for year in classes)
    return replace(read_campuses(folder, campuses=(campus,), smallest=smallest), classes=names)


def _years(first: int, last: int, *further: str) -> tuple[str, ...]:
    return (*(f"class of {year}" for year in range(first, last + 1)), *further)


def _bound(edges: int) -> int:
    """Return the public bound on the edges: their number rounded up to two digits."""
    step = 10 ** (len(str(edges)) - 2)
    return -(-edges // step) * step


def _spec(name, title, read, classes, size, views=()) -> DatasetSpec:
    return DatasetSpec(
        name, title, FOLDER, classes, GraphSize(*size),
        max_edges=_bound(size[1]), read=read, views=views,
    )  # fmt: skip


_TYPICAL = (20_000, 700_000, 75_000, 400, 6, 15_000)
"""Estimated sizes of a campus without an entry."""
_MOST_FRIENDSHIPS = 2_000_000
"""Public bound on the edges of such a campus: more than any of the hundred has."""


def named(name: str) -> DatasetSpec | None:
    """Return the entry of any campus of Facebook100 by its name: ``facebook-mit8``."""
    campuses = {f"facebook-{campus.lower()}": campus for campus in CAMPUSES}
    if name not in campuses:
        return None
    campus = campuses[name]
    spec = _spec(name, f"Facebook, {campus}", partial(_read_any, campus=campus), (), _TYPICAL)
    part = "fb100", f"{FOLDER}/{campus}.mat"
    return replace(spec, max_edges=_MOST_FRIENDSHIPS, part_of=part)


_STAND_INS = {
    # years of the classes; nodes, edges, non-zeros, features, classes, training nodes
    "Cornell5": ((2004, 2009), (15_348, 651_726, 59_212, 349, 6, 11_490)),
    "Berkeley13": ((2004, 2009), (18_939, 677_467, 71_179, 437, 6, 14_196)),
    "Harvard1": ((2004, 2009), (9_748, 631_286, 37_873, 168, 6, 7_316)),
    "Wisconsin87": ((2005, 2009), (17_667, 545_495, 67_836, 613, 5, 13_271)),
    "Rutgers89": ((2005, 2009), (20_021, 609_731, 79_819, 371, 5, 15_001)),
}
_JOINED_VIEWS = (RELEASED.name, PAPER.name, SOUND.name)
DATASETS = (
    _spec(
        "facebook",
        "Facebook, UIllinois20",
        read_illinois,
        _years(2004, 2009),
        (26_406, 1_058_962, 105_000, 501, 6, 19_804),
    ),
    *(
        _spec(
            f"facebook-{campus.lower()}",
            f"Facebook, {campus}",
            partial(read_campuses, campuses=(campus,)),
            _years(*years),
            size,
        )
        for campus, (years, size) in _STAND_INS.items()
    ),
    _spec(
        "fb100",
        "Facebook100, 100 campuses",
        partial(read_campuses, campuses=CAMPUSES, columns=JOINED_FEATURES, smallest=100_000),
        _years(2005, 2009, MISSING_YEAR),
        (1_120_280, 43_152_239, 2_900_000, 537, 6, 840_000),
        _JOINED_VIEWS,
    ),
    _spec(
        "fb100-part",
        "Facebook100, 15 campuses",
        partial(read_campuses, campuses=PART, columns=JOINED_FEATURES, smallest=10_000),
        _years(2005, 2009, MISSING_YEAR),
        (121_285, 4_542_469, 334_448, 504, 6, 90_978),
        _JOINED_VIEWS,
    ),
)
