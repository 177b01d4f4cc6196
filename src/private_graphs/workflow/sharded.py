"""One release of a graph in shards, as steps that run apart: ask, sum every shard, release.

The method reads its private part only through exact sums (``Method.query``) and runs from the start
in every step, with the sums of earlier rounds. When it asks for a missing sum, the step ends with
that query, which every shard answers by itself; the last step ends with the result. So the noise is
drawn by the method in one way only, and a run in steps has the same random streams as a run in one
step. Everything below ``private`` stays with the owner of the data, who alone can read it.

Noise is drawn for one set of sums only: a step records the sums before it draws, and refuses others
afterwards. Without a kept seed, the secret of the run is kept as well, so that a killed step draws
the same noise again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast, get_type_hints

import numpy as np
import scipy.sparse

from private_graphs.core.bounded_files import parsed_json
from private_graphs.core.entropy import fresh_bytes
from private_graphs.core.errors import UserError
from private_graphs.core.files import sha256_of, write_json, write_text
from private_graphs.core.imports import code_fingerprint
from private_graphs.core.manifest import MANIFEST, check_manifest, write_manifest
from private_graphs.core.markup import markdown_text
from private_graphs.core.private_files import private_folder, private_path
from private_graphs.core.spreadsheets import table_text
from private_graphs.datasets.shards import ShardedGraph
from private_graphs.methods import method_named
from private_graphs.privacy.assumptions import NoiseSource
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.report.statement import paragraphs
from private_graphs.running.jobs import Job
from private_graphs.running.result import JobResult
from private_graphs.running.run import execute
from private_graphs.tasks.graph_task import Records, unit_rows
from private_graphs.tasks.method import Method
from private_graphs.workflow.replays import missing_replay
from private_graphs.workflow.verify import finish

_SUM, _SECRET = "sum.npz", "secret"
_CSR = ("data", "indices", "indptr", "shape")
_RELEASED = ("predictions.csv", "statement.json", "README.md")
_SHARED = """# Predictions of {method} on {dataset}

`predictions.csv` has the predicted class of every test node (`node`: row of the data, from 0).
`statement.json` says what is guaranteed, number by number. `manifest.json` has the sha256 of the
files: it finds mistakes, not forgers. `private-graphs explain FOLDER` checks the files of this
folder and says in words what follows.
"""


class _Asked(Exception):
    """The method asks for a missing sum."""

    def __init__(self, query: Any) -> None:
        super().__init__("a sum over shards is not there yet")
        self.query = query


@dataclass(frozen=True)
class ShardedRun:
    """Files and steps of one release."""

    out: Path
    graph: ShardedGraph
    job: Job
    """Job with one ε and one seed."""
    noise_source: NoiseSource

    @classmethod
    def of(cls, out: str | Path, folder: str | Path, job: Job, seeded: bool) -> ShardedRun:
        """Return the run, after a check that ``job`` can run on the graph in ``folder``."""
        graph, method = ShardedGraph.load(folder), method_named(job.method)
        kind = "edges" if job.scenario == "edges" else "documents"
        if method.query is None or method.query.READS != kind:
            raise UserError(
                f"{job.method}: no method of scenario {job.scenario} that sums over records once; "
                "expected class_sums, or edge_votes for edges"
            )
        if job.n_replicas != 1 or job.chosen or job.needs or job.test_share or job.attack:
            raise UserError(f"{job.id}: a graph in shards is released once; expected one run")
        return cls(Path(out), graph, job, "seeded" if seeded else "os_entropy")

    @property
    def method(self) -> Method:
        """Method of the job."""
        return method_named(self.job.method)

    @property
    def rounds(self) -> int:
        """Number of rounds, in each of which the shards are summed."""
        assert self.method.query is not None  # of has checked it
        return self.method.query.ROUNDS

    def query_file(self, turn: int) -> Path:
        """Return the path of the query of a round, counted from 0."""
        return self.out / "private" / f"query-{turn}.npz"

    def sum_folder(self, turn: int, shard: int) -> Path:
        """Return the folder of a shard's exact sum."""
        return self.out / "private" / "sums" / str(turn) / str(shard)

    # --- scatter ---

    def sum_shard(self, turn: int, shard: int) -> None:
        """Write the exact sum of one shard, a private file that its owner alone can read."""
        with np.load(self.query_file(turn)) as stored:
            arrays = dict(stored)
        query = _unpacked(self.method.query, arrays)
        total, count, info = query.zeros(), 0, self.graph.info
        if query.READS == "edges":
            for pairs in self.graph.edges(shard, len(query.place)):
                query.add(total, pairs)
                count += len(pairs[0])
        else:
            n_public = sum(
                len(self.graph.public(f"{name}_labels")) for name in ("validation", "test")
            )
            for features, labels, edges in self.graph.documents(shard, n_public):
                known = labels >= 0
                rows = unit_rows(features)[known]
                query.add(
                    total, Records(rows, labels[known], None if edges is None else edges[known])
                )
                count += len(labels)
        folder = self.sum_folder(turn, shard)
        with private_path(folder / _SUM) as temporary:
            with temporary.open("wb") as stream:
                np.savez(stream, total=total, count=count)
        manifest = {
            "sha256": {_SUM: sha256_of(folder / _SUM)},
            "query": _digest(arrays),
            "shard": info.shards[shard].sha256,
        }
        _write(folder / MANIFEST, json.dumps(manifest))

    # --- gather ---

    def advance(self, turn: int) -> JobResult | None:
        """Run the method with the sums of rounds before ``turn``; write the query of that round.

        Returns the result after the last one. Raises UserError for a sum that is missing, was
        altered or answers another query, and for sums other than those for which noise was drawn.
        """
        self.graph.check_public()
        private = self.out / "private"
        private.mkdir(parents=True, exist_ok=True)
        private.chmod(0o700)
        graph: Any = replace(self.graph, total=_Totals(self, turn))
        try:
            return execute(
                self.job,
                graph,
                noise_source=self.noise_source,
                unlabelled=True,
                secret=self._secret,
                missing_replay=missing_replay(),
            )
        except _Asked as asked:
            with private_path(self.query_file(turn)) as temporary:
                with temporary.open("wb") as stream:
                    np.savez(stream, **cast("Any", _packed(asked.query)))
            return None

    def save(self, result: JobResult) -> None:
        """Write ``release``, which may be shared, and ``private`` (docs/privacy.md §5).

        Who has a kept seed takes the noise off, so that such a run releases nothing.
        """
        (statement,) = map(PrivacyStatement.model_validate, result.statements.values())
        if self.noise_source != "seeded" and statement.status != "not_private":
            folder, classes = self.out / "release", self.graph.info.classes
            predicted = zip(result.test_records, result.test_predictions[0], strict=True)
            rows = ((int(node), classes[label]) for node, label in predicted)
            about = _SHARED.format(method=self.job.method, dataset=markdown_text(self.job.dataset))
            promised = [f"## {heading}\n\n{markdown_text(' '.join(map(str, sentences)))}\n"
                        for heading, sentences in paragraphs(statement)]  # fmt: skip
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / _RELEASED[0], table_text(["node", "predicted"], rows))
            write_json(folder / _RELEASED[1], result.statements)
            write_text(folder / _RELEASED[2], "\n".join([about, *promised]))
            write_manifest(folder, _RELEASED, result.statements, code_fingerprint(__name__))
        with private_folder(self.out / "private"):
            result.save(self.out / "private")
            finish(self.out / "private", self.job, [])

    @cached_property
    def _secret(self) -> bytes | None:
        """Secret bytes of the run, drawn once; None for a seeded run."""
        if self.noise_source == "seeded":
            return None
        path = self.out / "private" / _SECRET
        if not path.is_file():
            if self._spent(0).is_file():
                raise UserError(f"{path}: is gone, and noise was drawn with it: {_ONCE}")
            with private_path(path) as temporary:
                temporary.write_bytes(fresh_bytes())
        return path.read_bytes()

    def _spent(self, turn: int) -> Path:
        return self.out / "private" / f"spent-{turn}"

    def total(self, turn: int, query: Any) -> np.ndarray:
        """Return the checked sum of all shards, after recording that noise is drawn for it."""
        digest, total, count = _digest(_packed(query)), query.zeros(), 0
        summed: set[str] = set()
        for shard, about in enumerate(self.graph.info.shards):
            folder = self.sum_folder(turn, shard)
            if not (folder / MANIFEST).is_file():
                raise UserError(f"{folder}: the sum of this shard is missing")
            check_manifest(folder, [_SUM])
            manifest = parsed_json((folder / MANIFEST).read_text(encoding="utf-8"))
            if (manifest["query"], manifest["shard"]) != (digest, about.sha256):
                raise UserError(
                    f"{folder}: the sum is of another shard, or answers another query than the "
                    "method asks now (another version, or another processor): delete the sums and "
                    "ask again"
                )
            with np.load(folder / _SUM) as stored:
                total += stored["total"]
                records = int(stored["count"])
            if records and about.sha256 in summed:  # whoever is in it would be counted twice
                raise UserError(
                    f"{self.graph.file(shard)}: has what another shard has; expected "
                    "every record in one shard"
                )
            summed.add(about.sha256)
            count += records
        bound = self.job.max_edges or self.graph.info.n_train
        if count > bound:
            raise UserError(
                f"{self.graph.folder}: more records in shards than the {bound:,} declared"
            )
        whole = hashlib.sha256(f"{digest} {self.job.model_dump_json()}".encode() + total.tobytes())
        spent = self._spent(turn)
        with suppress(FileNotFoundError):
            if spent.read_text() != whole.hexdigest():
                raise UserError(f"{spent}: noise was drawn for other sums or another job: {_ONCE}")
        _write(spent, whole.hexdigest())
        return total


_ONCE = "a second release costs its own epsilon; choose another folder for it"


@dataclass
class _Totals:
    """Callback that answers the queries of one run of the method, round by round."""

    run: ShardedRun
    until: int
    done: int = 0

    def __call__(self, query: Any) -> np.ndarray:
        turn, self.done = self.done, self.done + 1
        if turn == self.until:
            raise _Asked(query)
        return self.run.total(turn, query)


# --- queries as arrays ---


def _packed(value: Any, name: str = "") -> dict[str, np.ndarray]:
    """Flatten a dataclass to arrays and numbers by their path."""
    if value is None:
        return {}
    if is_dataclass(value):
        parts = [(field.name, getattr(value, field.name)) for field in fields(value)]
    elif scipy.sparse.issparse(value):
        parts = [(part, getattr(value, part)) for part in _CSR]
    else:
        return {name: np.asarray(value)}
    arrays = (_packed(part, f"{name}/{key}") for key, part in parts)
    return {key: array for part in arrays for key, array in part.items()}


def _unpacked(kind: Any, arrays: Mapping[str, np.ndarray], name: str = "") -> Any:
    """Invert ``_packed`` for a field of type ``kind``."""
    if name in arrays:
        array = arrays[name]
        return array if array.ndim else array.item()
    if not any(key.startswith(f"{name}/") for key in arrays):
        return None
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{f.name: _unpacked(hints[f.name], arrays, f"{name}/{f.name}")
                       for f in fields(kind)})  # fmt: skip
    *parts, shape = (arrays[f"{name}/{part}"] for part in _CSR)
    return scipy.sparse.csr_matrix(tuple(parts), shape)


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    """Return a hash of names, types, shapes and contents."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _write(path: Path, text: str) -> None:
    with private_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
