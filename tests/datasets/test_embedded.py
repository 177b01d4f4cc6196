"""The embedded graphs: same bytes every time, the stated shape, and learnable by a GCN."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse
import torch
from torch.nn.functional import cross_entropy, dropout

from private_graphs.datasets import embedded
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.registry import build

NAMES = tuple(embedded.MODELS)
COMBINED_SHA256 = {
    "synthetic-planetoid": "eecb6ba9ba4abb5033c5a45668d8d394e2b5f5138e2dd90299caea52acfb03b6",
    "synthetic-npz": "f71f3c4cf321382e9de4cf8a20a53cb59a35b9327b51c9a02398cd6e7bd8445d",
}


@pytest.fixture(scope="module", params=NAMES)
def dataset(request, tmp_path_factory) -> GraphDataset:
    return build(request.param, tmp_path_factory.mktemp("raw"))


def combined(paths) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_the_raw_bytes_are_the_same_in_every_process_and_on_every_day(tmp_path, name):
    script = "import sys; from private_graphs.datasets import embedded as e; "
    script += "e.write_raw(*sys.argv[1:])"
    subprocess.run(
        [sys.executable, "-c", script, name, str(tmp_path / "other")],
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    started = time.perf_counter()
    here = embedded.write_raw(name, tmp_path / "here")
    assert time.perf_counter() - started < 2
    other = [tmp_path / "other" / path.relative_to(tmp_path / "here") for path in here]
    assert combined(here) == combined(other) == COMBINED_SHA256[name]


def test_another_seed_gives_another_graph():
    model = embedded.MODELS["synthetic-npz"]
    changed = embedded.CitationModel(**(vars(model) | {"seed": model.seed + 1}))
    assert embedded.npz_bytes(changed) != embedded.npz_bytes(model)


def test_unchanged_raw_files_are_not_rewritten_and_changed_ones_are(tmp_path):
    paths = embedded.write_raw("synthetic-planetoid", tmp_path)
    times = [path.stat().st_mtime_ns for path in paths]
    good = paths[0].read_bytes()
    paths[0].write_bytes(b"changed")
    again = embedded.write_raw("synthetic-planetoid", tmp_path)
    assert again == paths and paths[0].read_bytes() == good
    assert [path.stat().st_mtime_ns for path in paths[1:]] == times[1:]


def test_the_graph_has_the_stated_shape(dataset):
    statistics = dataset.statistics()
    assert statistics["synthetic"] is True and "ynthetic" in dataset.info.title
    assert dataset.n_nodes >= 2000 and dataset.n_features >= 1000 and dataset.n_classes == 7
    assert statistics["masks"]["validation"] == 500 and statistics["masks"]["test"] == 1000
    assert sum(statistics["masks"].values()) == dataset.n_nodes
    assert statistics["labelled"] == statistics["masks"]
    assert statistics["majority_share_on_test"] <= 0.35
    assert min(statistics["train_class_counts"].values()) >= 20
    degrees = np.bincount(dataset.edge_index.ravel(), minlength=dataset.n_nodes)
    assert 3 < degrees.mean() < 5
    assert degrees.max() > 8 * degrees.mean() and np.median(degrees) < degrees.mean()
    words = np.diff(dataset.features.indptr)
    assert 15 < words.mean() < 20
    assert dataset.info.loops_dropped > 0 and dataset.info.duplicates_dropped > 0
    assert all(source.url is None for source in dataset.info.sources)


def test_word_features_are_binary_in_one_graph_and_counts_in_the_other(dataset):
    values = np.unique(dataset.features.values)
    assert (
        values.tolist() == [1.0] if dataset.info.name == "synthetic-planetoid" else values.max() > 1
    )


def normalised_adjacency(dataset: GraphDataset) -> torch.Tensor:
    first, second = dataset.edge_index
    entries = (np.ones(2 * len(first)), (np.r_[first, second], np.r_[second, first]))
    shape = (dataset.n_nodes, dataset.n_nodes)
    matrix = scipy.sparse.csr_matrix(entries, shape=shape) + scipy.sparse.eye(dataset.n_nodes)
    scale = scipy.sparse.diags(1 / np.sqrt(matrix.sum(axis=1).A1))
    matrix = (scale @ matrix @ scale).tocoo()
    indices = torch.from_numpy(np.stack([matrix.row, matrix.col]).astype(np.int64))
    values = torch.from_numpy(matrix.data.astype(np.float32))
    return torch.sparse_coo_tensor(indices, values, shape).coalesce()


def gcn_test_accuracy(dataset: GraphDataset, weight_decay: float) -> float:
    """Train a plain two-layer GCN (hidden 32, Adam, lr .01, dropout .5, 200 epochs)."""
    adjacency = normalised_adjacency(dataset)
    smoothed = adjacency @ torch.from_numpy(dataset.features.to_scipy().toarray())
    labels, train = torch.from_numpy(dataset.labels), torch.from_numpy(dataset.train_mask)
    generator = torch.Generator().manual_seed(0)
    sizes = (dataset.n_features, 32, dataset.n_classes)
    weights = []
    for rows, columns in zip(sizes, sizes[1:], strict=False):
        weight = torch.empty(rows, columns)
        torch.nn.init.xavier_uniform_(weight, generator=generator)
        weights.append(weight.requires_grad_())
    optimizer = torch.optim.Adam(weights, lr=0.01, weight_decay=weight_decay)

    def logits(training: bool) -> torch.Tensor:
        hidden = torch.relu(smoothed @ weights[0])
        return adjacency @ (dropout(hidden, 0.5, training) @ weights[1])

    with torch.random.fork_rng():
        torch.manual_seed(0)
        for _ in range(200):
            optimizer.zero_grad()
            cross_entropy(logits(True)[train], labels[train]).backward()
            optimizer.step()
    test = torch.from_numpy(dataset.test_mask)
    with torch.no_grad():
        return float((logits(False).argmax(dim=1) == labels)[test].double().mean())


def test_a_plain_gcn_learns_the_graph_but_not_perfectly(dataset):
    assert 0.75 <= gcn_test_accuracy(dataset, 5e-4) <= 0.92


def test_the_documentation_states_every_parameter(root):
    text = (root / "docs" / "data.md").read_text(encoding="utf-8")
    first, second = (vars(embedded.MODELS[name]) for name in NAMES)
    for key in first:
        assert f"| `{key}` | {stated(first[key])} | {stated(second[key])} |" in text


def stated(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(str(part) for part in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
