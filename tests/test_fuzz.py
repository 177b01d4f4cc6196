"""Damaged and hostile inputs are read, or refused in one sentence that quotes no private text.

A few examples of each kind run here; ``pytest tests/test_fuzz.py --hypothesis-profile=long`` runs
ten thousand.
"""

from __future__ import annotations

import copy
import io
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from made_data import campus_bytes
from small_graphs import random_graph
from torch_geometric.data import Data

import private_graphs
from private_graphs.attacks.scores import bound_of
from private_graphs.core.errors import UserError
from private_graphs.datasets import npz, planetoid
from private_graphs.datasets.declared import declare_graphs
from private_graphs.datasets.graph_dataset import GraphDataset
from private_graphs.datasets.own import OwnGraph, read_own
from private_graphs.datasets.pokec import read_pokec
from private_graphs.datasets.readers.facebook100 import read_campuses
from private_graphs.datasets.readers.wenet import read_wenet
from private_graphs.datasets.registry import DECLARED
from private_graphs.datasets.views import SOUND
from private_graphs.datasets.votes import read_votes
from private_graphs.documents.ledger import BudgetLedger
from private_graphs.privacy.composition import of_file
from private_graphs.report.explained import explain
from private_graphs.running.jobs import Job
from private_graphs.running.run import execute
from private_graphs.running.store import read_store
from private_graphs.running.study import Run, read_study
from private_graphs.workflow.verify import finish

SECRET = "the name of a patient"
"""In private texts, which are longer than the names of columns that messages quote."""
TEXT = f"{SECRET} {'wheel chain rose soil dial tube ' * 3}"
SECONDS = 5
NESTED = b"[" * 1500
fuzzed = settings(
    max_examples=max(12, settings.default.max_examples // 8),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
pieces = st.one_of(
    st.binary(max_size=9),
    st.sampled_from(
        [b"", b"\0" * 8, b"\xff" * 8, b'"', b"\n", b",", b"nan", b"1e999", b"-1", b"9" * 400,
         b"<script>", NESTED, b"../../etc", b"\x80\x04c", b"\xef\xbb\xbf"]
    ),
)  # fmt: skip
values = st.one_of(
    st.sampled_from(
        [None, True, "", "x", "../x", "<script>", -1, 0, 1, 2**63, 10**30, 1e308, 1e-320, math.nan,
         math.inf, -math.inf, [], {}, [[]], [1, "a"], {"a": 1}, "9" * 400]
    ),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
)  # fmt: skip


@st.composite
def damaged(draw, data: bytes) -> bytes:
    """Bytes with pieces replaced, and perhaps the end cut off."""
    made = bytearray(data)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(made)))
        made[start : start + draw(st.sampled_from([0, 1, 2, 8, 200]))] = draw(pieces)
    if draw(st.integers(0, 4)) == 0:
        del made[draw(st.integers(0, len(made))) :]
    return bytes(made)


def _places(value) -> Iterator[tuple]:
    """Every (container, key) in nested lists and mappings."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys if isinstance(value, dict | list) else ():
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


@st.composite
def altered(draw, value):
    """A document with values replaced, removed or added."""
    made = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(made))
        if not places:
            break
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        action = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
        if action == "remove":
            del holder[key]
        elif action == "replace" or isinstance(holder, list):
            holder[key] = copy.deepcopy(draw(values))
        else:
            holder[draw(st.text(max_size=5))] = copy.deepcopy(draw(values))
    return made


def as_json(value) -> bytes:
    return json.dumps(value).encode()


WRITES = ("open", "os.mkdir", "os.rename", "os.remove", "os.symlink")
watched: list[Path] = []
"""The folder in which the code under test may write, while it runs."""
outside: list[str] = []


def _watch(event: str, arguments: tuple) -> None:
    if (
        not watched
        or event not in WRITES
        or not isinstance(arguments[0], str | bytes | os.PathLike)
    ):
        return
    if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        return
    path = os.path.abspath(os.fsdecode(arguments[0]))
    allowed = (str(watched[0]), "/dev/null", "/proc/self")
    if not path.startswith(allowed) and "__pycache__" not in path:
        outside.append(f"{event} {path}")


sys.addaudithook(_watch)  # a hook stays: it looks only while something is watched


@contextmanager
def survived(folder: Path) -> Iterator[None]:
    """A read that ends well or with a sentence, soon, and writes nowhere else."""
    started = time.process_time()
    watched.append(folder)
    outside.clear()
    try:
        yield
    except UserError as error:
        assert str(error).strip() and SECRET not in str(error)
    finally:
        watched.clear()
    assert not outside
    assert time.process_time() - started < SECONDS


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Iterator[Path]:
    """The working folder of all examples."""
    folder, before = tmp_path_factory.mktemp("fuzz"), Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


# --- what people write ---------------------------------------------------------------------------

OWN = {"name": "mine", "nodes": "n.csv", "edges": "e.csv", "text": "body", "label": "topic"}
CONFIGURATION = {
    "scale": "demo", "studies": "lrec2022", "datasets": ["synthetic-npz", OWN],
    "exhibits": "table1", "protocols": ["sound"], "features": "bow", "splits": [1], "seeds": "2",
    "mirror": None, "device": "cpu", "batch_minutes": 10,
}  # fmt: skip


@fuzzed
@example({"datasets": {"a": 1}})
@given(altered(CONFIGURATION))
def test_configurations(place, raw):
    with survived(place), mock.patch.dict(DECLARED):
        Run.parse(declare_graphs(raw))


STUDY = {
    "id": "small", "title": "t", "citation": "c", "url": "u", "datasets": ["synthetic-npz"],
    "seeds": 2, "delta": 1e-5, "exhibits": ["table1"], "says": {"findings": {"table1": "x"}},
    "configurations": {"sgd": {"method": "gcn", "settings": {"epochs": 3, "hidden": 4},
                               "choose": {"learning_rate": [0.1, 1]}, "settings_of": {}}},
    "groups": {"table1": {"jobs": [{"use": ["sgd"], "epsilons": [1, math.inf], "seeds": 2,
                                    "vary": {"splits": [1, 2]}, "needs": {}}], "deltas": {}}},
    "published": {}, "scales": {"demo": {"seeds": 1}},
}  # fmt: skip


@fuzzed
@given(st.one_of(altered(STUDY).map(lambda value: yaml.safe_dump(value).encode()),
                 damaged(yaml.safe_dump(STUDY).encode())))  # fmt: skip
def test_study_files(place, content):
    path = place / "small" / "study.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with survived(place):
        read_study.__wrapped__(path, "demo")


NODES = "id,body,topic,who\n" + "".join(
    f'd{n},"{TEXT} {n}",{("a", "b", "")[n % 3]},p{n // 2}\n' for n in range(40)
)
EDGES = "source,target\n" + "".join(f"d{n},d{n + 1}\n" for n in range(39))


@fuzzed
@example(b"", b"")
@example(NODES.partition("\n")[2].encode(), EDGES.encode())  # without a header
@given(damaged(NODES.encode()), damaged(EDGES.encode()))
def test_tables(place, nodes, edges):
    (place / "n.csv").write_bytes(nodes)
    (place / "e.csv").write_bytes(edges)
    shutil.rmtree(place / "data", ignore_errors=True)
    with survived(place):
        private_graphs.declare(
            "mine", nodes="n.csv", edges="e.csv", text="body", label="topic", unit="who",
            classes=("a", "b"), budget=2,
        )  # fmt: skip
    with survived(place):
        read_own(OwnGraph.model_validate(OWN), SOUND)


@fuzzed
@given(damaged("".join(f"{n / 7}\n" for n in range(60)).encode()))
def test_scores(place, content):
    (place / "with.csv").write_bytes(content)
    (place / "without.csv").write_text("".join(f"{n / 9}\n" for n in range(60)))
    with survived(place):
        bound_of(place / "with.csv", place / "without.csv", 1e-5, 1.0)


numbers = st.one_of(values.map(str), st.floats(0, 1e3).map(str), st.integers(1, 10**6).map(str))


@fuzzed
@given(
    st.sampled_from(["epsilon", "noise"]), numbers, numbers, numbers, numbers,
    st.sampled_from(["pld", "gdp", "moments", "x"]),
)  # fmt: skip
def test_numbers_of_the_command_line(place, run, command, size, steps, rate, delta, accountant):
    flag = "--noise-multiplier" if command == "epsilon" else "--epsilon"
    with survived(place):
        answer = run(
            command, f"{flag}={size}", f"--steps={steps}", f"--sampling-rate={rate}",
            f"--delta={delta}", f"--accountant={accountant}",
        )  # fmt: skip
    assert answer.code in (0, 1, 2) and "a defect of" not in answer.err


# --- raw files -----------------------------------------------------------------------------------


def _archive() -> bytes:
    matrix = sp.random(30, 30, 0.2, "csr", np.float32, random_state=0)
    words = sp.random(30, 8, 0.5, "csr", np.float32, random_state=1)
    arrays = {"labels": np.arange(30) % 3}
    for name, each in (("adj", matrix), ("attr", words)):
        parts = {"data": each.data, "indices": each.indices, "indptr": each.indptr,
                 "shape": np.array(each.shape)}  # fmt: skip
        arrays |= {f"{name}_{key}": part for key, part in parts.items()}
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def _campus() -> bytes:
    info = np.ones((12, 7), np.uint16)
    info[:, 5] = 2004 + np.arange(12) % 2
    ring = sp.coo_matrix((np.ones(12), (np.arange(12), (np.arange(12) + 1) % 12)), shape=(12, 12))
    return campus_bytes(info, sp.csc_matrix(ring + ring.T))


def _tensors() -> bytes:
    stream = io.BytesIO()
    ends = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    torch.save(Data(torch.zeros(6, 2), ends, y=torch.arange(6) % 4), stream)
    return stream.getvalue()


def _votes() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.full((20, 3), 5))
    return stream.getvalue()


def _dump(users: int = 12) -> bytes:
    rows = []
    for user in range(users):
        fields = ["null"] * 59
        fields[0], fields[1], fields[2], fields[13] = (
            str(user),
            "1",
            "50",
            ("pes", "macka")[user % 2],
        )
        fields[20] = TEXT
        rows.append("\t".join([*fields, ""]))
    return ("\n".join(rows) + "\n").encode()


def _read_dump(path: Path) -> None:
    edges = path.with_name("edges.txt")
    edges.write_text("".join(f"{n}\t{n + 1}\n" for n in range(11)))
    read_pokec(
        path, edges, SOUND, name="tiny", title="Tiny", synthetic=True, sources=[], licence="none",
        citation="none", public_facts=["the masks"], per_class=1, max_malformed=1.0,
        progress=lambda *_: None,
    )  # fmt: skip


RAW: dict[str, tuple[bytes, Callable[[Path], object]]] = {
    "graph.npz": (_archive(), lambda path: npz.read_npz(path, 5, 5)),
    "A1.mat": (
        _campus(),
        lambda path: read_campuses(
            path.parent, SOUND, campuses=("A1",), columns=(0, 1), smallest=2
        ),
    ),
    "data.pt": (_tensors(), read_wenet),
    "votes.npy": (_votes(), lambda path: read_votes(path, 20, 3)),
    "profiles.txt": (_dump(), _read_dump),
}


@pytest.mark.parametrize("name", RAW)
def test_raw_files(place, name):
    content, read = RAW[name]

    @fuzzed
    @given(damaged(content))
    def check(data):
        (place / name).write_bytes(data)
        with survived(place):
            read(place / name)

    check()


PROGRAM = b"\x80\x02cos\nsystem\n(S'touch pwned'\ntR."


@fuzzed
@example(PROGRAM)
@given(damaged(PROGRAM))
def test_no_pickle_is_run_unless_it_is_listed(place, content):
    (place / "ind.x").write_bytes(content)
    with survived(place), pytest.raises(UserError):
        planetoid.unpickled(place / "ind.x")
    assert not (place / "pwned").exists()


# --- what the project wrote ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(place) -> Path:
    """A dataset, a job, and a release with its ledger and model."""
    graph = random_graph(nodes=60, features=20, classes=2)
    graph.save(place / "graph")
    job = Job(
        study="lrec2022", group="frontier", dataset="small", method="class_sums", scenario="text",
        name="small/raw/class_sums/text/sound", epsilons=(2.0,),
    )  # fmt: skip
    execute(job, graph).save(place / "job")
    finish(place / "job", job, ())
    (place / "n.csv").write_text(NODES)
    private_graphs.declare(
        "letters", nodes="n.csv", text="body", label="topic", classes=("a", "b"), budget=9
    )
    private_graphs.classify("letters", epsilon=1, out="out")
    shutil.copytree(place / "data", place / "kept")
    (place / "events").mkdir()
    (place / "events" / "events.json").write_bytes(as_json(EVENTS))
    shutil.copytree(place / "out", place / "kept-out")
    return place


EVENTS = {
    "a": {"dp_events": [{"neighboring_relation": "REPLACE_ONE", "event": {
        "class": "SelfComposedDpEvent", "count": 3,
        "event": {"class": "GaussianDpEvent", "noise_multiplier": 4.0},
    }}]},
}  # fmt: skip


def _explain(folder: Path) -> None:
    explain(folder, full=True)


def _predict(folder: Path) -> None:
    private_graphs.predict(folder, nodes="n.csv", out="p.csv")


def _ledger(folder: Path) -> None:
    BudgetLedger(folder.parent / "raw").entries()
    private_graphs.ledger(data=folder.parent / "raw")


STORED: dict[str, tuple[str, tuple[str, ...], Callable[[Path], object]]] = {
    "dataset": ("graph", ("graph.safetensors", "dataset.json"), GraphDataset.load),
    "job": ("job", ("runs.parquet", "statement.json", "predictions.safetensors", "manifest.json"),
            read_store),
    "explained": ("job", ("statement.json", "runs.parquet", "manifest.json"), _explain),
    "release": ("kept-out/release", ("statement.json", "manifest.json"), _explain),
    "model": ("kept-out/release", ("model.safetensors", "manifest.json"), _predict),
    "ledger": ("kept/ledgers", ("releases.jsonl", "lines", "key"), _ledger),
    "declaration": ("kept/declared", ("letters.json",), _ledger),
    "statement": ("job", ("statement.json",), lambda folder: explain(
        folder / "statement.json", full=True)),
    "events": ("events", ("events.json",), lambda folder: of_file(folder / "events.json", 1e-5)),
}  # fmt: skip


WHOLE = [(kind, True) for kind in STORED]
WITHOUT_MANIFEST = [(kind, False) for kind, each in STORED.items() if "manifest.json" in each[1]]


@pytest.mark.parametrize(("kind", "manifest"), WHOLE + WITHOUT_MANIFEST)
def test_stored_files(written, kind, manifest):
    """Without the ``manifest`` nothing finds the damage before the file is read."""
    source, names, read = STORED[kind]
    original = written / source
    contents = {name: (original / name).read_bytes() for name in names}

    def of(name: str):
        data = contents[name]
        if name.endswith(".json"):
            return st.one_of(damaged(data), altered(json.loads(data)).map(as_json))
        return damaged(data)

    def check(change):
        name, data = change
        folder = written / "work" / Path(source).name
        shutil.rmtree(written / "work", ignore_errors=True)
        shutil.copytree(original, folder)
        if kind in ("ledger", "declaration"):
            shutil.copytree(written / "kept", written / "work", dirs_exist_ok=True)
        (folder / name).write_bytes(data)
        if not manifest and name != "manifest.json":
            (folder / "manifest.json").unlink()
        with survived(written):
            read(folder)

    for name in names:
        check((name, NESTED + b"\n"))
        check((name, contents[name].replace(b"lrec", b"\xff" * 4)))  # text that is no UTF-8
    changes = st.sampled_from(names).flatmap(lambda name: st.tuples(st.just(name), of(name)))
    fuzzed(given(changes)(check))()
