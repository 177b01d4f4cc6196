"""Fresh noise comes from the operating system: one function asks it, and every run that claims so
draws from what that function returned."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command_line import Outcome
from document_tables import declared, linked, public_rows, rows_of, write
from small_jobs import job_of, small_dataset
from test_sharded import at_the_release

from private_graphs.core import entropy
from private_graphs.core.streams import Streams
from private_graphs.documents.release import classify
from private_graphs.mechanisms.door import Door
from private_graphs.running.run import execute

SOURCES = {
    "urandom", "getrandom", "secrets", "SystemRandom", "uuid1", "uuid4", "getentropy", "entropy",
}  # fmt: skip
"""Names of what returns bytes of the operating system."""


def test_one_function_asks_the_operating_system(root: Path):
    """No other module names a source of entropy, opens its device, or makes a generator without a
    seed, which would ask it too."""
    found, package = [], root / "src" / "private_graphs"
    for path in sorted(package.rglob("*.py")):
        if path == package / "core" / "entropy.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = {getattr(node, key, None) for key in ("attr", "id", "module", "name")}
            unseeded = isinstance(node, ast.Call) and not (node.args or node.keywords)
            call = getattr(node, "func", None)
            made = getattr(call, "attr", None) or getattr(call, "id", None)
            if isinstance(node, ast.Constant) and str(node.value).startswith("/dev/"):
                found += [(path.name, node.value)] * str(node.value).endswith("random")
            elif names & SOURCES or (unseeded and made in {"default_rng", "SeedSequence", "PCG64"}):
                found.append((path.name, ast.unparse(node)))
    assert not found


@pytest.fixture
def given(monkeypatch) -> list[bytes]:
    """What the operating system was asked for, by a source that counts and never repeats."""
    drawn: list[bytes] = []

    def urandom(count: int) -> bytes:
        drawn.append(hashlib.shake_256(f"{len(drawn)}".encode()).digest(count))
        return drawn[-1]

    monkeypatch.setattr(entropy, "urandom", urandom)
    return drawn


def documents(run, tmp_path: Path, method: str) -> None:
    declared("x", write(Path("n.csv"), rows_of(120)), budget=3)
    classify("x", epsilon=2, method=method, out="R")


def links(run, tmp_path: Path) -> None:
    rows = public_rows(90)
    nodes, edges = write(Path("n.csv"), rows), linked(Path("e.csv"), rows)
    declared("x", nodes, edges=edges, public="open", max_edges=1000, classes=())
    classify("x", epsilon=1, scenario="edges", out="R")


def command(run, tmp_path: Path, *arguments: object) -> None:
    answer: Outcome = run(*arguments, "--data", tmp_path / "raw")
    assert answer.code == 0, answer.err


def job(run, tmp_path: Path, *case: str) -> None:
    execute(
        job_of(*case, epsilons=(0.1,), validation_labels=()), small_dataset(case[0]),
        noise_source="os_entropy",
    )  # fmt: skip


def shards(run, tmp_path: Path) -> None:
    release = at_the_release(tmp_path, seeded=False)
    assert release.advance(release.rounds) is not None


RUNS: dict[str, tuple[Callable, tuple[object, ...]]] = {
    "classify": (documents, ("word_sums",)),
    "classify_by_steps": (documents, ("dp_linear",)),
    "classify_links": (links, ()),
    "train_sums": (command, ("train", "--dataset", "synthetic-npz", "--method", "class_sums",
                             "--epsilon", 2)),
    "train": (command, ("train", "--dataset", "synthetic-planetoid", "--optimizer", "sgd",
                        "--epochs", 1, "--lr", 1, "--epsilon", 2)),
    "compiled_steps": (job, ("gcn",)),
    "sums": (job, ("dp_linear", "text")),
    "shards": (shards, ()),
}  # fmt: skip


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_with_fresh_noise_draws_32_bytes_of_the_operating_system(
    kind, run, given, tmp_path, monkeypatch
):
    """Every replica that releases something has streams keyed by bytes that were asked for."""
    monkeypatch.chdir(tmp_path)
    secrets: dict[str, bytes | None] = {}
    released: list[Streams] = []
    of, lanes = Streams.of.__func__, Door.of.__func__

    def keyed(cls, fields, secret=None):
        made = of(cls, fields, secret)
        secrets[made.identity] = secret
        return made

    def opened(cls, streams, *more):
        released.extend(streams)
        return lanes(cls, streams, *more)

    monkeypatch.setattr(Streams, "of", classmethod(keyed))
    monkeypatch.setattr(Door, "of", classmethod(opened))
    act, arguments = RUNS[kind]
    act(run, tmp_path, *arguments)
    assert released and all(each.secret for each in released)
    keys = [secrets[each.identity] for each in released]
    assert all(key in given and len(key) >= 32 for key in keys)
    noisy = [each for each in released if True in each._opened.values()]
    assert noisy, "no stream of the door was opened"
    draws = [each.of_door.generator("another").integers(2**62) for each in noisy]
    assert len(np.unique(draws)) == len({each.identity for each in noisy})
