"""Facebook100 on a campus small enough to check by hand, and the class of nodes without a year."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from made_data import campus_bytes

from private_graphs.core.errors import UserError
from private_graphs.datasets.npz import keyed_masks
from private_graphs.datasets.readers.facebook100 import read_campuses
from private_graphs.datasets.registry import DATASETS, build
from private_graphs.datasets.views import PAPER, RELEASED, SOUND


def write(folder, name: str, years, pairs, dtype=np.uint16) -> None:
    """A campus of people with these years, all of status 1, and friendships."""
    info = np.zeros((len(years), 7), dtype)
    info[:, 0], info[:, 1], info[:, 5] = 1, np.arange(len(years)) % 3, years
    matrix = sp.lil_matrix((len(years), len(years)))
    for i, j in pairs:
        matrix[i, j] = matrix[j, i] = 1
    (folder / f"{name}.mat").write_bytes(campus_bytes(info, sp.csc_matrix(matrix)))


def read(folder, view=SOUND, *campuses, smallest: int = 2):
    return read_campuses(
        folder, view, campuses=campuses or ("A1",), columns=(0, 1), smallest=smallest
    )


RING = [(i, (i + 1) % 12) for i in range(12)]


def test_a_campus_by_hand(tmp_path):
    # node 0 has no year, node 1 the only one of 2003, node 11 no friend with a class
    years = [0, 2003, 2004, 2004, 2004, 2005, 2005, 2005, 2004, 2005, 2003 - 3, 2004]
    write(tmp_path, "A1", years, RING[:10] + [(3, 3), (2, 6)])
    graph = read(tmp_path)
    raw = [2, 3, 4, 5, 6, 7, 8, 9]
    assert graph.labels.tolist() == [int(years[node] == 2005) for node in raw]
    expected = {(2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 9), (2, 6)}
    assert {tuple(raw[end] for end in edge) for edge in graph.edge_index.T} == expected
    assert graph.loops == 1 and graph.one_way == graph.duplicates == 0
    # status is known of all: one column of integers; two values of gender, counted over all rows
    assert graph.features.to_scipy().toarray().tolist() == [
        [1, node % 3 == 1, node % 3 == 2] for node in raw
    ]
    masks = np.stack([*keyed_masks(12, 1, 1).values()])[:, raw]
    assert np.array_equal(
        masks, np.stack([graph.train_mask, graph.validation_mask, graph.test_mask])
    )


def test_one_negative_year_makes_a_class_of_those_without_a_year(tmp_path):
    years = [0] * 4 + [2004] * 4 + [2005] * 4
    write(tmp_path, "A1", years, RING)
    write(tmp_path, "B2", [-80085, *years[1:]], RING, np.int32)
    for view, classes in ((RELEASED, 3), (PAPER, 2), (SOUND, 2)):
        assert read(tmp_path, view).n_classes == 2
        both = read(tmp_path, view, "A1", "B2")
        assert both.n_classes == classes
        # the years keep their labels, "missing" is the last class; the one negative row is dropped
        assert np.bincount(both.labels).tolist() == [8, 8, 7][:classes]
    assert not ((both.edge_index < 8).any(axis=0) & (both.edge_index >= 8).any(axis=0)).any()


def test_what_is_not_a_campus_is_named(tmp_path):
    (tmp_path / "A1.mat").write_bytes(b"no campus")
    with pytest.raises(UserError, match=r"A1\.mat: cannot be read as a MATLAB 5 file"):
        read(tmp_path)
    write(tmp_path, "A1", [2004] * 12, RING)
    with pytest.raises(UserError, match="1 graduation years of 2 nodes or more"):
        read(tmp_path)
    write(tmp_path, "A1", [2004, 2005] * 6, RING)
    content = (tmp_path / "A1.mat").read_bytes()
    places = np.array([1, 11, 0, 2], np.int32).tobytes()  # rows of the first columns
    assert content.count(places) == 1
    wrong = np.array([2**30, 11, 0, 2], np.int32).tobytes()
    (tmp_path / "A1.mat").write_bytes(content.replace(places, wrong))
    with pytest.raises(UserError, match=r"A1\.mat: A: indices: found numbers 0\.\.1073741824"):
        read(tmp_path)


def test_any_campus_can_be_named_and_its_large_years_are_the_classes(tmp_path):
    (tmp_path / "facebook100").mkdir()
    name = "facebook-villanova62"
    assert name in DATASETS and name not in list(DATASETS) and "facebook-elsewhere1" not in DATASETS
    # a year has a twentieth of all students, or is no class
    years = [2004] * 9 + [2006] * 30 + [2003] + [2005]
    ring = [(i, (i + 1) % len(years)) for i in range(len(years))]
    write(tmp_path / "facebook100", "Villanova62", years, ring)
    graph = build(name, tmp_path)
    assert graph.info.classes == ["class of 2004", "class of 2006"]
    assert np.bincount(graph.labels).tolist() == [9, 30] and graph.info.name == name


def test_the_file_of_the_paper_is_told_by_its_git_blob(tmp_path):
    write(tmp_path, "UIllinois20", [2004] * 12, RING)
    with pytest.raises(UserError, match="git blob id"):
        DATASETS["facebook"].read(tmp_path)
