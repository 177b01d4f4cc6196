"""Graphs in shards: a release equals that of one machine, is drawn once, of whole sums alone."""

from __future__ import annotations

import json
import math
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from command_line import refused
from sharded_graphs import in_shards
from small_graphs import random_graph, with_parts

from private_graphs.core.errors import UserError
from private_graphs.core.files import sha256_of
from private_graphs.datasets.shards import GRAPH_FILE
from private_graphs.mechanisms.door import Door
from private_graphs.running.jobs import Job
from private_graphs.running.result import JobResult
from private_graphs.running.run import execute
from private_graphs.workflow.sharded import ShardedRun

CASES = [("text", "class_sums"), ("graph", "class_sums"), ("edges", "edge_votes")]
CUTS = {"one": [1.0], "even": [0.25, 0.5, 0.75, 1.0], "uneven": [0.02, 0.02, 0.9, 0.9, 1.0, 1.0]}
"""Where shards end; two equal cuts make an empty shard."""
DATA = random_graph(3, nodes=240, train=160, unlabelled=5)


def job_of(scenario: str, method: str, **changes) -> Job:
    fields = {
        "study": "command-line", "group": "train", "name": "n", "dataset": "small",
        "method": method, "scenario": scenario, "epsilons": (2.0,), "seeds": (4,),
        "max_edges": 900 if scenario == "edges" else None,
    }  # fmt: skip
    return Job(**fields | changes)


def finish(run: ShardedRun, order=None) -> JobResult:
    """Carry out all steps, shards in any order."""
    for turn in range(run.rounds):
        assert run.advance(turn) is None
        shards = range(len(run.graph.info.shards))
        for shard in shards if order is None else order(shards):
            run.sum_shard(turn, shard)
    return run.advance(run.rounds)


def sharded(tmp_path: Path, job: Job, cuts=CUTS["even"], seeded=True, **how) -> ShardedRun:
    in_shards(DATA, job, tmp_path / "graph", cuts, **how)
    return ShardedRun.of(tmp_path / "out", tmp_path / "graph", job, seeded)


def same(found: JobResult, expected: JobResult) -> None:
    assert found.statements == expected.statements
    np.testing.assert_array_equal(found.test_predictions, expected.test_predictions)
    np.testing.assert_array_equal(found.test_records, expected.test_records)
    rows, others = (each.rows.drop(columns="seconds") for each in (found, expected))
    pd.testing.assert_frame_equal(rows, others, check_exact=True)


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize(("scenario", "method"), CASES)
def test_the_release_is_that_of_one_machine(tmp_path, monkeypatch, scenario, method, cuts):
    noisy, drawn = Door.gaussian, []

    def watched(*each, **how):
        drawn.append(noisy(*each, **how))
        return drawn[-1]

    monkeypatch.setattr(Door, "gaussian", watched)
    job = job_of(scenario, method)
    expected, whole = execute(job, DATA, unlabelled=True), drawn[:]
    run = sharded(tmp_path, job, CUTS[cuts])
    same(finish(run), expected)
    assert expected.rows["epsilon_proved"].max() > 1.9
    assert whole
    for one, other in zip(whole, drawn[-len(whole) :], strict=True):
        np.testing.assert_array_equal(one, other)  # to the bit, before anything is computed of it


def at_the_release(tmp_path: Path, scenario="text", method="class_sums", seeded=True) -> ShardedRun:
    """A run of which all sums are there."""
    run = sharded(tmp_path, job_of(scenario, method), seeded=seeded)
    for turn in range(run.rounds):
        run.advance(turn)
        for shard in range(4):
            run.sum_shard(turn, shard)
    return run


def write_total(folder: Path, add: int, vouch: bool) -> None:
    with np.load(folder / "sum.npz") as stored:
        total, count = stored["total"], stored["count"]
    np.savez(folder / "sum.npz", total=total + add, count=count)
    if vouch:
        told = json.loads((folder / "manifest.json").read_text())
        told["sha256"]["sum.npz"] = sha256_of(folder / "sum.npz")
        (folder / "manifest.json").write_text(json.dumps(told))


@pytest.mark.parametrize("method", [CASES[0], CASES[-1]])
def test_a_sum_that_is_missing_altered_or_of_something_else_is_refused(tmp_path, method):
    run = at_the_release(tmp_path, *method)
    last, kept = run.rounds - 1, tmp_path / "kept"
    folder = run.sum_folder(last, 2)
    shutil.copytree(folder, kept)

    def refused(words: str) -> None:
        with pytest.raises(UserError, match=words):
            run.advance(run.rounds)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(kept, folder)

    shutil.rmtree(folder)
    refused("missing")
    (folder / "sum.npz").unlink()
    refused("is gone")
    write_total(folder, 1, vouch=False)
    refused("not the file that was written")
    shutil.rmtree(folder)
    shutil.copytree(run.sum_folder(last, 1), folder)
    refused("of another shard")
    told = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(told | {"query": "0" * 64}))
    refused("another query")
    assert not (run.out / "private" / f"spent-{last}").exists()
    assert run.advance(run.rounds) is not None


@pytest.mark.parametrize("seeded", [True, False])
@pytest.mark.parametrize("method", [CASES[0], CASES[-1]])
def test_noise_is_drawn_once(tmp_path, method, seeded):
    """A gather that was killed draws the same again, and never for other sums or another job."""
    run = at_the_release(tmp_path, *method, seeded=seeded)
    killed = run.advance(run.rounds)
    again = ShardedRun.of(run.out, run.graph.folder, run.job, seeded)
    same(again.advance(run.rounds), killed)
    other = ShardedRun.of(run.out, run.graph.folder, job_of(*method, seeds=(5,)), seeded)
    with pytest.raises(UserError, match="another"):
        other.advance(run.rounds)
    write_total(run.sum_folder(0, 0), 1, vouch=True)
    with pytest.raises(UserError, match="noise was drawn for other sums"):
        again.advance(run.rounds)
    if not seeded:
        (run.out / "private" / "secret").unlink()
        with pytest.raises(UserError, match="second release"):
            ShardedRun.of(run.out, run.graph.folder, run.job, False).advance(run.rounds)


@pytest.mark.parametrize("method", [CASES[0], CASES[-1]])
def test_only_the_owner_may_read_what_is_private(tmp_path, method):
    run = at_the_release(tmp_path, *method, seeded=False)
    run.advance(run.rounds)
    private = run.out / "private"
    files = [path for path in private.rglob("*") if path.is_file()]
    assert {"secret", "sum.npz", "manifest.json", "query-0.npz", "spent-0"} <= {
        path.name for path in files
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(private.stat().st_mode) == 0o700


def without_marks(value):
    """JSON without what may differ by noise alone: identifiers and keyed hashes."""
    return {key: part for key, part in value.items()
            if key != "statement_id" and "fingerprint" not in key}  # fmt: skip


def test_a_release_tells_nothing_of_private_data_but_its_predictions(tmp_path, run):
    """Other labels, texts and links of all private units at once, the same words about them."""
    order = np.arange(DATA.n_nodes)
    train = np.flatnonzero(DATA.train_mask)
    order[train] = np.random.default_rng(5).permutation(train)
    other = with_parts(DATA, edges=DATA.edge_index.T[:-200])
    other = with_parts(other, features=DATA.features.to_scipy()[order].toarray())
    other = replace(other, labels=np.where(DATA.train_mask, 0, DATA.labels))
    job, releases = job_of("text", "class_sums"), []
    for name, graph in (("a", DATA), ("b", other)):
        in_shards(graph, job, tmp_path / name / "graph", CUTS["even"])
        sums = ShardedRun.of(tmp_path / name, tmp_path / name / "graph", job, False)
        result = finish(sums)
        sums.save(result)
        assert {stat.S_IMODE(path.stat().st_mode) for path in (sums.out / "private").rglob("*")
                if path.is_file()} == {0o600}  # fmt: skip
        release = sums.out / "release"
        files = {path.name: path.read_text() for path in release.iterdir()}
        assert f"{result.rows['test_micro_f1'].iloc[0]:.3f}" not in "".join(files.values())
        (statement,) = json.loads(files["statement.json"]).values()
        nodes = [line.split(",")[0] for line in files["predictions.csv"].splitlines()]
        releases.append(({*files}, files["README.md"], without_marks(statement), nodes))
        assert run("explain", sums.out).code == 0
        (release / "predictions.csv").write_text("node,predicted\n")
        refused(run("explain", sums.out), 1, "predictions.csv", "is not the file")
    assert releases[0] == releases[1]
    assert releases[0][0] == {"predictions.csv", "statement.json", "README.md", "manifest.json"}


@pytest.mark.parametrize(("epsilon", "seeded"), [(2.0, True), (math.inf, False)])
def test_without_dp_or_with_a_kept_seed_nothing_is_released(tmp_path, epsilon, seeded):
    """Who has the seed takes the noise off, and the statement holds the plain hash of the data."""
    sums = sharded(tmp_path, job_of("text", "class_sums", epsilons=(epsilon,)), seeded=seeded)
    sums.save(finish(sums))
    assert not (sums.out / "release").exists()
    assert (sums.out / "private" / "runs.parquet").is_file()


def rewrite(run: ShardedRun, shard: int, change) -> None:
    """Change the table of a shard and what the graph says of its file."""
    path = run.graph.folder / run.graph.info.shards[shard].file
    pq.write_table(change(pq.read_table(path)), path)
    about = json.loads((run.graph.folder / GRAPH_FILE).read_text())
    about["shards"][shard]["sha256"] = sha256_of(path)
    (run.graph.folder / GRAPH_FILE).write_text(json.dumps(about))


def with_column(name: str, values):
    def change(table):
        return table.set_column(table.schema.get_field_index(name), name, [values(table[name])])

    return change


VOTES, SUMS = CASES[-1], CASES[0]
BROKEN = {
    "edge twice": (VOTES, lambda t: t.take([0, 0, *range(1, len(t))]), "increasing"),
    "edges out of order": (VOTES, lambda t: t.take([*range(len(t))][::-1]), "increasing"),
    "edge of another shard": (VOTES, with_column("source", lambda c: [0] * len(c)), "sources"),
    "loop": (VOTES, lambda t: with_column("target", lambda _: t["source"])(t), "source < target"),
    "no such node": (VOTES, with_column("target", lambda c: range(900, 900 + len(c))), "< 235"),
    "no such class": (SUMS, with_column("label", lambda c: [7] * len(c)), "-1..2"),
    "infinite": (
        SUMS,
        with_column("values", lambda c: [[float("inf")] * len(v) for v in c.to_pylist()]),
        "finite",
    ),
    "word twice": (
        SUMS,
        with_column("columns", lambda c: [[1] * len(v) for v in c.to_pylist()]),
        "distinct",
    ),
    "null": (SUMS, with_column("label", lambda c: [None] * len(c)), "null"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_no_price_covers_is_refused_in_a_shard(tmp_path, case):
    method, change, words = BROKEN[case]
    run = sharded(tmp_path, job_of(*method))
    run.advance(0)
    rewrite(run, 1, change)
    changed = ShardedRun.of(run.out, run.graph.folder, run.job, True)
    with pytest.raises(UserError, match=words):
        changed.sum_shard(0, 1)
    assert not run.sum_folder(0, 1).exists()


@pytest.mark.parametrize("method", [CASES[0], CASES[-1]])
def test_more_records_than_declared_are_refused(tmp_path, method):
    run = at_the_release(tmp_path, *method)
    for shard in range(4):
        folder = run.sum_folder(0, shard)
        with np.load(folder / "sum.npz") as stored:
            total = stored["total"]
        np.savez(folder / "sum.npz", total=total, count=500)
        write_total(folder, 0, vouch=True)
    with pytest.raises(UserError, match="more records"):
        run.advance(run.rounds)


@pytest.mark.parametrize("name", ["shards/0001.parquet", "./shards/0001.parquet"])
def test_a_shard_that_is_given_twice_is_refused(tmp_path, name):
    """Whoever is in it would move the sum by twice what is priced."""
    run = sharded(tmp_path, job_of(*SUMS))
    about = json.loads((run.graph.folder / GRAPH_FILE).read_text())
    about["shards"][2] = about["shards"][1] | {"file": name}
    (run.graph.folder / GRAPH_FILE).write_text(json.dumps(about))
    with pytest.raises(UserError, match="distinct files|has what another shard has"):
        finish(ShardedRun.of(run.out, run.graph.folder, run.job, True))


def test_a_file_that_changed_after_the_graph_was_written_is_refused(tmp_path):
    run = sharded(tmp_path, job_of("text", "class_sums"))
    run.advance(0)
    path = run.graph.folder / run.graph.info.shards[0].file
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(UserError, match="not the file"):
        run.sum_shard(0, 0)
    public = run.graph.folder / "public" / "test_labels.npy"
    public.write_bytes(public.read_bytes() + b" ")
    with pytest.raises(UserError, match="not the file"):
        run.advance(0)


def test_shards_that_share_edges_are_no_graph(tmp_path):
    run = sharded(tmp_path, job_of("edges", "edge_votes"))
    about = json.loads((run.graph.folder / GRAPH_FILE).read_text())
    about["shards"][1]["first"] -= 1
    (run.graph.folder / GRAPH_FILE).write_text(json.dumps(about))
    with pytest.raises(UserError, match="overlap"):
        ShardedRun.of(run.out, run.graph.folder, run.job, True)


@pytest.mark.parametrize("job", [
    job_of("text", "dp_linear"), job_of("text", "class_sums", seeds=(1, 2)),
    job_of("text", "class_sums", epsilons=(1.0, 2.0)),
])  # fmt: skip
def test_a_graph_in_shards_is_released_once_by_a_sum(tmp_path, job):
    in_shards(DATA, job, tmp_path / "graph", [1.0])
    with pytest.raises(UserError, match="expected"):
        ShardedRun.of(tmp_path / "out", tmp_path / "graph", job, True)
