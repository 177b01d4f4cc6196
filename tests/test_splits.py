"""Parts of the training graph: drawn before training into a file, or given by the user."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from small_graphs import random_graph
from small_jobs import job_of

from private_graphs.core.errors import UserError
from private_graphs.graphs.partition import read_partition
from private_graphs.running.run import execute
from private_graphs.running.splits import part_sizes, read_parts, splits_of
from private_graphs.running.study import Run, group_jobs, load_study


@pytest.fixture(scope="module")
def graph():
    return random_graph(3, nodes=90, features=30, classes=3, unlabelled=3)


def job(**settings):
    given = {"splits": 3, "epochs": 2} | settings
    return job_of(settings=given, epsilons=(2.0, math.inf), seeds=(0, 1), validation_labels=())


def given(graph, path, count=3):
    """A file that puts the training nodes into parts by their number."""
    nodes = np.flatnonzero(graph.train_mask)
    pd.DataFrame({"node": nodes, "part": nodes % count}).iloc[::-1].to_csv(path, index=False)
    return read_partition(str(path))


@pytest.mark.parametrize("protocol", ["released", "paper", "sound"])
@pytest.mark.parametrize("settings", [{}, {"train_fraction": 0.6}, {"engine": "reference"}])
def test_a_job_that_reads_its_parts_is_equal_to_the_bit(graph, tmp_path, protocol, settings):
    """Drawn by another process or in training: the draws are the same."""
    if settings.get("engine"):
        pytest.importorskip("torch_geometric")
    planned = job(**settings).model_copy(update={"protocol": protocol})
    alone = execute(planned, graph)
    splits_of(planned, graph).save(tmp_path)
    parts = read_parts(tmp_path)
    read = execute(planned, graph, parts=parts)
    assert alone.rows.drop(columns="seconds").equals(read.rows.drop(columns="seconds"))
    assert alone.statements == read.statements
    assert np.array_equal(alone.test_predictions, read.test_predictions)
    assert alone.artifacts.keys() == read.artifacts.keys()
    for name, array in alone.artifacts.items():
        assert np.array_equal(array, read.artifacts[name]), name
    other = execute(planned, graph, parts=(parts + 1) % 3)
    names = [name for name in other.artifacts if name.endswith("partition")]
    assert len(names) == 4
    assert all((other.artifacts[name] != alone.artifacts[name]).any() for name in names)


def test_the_file_tells_sizes_and_edges_kept_and_cut(graph, tmp_path):
    splits_of(job(), graph).save(tmp_path)
    sizes = pd.read_csv(tmp_path / "sizes.csv")
    assert len(sizes) == 4 * 3 and sizes["replica_id"].nunique() == 4
    train = graph.train_mask[graph.edge_index].all(axis=0).sum()
    for name, part in sizes.groupby("replica_id"):
        assert part["nodes"].sum() == graph.train_mask.sum(), name
        assert part["edges"].sum() + part["edges_cut"].iloc[0] == train
        assert part["nodes"].max() - part["nodes"].min() <= 1
    whole = part_sizes(graph, np.zeros(graph.train_mask.sum(), int))
    assert whole.to_dict("records") == [
        {"part": 0, "nodes": graph.train_mask.sum(), "edges": train, "edges_cut": 0}
    ]


def test_with_fresh_noise_parts_depend_on_no_data_and_tell_no_edge(graph):
    planned = job().model_copy(update={"protocol": "sound"})
    first, second = (
        splits_of(planned, each, noise_source="os_entropy")
        for each in (graph, random_graph(4, nodes=90, features=30, classes=3, unlabelled=3))
    )
    assert np.array_equal(first.parts, second.parts), "the parts of a neighbour"
    assert len(np.unique(first.parts, axis=0)) == 4
    assert {*first.sizes} == {"replica_id", "epsilon", "seed", "part", "nodes"}
    result = execute(planned, graph, parts=first.parts, noise_source="os_entropy")
    assert len(result.rows) == 4


def test_a_given_partition_is_another_job_with_other_draws(graph, tmp_path):
    partition = given(graph, tmp_path / "parts.csv")
    planned = job(partition=partition.name)
    splits = splits_of(planned, graph, given=partition)
    nodes = np.flatnonzero(graph.train_mask)
    assert (splits.parts == nodes % 3).all()
    result, drawn = execute(planned, graph, parts=splits.parts), execute(job(), graph)
    assert not {*result.rows["replica_id"]} & {*drawn.rows["replica_id"]}
    [statement] = (each for each in result.statements.values() if each["epsilon_target"])
    assert any("whoever gave the partition" in text for text in statement["assumptions"])
    assert not any("whoever gave" in text for one in drawn.statements.values()
                   for text in one["assumptions"])  # fmt: skip
    with pytest.raises(UserError, match="none came"):
        execute(planned, graph)
    with pytest.raises(UserError, match="expected its 45 training nodes|expected its"):
        splits_of(planned, replace(graph, train_mask=graph.validation_mask,
                                   validation_mask=graph.train_mask), given=partition)  # fmt: skip


def test_splits_in_a_configuration_may_name_a_file(graph, tmp_path):
    path = tmp_path / "parts.csv"
    partition = given(graph, path, 10)
    study = load_study("lrec2022")
    named = {"scale": "full", "datasets": "cora", "protocols": "sound"}
    drawn = group_jobs(study, "table1", Run.parse(named | {"splits": "10"}))
    own = group_jobs(study, "table1", Run.parse(named | {"splits": str(path)}))
    assert len(own) == len(drawn) > 0
    for one, other in zip(own, drawn, strict=True):
        assert one.settings == other.settings | {"partition": partition.name}
        assert f"partition={partition.name}" in one.name and "partition" not in other.name
        if one.chosen:
            assert one.chosen.job.id != other.chosen.job.id
            assert one.chosen.job.settings["partition"] == partition.name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("node,part\n0,0\n0,1\n", "named twice"),
        ("node,part\n0,0\n1,2\n", "without a gap"),
        ("node,part\n0,0\n1,0\n", "two at least"),
        ("node,piece\n0,0\n", "columns node"),
        ("node,part\n0,x\n", "not readable"),
        ("node,part\n0,0.6\n1,1.2\n", "not readable"),
        ("node,part\n1.7,0\n1,1\n", "not readable"),
        ("node,part\n,0\n1,1\n", "not readable"),
        ("node,part\n99999999999999999999,0\n1,1\n", "not readable"),
    ],
)
def test_a_file_that_is_no_partition_is_refused(tmp_path, text, words):
    path = tmp_path / "parts.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=words):
        read_partition(str(path))
    with pytest.raises(UserError, match="not readable"):
        read_partition(str(tmp_path / "nowhere.csv"))
