"""WeNet's file as PyTorch Geometric writes it; hostile ones are refused."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from made_data import Call
from torch_geometric.data import Data

from private_graphs.core.errors import UserError
from private_graphs.datasets import sources
from private_graphs.datasets.npz import keyed_masks
from private_graphs.datasets.readers.wenet import read_wenet
from private_graphs.datasets.sources import supply

NODES = 40


def graph(**changes) -> Data:
    generator = torch.Generator().manual_seed(0)
    values = {
        "x": torch.randn((NODES, 3), generator=generator),
        "edge_index": torch.randint(0, NODES - 5, (2, 90), generator=generator),
        "y": torch.arange(NODES) % 4,
    } | changes
    return Data(**values)


def saved(folder: Path, data: Data | object) -> Path:
    path = folder / "data.pt"
    torch.save(data, path)
    return path


def test_the_graph_is_that_of_the_file(tmp_path):
    data = graph()
    found = read_wenet(saved(tmp_path, data))
    ends = data.edge_index.numpy()
    expected = {(min(a, b), max(a, b)) for a, b in ends.T.tolist() if a != b}
    nodes = sorted({end for pair in expected for end in pair})
    assert {tuple(nodes[end] for end in edge) for edge in found.edge_index.T} == expected
    assert np.array_equal(found.features, data.x.numpy()[nodes])
    assert found.labels.tolist() == [node % 4 for node in nodes] and found.n_classes == 4
    masks = (found.train_mask, found.validation_mask, found.test_mask)
    for mask, whole in zip(masks, keyed_masks(NODES, 4, 6).values(), strict=True):
        assert np.array_equal(mask, whole[nodes])


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.uint8])
def test_tensors_may_be_views_and_of_other_types(tmp_path, dtype):
    whole = torch.arange(3 * NODES).reshape(3, NODES).to(dtype)
    data = graph(x=whole.T, further=whole[1], name="text", count=7)
    found, plain = (read_wenet(saved(tmp_path, each)) for each in (data, graph(x=whole.T.float())))
    assert np.array_equal(found.features, plain.features)


def test_a_hostile_file_runs_nothing(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("still here")
    for data in (Call(os.remove, str(victim)), graph(n=Call(os.remove, str(victim)))):
        path = saved(tmp_path, data)
        with pytest.raises(UserError, match="data.pt: .* GLOBAL .*remove.* nothing of it was run"):
            read_wenet(path)
    assert victim.exists()


def rebuilt(path: Path, change) -> None:
    """Write the archive anew with members that ``change(name, content)`` returns."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            content = change(name, content)
            if content is not None:
                archive.writestr(name, content)


@pytest.mark.parametrize(
    "change",
    [
        lambda name, content: content[:-4] if name.endswith("data/0") else content,
        lambda name, content: None if name.endswith("data/1") else content,
        lambda name, content: content[:200] if name.endswith("data.pkl") else content,
        lambda name, content: pickle.dumps([1], 2) if name.endswith("data.pkl") else content,
        lambda name, content: None if name.endswith("data.pkl") else content,
        # a stride that leads out of the numbers
        lambda name, content: content.replace(b"K\x03K\x01\x86", b"K\x04K\x01\x86"),
    ],
)
def test_what_is_not_whole_is_named(tmp_path, change):
    path = saved(tmp_path, graph())
    rebuilt(path, change)
    with pytest.raises(UserError, match="cannot be read as a graph of PyTorch Geometric") as raised:
        read_wenet(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"x": torch.zeros(3, 3)}, r"x: found float32 of shape \(3, 3\), expected 40 rows"),
        ({"x": torch.full((NODES, 3), torch.nan)}, "x: .* expected 40 rows of finite numbers"),
        ({"edge_index": torch.full((2, 5), NODES)}, "edge_index: .* numbers below 40"),
        ({"edge_index": torch.zeros(2, 5)}, "edge_index: .* two rows of numbers below 40"),
        ({"edge_index": torch.zeros(2, 5, dtype=int)}, "no edge between"),
        ({"y": torch.full((NODES,), 4)}, "y: .* expected classes from 0 to 3"),
        ({"y": None}, r"found tensors \['edge_index', 'x'\]"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, changes, match):
    with pytest.raises(UserError, match=match):
        read_wenet(saved(tmp_path, graph(**changes)))


def test_it_comes_from_a_mirror_alone(tmp_path):
    with pytest.raises(UserError, match="wenet/data.pt  no public source is known"):
        supply(["wenet"], tmp_path / "raw")
    (tmp_path / "mirror" / "wenet").mkdir(parents=True)
    saved(tmp_path / "mirror" / "wenet", graph())
    for _ in range(2):  # the second time it is compared with its record
        supply(["wenet"], tmp_path / "raw", tmp_path / "mirror")
    record = sources.raw_records("wenet", tmp_path / "raw")[0]
    assert record.url is None and record.file == "wenet/data.pt"
