"""A release that is paid for is not lost, and a ledger that was lost is not taken for a new one.

The proof is in docs/privacy.md §16: one key, one computation, one release.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import numpy as np
import pytest
from command_line import refused
from document_tables import declared, linked, public_rows, rows_of, write

import private_graphs
from private_graphs import classify, cli
from private_graphs.core import devices, entropy, imports
from private_graphs.core.errors import UsageError, UserError
from private_graphs.core.manifest import changed_file
from private_graphs.documents import declaration, files, model, noise, payment, spending
from private_graphs.documents import ledger as ledgers
from private_graphs.documents import release as releases
from private_graphs.documents.hashing import HashedWords
from private_graphs.documents.ledger import BudgetLedger, OverBudget
from private_graphs.documents.model import ReleasedModel
from private_graphs.documents.noise import NoiseKey, computation_of
from private_graphs.documents.predict import written_to
from private_graphs.documents.prediction import Predictions
from private_graphs.documents.tables import read_documents
from private_graphs.mechanisms.door import Door

KEYS = Path("data/ledgers/noise")
HERE = Path(__file__).parent


def texts() -> dict[str, str]:
    declared("x", write(Path("n.csv"), rows_of(60)), budget=3)
    return {}


def links() -> dict[str, str]:
    rows = public_rows(60)
    edges = linked(Path("e.csv"), rows)
    given = dict(edges=edges, public="open", max_edges=500, classes=(), budget=3)
    declared("x", write(Path("n.csv"), rows), **given)
    return {"scenario": "edges"}


def interrupted(monkeypatch, out: str = "R", where: object = files, name: str = "page", **given):
    """Classify until a function is called after the charge; return the error."""
    real, charged = getattr(where, name), BudgetLedger.start

    def started(book, *args, **more):
        release = charged(book, *args, **more)
        patched.setattr(where, name, failing)
        return release

    def failing(*_, **__):
        raise MemoryError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(BudgetLedger, "start", started)
        with pytest.raises(MemoryError) as error:
            classify("x", epsilon=1, out=out, **given)
    assert getattr(where, name) is real
    return error.value


def contents(folder: str) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in Path(folder).rglob("*") if path.is_file()}  # fmt: skip


def spent() -> tuple[float, float, list[str]]:
    account = private_graphs.ledger("x")
    return account.spent, account.links, [each["state"] for each in account.releases]


@pytest.mark.parametrize("kind", [texts, links])
def test_an_interrupted_release_is_made_again_to_the_bit_at_no_further_cost(
    data, monkeypatch, kind: Callable[[], dict[str, str]]
):
    given = kind()
    error = interrupted(monkeypatch, **given)
    assert "epsilon 1 of 'x' is spent, and not lost: the same command, into this or another" in (
        error.__notes__[0])  # fmt: skip
    [key] = KEYS.iterdir()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and len(secret := key.read_bytes()[:32]) == 32
    assert stat.S_IMODE(KEYS.stat().st_mode) == 0o700
    before = spent()
    copy = Path.cwd().with_name(f"{Path.cwd().name}-copy")
    shutil.copytree(".", copy)  # of folder, ledger and key
    said: list[str] = []
    result = classify("x", epsilon=1, out="R", say=said.append, **given)
    assert "costs no more" in " ".join(said)
    assert spent()[:2] == before[:2] and spent()[2] == ["finished"] and not any(KEYS.iterdir())
    assert 0.99 < result.spent <= 1 and result.spent_before == 0
    whole = contents("R")
    assert not any(secret in each or secret.hex().encode() in each for each in whole.values())
    del whole["ledger.json"]
    monkeypatch.chdir(copy)
    shutil.rmtree("R")
    classify("x", epsilon=1, out="R", **given)  # the declaration names the same tables
    again = contents("R")
    del again["ledger.json"]
    assert again == whole
    with pytest.raises(UsageError, match="earlier run"):
        classify("x", epsilon=1, out="R", **given)
    other = classify("x", epsilon=1, out="S", **given)  # once finished it is a new release
    assert other.spent > 1 and contents("S")["release/statement.json"] != whole[
        "release/statement.json"]  # fmt: skip


@pytest.mark.parametrize("damage", ["gone", "cut", "long", "folder", "bit"])
def test_an_interrupted_release_whose_key_is_lost_is_not_paid_for_again_by_the_same_command(
    data, monkeypatch, damage
):
    """Nothing can continue it; the same command said nothing, and was charged a second time."""
    texts()
    interrupted(monkeypatch)
    [key] = KEYS.iterdir()
    before = spent()
    assert classify("x", epsilon=1, dry_run=True).spent_before == before[0], "it is charged already"
    if damage in ("gone", "folder"):
        key.unlink()
    if damage == "folder":
        key.mkdir()
    elif damage == "bit":
        key.write_bytes(bytes([key.read_bytes()[0] ^ 1]) + key.read_bytes()[1:])
    elif damage != "gone":
        os.truncate(key, 16 if damage == "cut" else 50 * 2**30)
    with pytest.raises(UsageError, match=f"{key.name} is gone or damaged.*Nothing more was spent"):
        classify("x", epsilon=1, out="R")
    with pytest.raises(UsageError, match="gone or damaged"):
        classify("x", epsilon=1, dry_run=True)
    assert spent() == before
    assert classify("x", epsilon=0.5, out="S").spent > before[0], "another release is charged"
    if damage != "folder":
        assert classify("x", epsilon=1, out="R", force=True).spent > 1.1, "as it was told to be"


def test_folders_that_may_not_be_read_are_not_taken_for_empty(data, monkeypatch):
    """An earlier run would be overwritten, and a ledger that was lost be taken for a new one."""
    texts()
    classify("x", epsilon=1, out="R")
    before, whole, real = spent(), contents("R"), os.listdir
    for folder in ("R/release", "data/declared", "data/ledgers/noise"):

        def listed(path=".", closed=Path(folder)):
            if Path(path) == closed:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return real(path)

        with monkeypatch.context() as patched:
            patched.setattr(os, "listdir", listed)
            patched.setattr(os, "scandir", listed)
            with pytest.raises(PermissionError, match=folder):
                classify("x", epsilon=1, out="R")
    assert spent() == before and contents("R") == whole


def test_a_folder_in_the_place_of_a_file_is_named_before_the_charge(data):
    texts()
    made = classify("x", epsilon=0.1, out="R")
    before, names = spent(), [name for name in contents("R") if ".gitignore" not in name]
    assert {"ledger.json", "release/manifest.json", "private/predictions.csv"} <= {*names}
    for name in names:
        whole = Path("R", name).read_bytes()
        Path("R", name).unlink()
        Path("R", name).mkdir()
        with pytest.raises(UserError, match=re.escape(name)):
            classify("x", epsilon=0.1, out="R", force=True)
        Path("R", name).rmdir()
        Path("R", name).write_bytes(whole)
    assert spent() == before and made.release is not None


def test_a_folder_that_others_named_like_a_partial_file_is_left(data):
    texts()
    Path("R/release/.notes.partial").mkdir(parents=True)
    made = classify("x", epsilon=0.1, out="R")
    assert made.release is not None and Path("R/release/.notes.partial").is_dir()


def changed_cell() -> None:
    rows = rows_of(60)
    rows[7]["topic"] = "radios" if rows[7]["topic"] != "radios" else "bikes"
    write(Path("n.csv"), rows)


def changed_column() -> None:
    write(Path("n.csv"), [row | {"open": "a note"} for row in rows_of(60)])


def other_declaration() -> None:
    declared("x", Path("n.csv"), budget=2.9)


CHANGES: dict[str, Callable[[pytest.MonkeyPatch], object]] = {
    "a label": lambda _: changed_cell(),
    "a column that nobody reads": lambda _: changed_column(),
    "the declaration": lambda _: other_declaration(),
    "epsilon": lambda _: {"epsilon": 1.01},
    "the method": lambda _: {"method": "dp_linear"},
    "the code": lambda patch: patch.setattr(imports, "code_fingerprint", lambda *_: "another"),
    "a library": lambda patch: patch.setattr(noise, "version", lambda name: "another"),
    "the processor": lambda patch: patch.setattr(noise.platform, "machine", lambda: "another"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_a_release_depends_on_makes_another_one_that_is_charged(data, monkeypatch, change):
    """Two computations never share noise, even where the system would give both one key."""
    texts()
    keyed, of = [], Door.of
    monkeypatch.setattr(Door, "of", lambda lanes, *more: keyed.extend(lanes) or of(lanes, *more))
    interrupted(monkeypatch)
    [key] = KEYS.iterdir()
    secret = key.read_bytes()
    monkeypatch.setattr(entropy, "urandom", lambda count: secret[:count])
    more = CHANGES[change](monkeypatch) or {}
    said: list[str] = []
    classify("x", **{"epsilon": 1, "out": "S", "say": said.append} | more)
    assert "1 release in the ledger could be continued" in " ".join(said)
    assert sorted(spent()[2]) == ["finished", "started"]
    assert keyed[0].identity != keyed[1].identity
    assert [*KEYS.iterdir()] == [key] and key.read_bytes() == secret, "it can still be continued"


def test_another_place_of_its_files_continues_the_same_release(data, monkeypatch):
    """Their content is what a release depends on, and what is no table is not read."""
    Path("public").mkdir()
    write(Path("public", "p.csv"), [row | {"id": f"p{row['id']}"} for row in rows_of(60)])
    given = dict(budget=3, public_files="public", classes=())
    declared("x", write(Path("n.csv"), rows_of(60)), **given)
    interrupted(monkeypatch)
    Path("public", ".DS_Store").write_text("of a file manager")
    Path("public", "p.csv").rename("public/q.csv")
    Path("m.csv").symlink_to("n.csv")
    declared("x", Path("m.csv"), **given)
    said: list[str] = []
    classify("x", epsilon=1.0, out="R", say=said.append)
    assert spent()[2] == ["finished"] and "interrupted run has paid" in " ".join(said)


def test_the_device_that_reads_texts_is_part_of_a_release_and_not_its_option(data, monkeypatch):
    texts()
    spec = declaration.needed("x", data)
    docs, computation = read_documents(spec), releases._computation
    for kind, alike in (("bert", False), ("words.bin", True), (None, True)):
        of_model = spec.model_copy(update={"model": kind})
        digests = []
        for option, here in (("auto", "cpu"), ("cpu", "cpu"), ("auto", "cuda")):
            monkeypatch.setattr(devices, "resolve_device", lambda _, here=here: here)
            digests.append(computation(of_model, docs, {}, option))
        assert digests[0] == digests[1] and (digests[0] == digests[2]) == alike


def test_a_folder_of_another_run_is_no_place_to_continue(data, monkeypatch):
    texts()
    interrupted(monkeypatch)
    with pytest.warns(UserWarning, match="could be continued by the same command"):
        classify("x", epsilon=0.5, out="R", force=True)
    with pytest.raises(UsageError, match="choose another --out, or") as error:
        classify("x", epsilon=1, out="R")
    assert "the same command, into this or another --out, continues" in error.value.__notes__[0]
    classify("x", epsilon=1, out="S")
    assert [*KEYS.iterdir()] == []


def test_a_digest_of_a_computation_has_every_part():
    parts = {"a": 1}, ["text", "b"], np.arange(3), np.zeros(2, bool)
    found = [
        computation_of(*parts), computation_of({"a": 2}, *parts[1:]),
        computation_of(parts[0], ["textb"], *parts[2:]),
        computation_of(parts[0], ["text", "c"], *parts[2:]),
        computation_of(*parts[:2], np.arange(3)[::-1], parts[3]),
        computation_of(*parts[:2], np.arange(3, dtype=np.int32), parts[3]),
        computation_of(*parts[:3], np.ones(2, bool)),
    ]  # fmt: skip
    assert len(set(found)) == len(found) and found[0] == computation_of(*parts)
    key = NoiseKey(found[0])
    assert len({key.derived("mark"), key.derived("noise"), NoiseKey(found[0]).mark, key.mark}) == 4
    assert key.secret.hex() not in repr(key)


def test_other_values_under_the_same_noise_are_never_written(data, monkeypatch):
    """Another machine could round otherwise: what passed the door first is all that is written."""
    texts()
    interrupted(monkeypatch)
    before = contents("R")
    real = releases.Sums.released

    def otherwise(training, terms, *more):
        terms.labels[0] = 1 - terms.labels[0]
        return real(training, terms, *more)

    with monkeypatch.context() as patched:
        patched.setattr(releases.Sums, "released", otherwise)
        with pytest.raises(UserError, match="computes other values") as error:
            classify("x", epsilon=1, out="R")
    assert "is spent" in error.value.__notes__[0]
    assert contents("R").get("release/model.safetensors") == before.get("release/model.safetensors")
    classify("x", epsilon=1, out="R")
    assert spent()[2] == ["finished"]


def test_a_release_that_another_process_makes_is_neither_continued_nor_charged(data, monkeypatch):
    texts()
    interrupted(monkeypatch)
    [key] = KEYS.iterdir()
    holder = subprocess.Popen(
        [sys.executable, "-c", "import fcntl, sys; file = open(sys.argv[1]); "
         "fcntl.flock(file, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()", key],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    holder.stdout.readline()
    with pytest.raises(UsageError, match="another process makes this very release"):
        classify("x", epsilon=1, out="S")
    assert spent()[2] == ["started"] and not Path("S").exists()
    holder.communicate()
    classify("x", epsilon=1, out="S")
    assert spent()[2] == ["finished"], "in another folder, too"


def test_a_release_that_began_meanwhile_is_not_charged_twice(data, monkeypatch):
    """Two processes read the ledger before one of them enters the release."""
    texts()
    start = BudgetLedger.start

    def late(book, *given, **more):
        monkeypatch.setattr(BudgetLedger, "start", start)
        interrupted(monkeypatch, out="first")
        return start(book, *given, **more)

    monkeypatch.setattr(BudgetLedger, "start", late)
    with pytest.raises(UsageError, match="another process"):
        classify("x", epsilon=1, out="second")
    assert spent()[2] == ["started"]


def test_keys_without_a_release_are_deleted(data, monkeypatch):
    """Of a process that was killed before its line was whole, or after the last one."""
    texts()
    classify("x", epsilon=1, out="R")
    KEYS.joinpath("0" * 12).write_bytes(bytes(32))
    KEYS.joinpath(f".{'1' * 12}.7.partial").write_bytes(bytes(32))
    classify("x", epsilon=0.5, out="S", dry_run=True)
    assert not any(KEYS.iterdir())


def test_files_of_another_run_are_no_part_of_a_release_that_is_continued(data, monkeypatch):
    texts()
    interrupted(monkeypatch)
    shutil.rmtree("R")
    with pytest.warns(UserWarning, match="is charged"):
        classify("x", epsilon=0.5, out="R")
    whole = contents("R")
    for manifest in (None, "{", "[]"):  # whole, and damaged
        if manifest:
            Path("R/release/manifest.json").write_text(manifest)
            whole = contents("R")
        with pytest.raises(UsageError, match="earlier run"):
            classify("x", epsilon=1, out="R")
        assert contents("R") == whole
    classify("x", epsilon=1, out="R", force=True)
    assert changed_file(Path("R/release")) is None and spent()[2] == ["finished", "finished"]


# --- before the charge --------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["release", "private"])
def test_a_folder_that_cannot_be_written_costs_nothing(data, part):
    texts()
    Path("R").mkdir()
    Path("R", part).symlink_to("nowhere/at/all")
    with pytest.raises((OSError, UserError)) as error:
        classify("x", epsilon=1, out="R")
    assert part in str(error.value)
    assert spent() == (0, 0, []) and not any(KEYS.glob("*"))


def test_a_declaration_that_cannot_be_written_costs_nothing(data, monkeypatch):
    texts()
    real = os.replace

    def refusing(temporary, target):  # as for a folder that an administrator keeps
        if Path(target).name == "x.json":
            raise PermissionError(13, "Permission denied", str(target))
        real(temporary, target)

    with monkeypatch.context() as patched, pytest.raises(PermissionError) as error:
        patched.setattr(os, "replace", refusing)
        classify("x", epsilon=1, out="R")
    assert not hasattr(error.value, "__notes__") and spent() == (0, 0, [])


def test_a_release_and_a_declaration_at_once_keep_the_newer_budget(data, monkeypatch):
    texts()
    later = threading.Thread(target=declared, args=("x", Path("n.csv")), kwargs={"budget": 2})
    keep = declaration.keep

    def slow(spec, folder):  # between what a charge reads of a declaration and what it writes
        monkeypatch.setattr(declaration, "keep", keep)
        later.start()
        later.join(4)
        return keep(spec, folder)

    monkeypatch.setattr(declaration, "keep", slow)
    classify("x", epsilon=1, out="R")
    later.join()
    assert declaration.needed("x", data).budget == 2


def test_a_declaration_that_is_made_again_meanwhile_stops_the_charge(data, monkeypatch):
    texts()
    real = releases.rehearsed
    monkeypatch.setattr(
        releases, "rehearsed",
        lambda *given: declared("x", Path("n.csv"), budget=0.5) and real(*given),
    )  # fmt: skip
    with pytest.raises(UsageError, match="declared again while .* nothing was spent"):
        classify("x", epsilon=1, out="R")
    assert not BudgetLedger(data).entries()


@pytest.mark.parametrize("part", ["link", "data/ledgers", "data/ledgers/noise"])
def test_files_that_may_be_given_away_lie_apart(data, part):
    texts()
    if part == "link":
        Path("link").mkdir()
        os.symlink("release", "link/private")
    with pytest.raises(
        UsageError, match="are one through a link|is for declarations and the ledger alone"
    ):
        classify("x", epsilon=1, out=part)
    assert not BudgetLedger(data).entries()


def test_a_ledger_is_the_same_from_within_the_folder_of_raw_files(data, monkeypatch):
    texts()
    classify("x", epsilon=1, out="R")
    data.mkdir()
    for folder, name in ((data, "."), (data / "deeper", "..")):
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        assert 0.99 < private_graphs.ledger("x", data=name).spent <= 1
        assert not (Path("ledgers").exists() or Path("declared").exists())


def test_room_that_the_files_will_need_is_tried_before_the_charge(data, monkeypatch):
    texts()
    sizes, numbers = {}, {}

    def held(book, *_, **__):
        for part in ("release", "private"):
            sizes[part] = Path("R", part, ".room").stat().st_size
            numbers[part] = len([*Path("R", part).glob(".room*")])
        raise OverBudget("stop")

    with monkeypatch.context() as patched:
        patched.setattr(BudgetLedger, "start", held)
        with pytest.raises(OverBudget):
            classify("x", epsilon=1, out="R")
    assert not Path("R").exists(), "nothing is left of what was tried"
    classify("x", epsilon=1, out="R")
    for part, size in sizes.items():
        assert sum(map(len, contents(f"R/{part}").values())) <= size
        assert len(contents(f"R/{part}")) <= numbers[part]
    assert not [*Path("R").rglob(".room*")]


def test_a_model_that_could_not_be_read_again_is_refused_before_the_charge(data, monkeypatch):
    texts()
    Path("words.txt").write_text("chain pedal wheel")
    declared("x", Path("n.csv"), vocabulary=Path("words.txt"))
    monkeypatch.setattr(model, "MOST_NAME_BYTES", 10)
    with pytest.raises(UserError, match="its words is 17, expected at most 10"):
        classify("x", epsilon=1, out="R")
    assert not BudgetLedger(data).entries()


WITHOUT_IMPORTS = """
import sys
from private_graphs.documents.ledger import BudgetLedger
import private_graphs
late, start = [], BudgetLedger.start
def started(*given, **more):
    release = start(*given, **more)
    before = set(sys.modules)
    sys.addaudithook(lambda event, told: event == "import" and told[0] not in before
                     and late.append(told[0]))
    return release
BudgetLedger.start = started
private_graphs.classify("x", epsilon=1, out="R", **eval(sys.argv[1]))
print("late", late)
"""


@pytest.mark.parametrize("kind", [texts, links])
def test_nothing_is_imported_after_the_charge(data, kind):
    """An import may fail: under a memory limit, or on a network drive."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_IMPORTS, repr(kind())],
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["late []"], done.stdout + done.stderr


# --- after the charge ---------------------------------------------------------------------------


def test_an_error_after_the_charge_says_what_is_spent(run, data, monkeypatch):
    texts()
    command = ("classify", "x", "--epsilon", 1, "--out", "R")
    for error, code, words in (
        (MemoryError("4 GiB"), 1, "not enough memory (4 GiB)"), 
        (KeyboardInterrupt(), 130, "interrupted"),
        (OSError(28, "No space left on device", "R/x"), 1, "R/x: cannot be written"),
        (ZeroDivisionError(), 1, "a defect of private-graphs"),
    ):  # fmt: skip

        def failing(*_, error=error, **__):
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(releases.PlannedRelease, "drawn", failing)
            answer = run(*command)
        refused(answer, code, words, "epsilon 1 of 'x' is spent, and not lost")
        assert "nothing unfinished was saved" not in answer.err
    refused(run("classify", "x", "--epsilon", 3, "--out", "S"), 3, "over the budget")
    assert "not lost" not in run("classify", "y", "--epsilon", 1, "--out", "S").err
    assert run(*command).code == 0 and spent()[2] == ["finished"]


def test_a_second_signal_does_not_hide_what_is_spent(data, monkeypatch):
    texts()
    real, signals = BudgetLedger.state_of, [KeyboardInterrupt(), SystemExit(143)]

    def interrupting(*given):
        if signals:
            raise signals.pop()
        return real(*given)

    with monkeypatch.context() as patched:
        patched.setattr(BudgetLedger, "state_of", interrupting)
        error = interrupted(monkeypatch)
    assert "epsilon 1 of 'x' is spent, and not lost" in error.__notes__[0]
    assert not signals


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGXCPU", "SIGALRM", "SIGUSR1"])
def test_a_signal_that_ends_a_command_is_an_error(name, tmp_path):
    code = signal.Signals[name]
    before = signal.signal(code, signal.SIG_DFL)  # nohup and the like ignore it
    model = SimpleNamespace(classes=("a", "b"))
    blocks = (payment.paid("x", Path("none")),
              written_to(Predictions(cast(Any, model)), tmp_path / "p.csv"))  # fmt: skip
    try:
        for block in blocks:
            with pytest.raises(SystemExit) as ended, block:
                assert signal.getsignal(code) != signal.SIG_DFL
                signal.raise_signal(code)
            assert ended.value.code == 128 + code and signal.getsignal(code) == signal.SIG_DFL
        assert list(tmp_path.iterdir()) == [], "nothing is left of predictions"
    finally:
        signal.signal(code, before)


def test_an_error_before_it_is_continued_says_what_an_earlier_run_has_paid(run, data, monkeypatch):
    texts()
    interrupted(monkeypatch)
    Path("n.csv").rename("moved")
    paid = ("epsilon 1 of 'x' is spent on what is not finished: its own command, with the same "
            "table and declaration, continues it")  # fmt: skip
    command = ("classify", "x", "--epsilon", 1, "--out")
    refused(run(*command, "R"), 1, "n.csv: cannot be", paid)
    Path("moved").rename("n.csv")
    refused(run(*command, "n.csv/below"), 1, "n.csv/below: cannot be used", paid)
    declaration = Path("data/declared/x.json")
    whole = declaration.read_bytes()
    declaration.write_bytes(b"")
    refused(run(*command, "R"), 1, "cannot be read as a declaration", paid)
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", Mock(side_effect=OSError(errno.ENOLCK, "No locks")))
        refused(run(*command, "R"), 1, "lock: cannot be locked", "whether an earlier run has paid")
    declaration.unlink()
    refused(run(*command, "R"), 2, "is not declared", paid)
    declaration.write_bytes(whole)
    assert run("classify", "x", "--epsilon", 1, "--out", "R").code == 0
    Path("n.csv").unlink()
    assert "is spent" not in run("classify", "x", "--epsilon", 1, "--out", "S").err


def test_an_interruption_at_the_very_end_says_that_the_release_is_whole(data, monkeypatch):
    texts()
    real = Path.rmdir

    def interrupting(folder):
        if folder.name == "R":  # the last call: a folder that was reserved in vain goes again
            raise KeyboardInterrupt
        real(folder)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt) as error:
        patched.setattr(Path, "rmdir", interrupting)
        classify("x", epsilon=1, out="R")
    assert "is whole: there is nothing to repeat" in error.value.__notes__[0]
    assert spent()[2] == ["finished"] and not any(KEYS.iterdir())


def test_a_key_that_is_left_at_the_end_is_named_and_its_release_is_not_paid_twice_unasked(
    data, monkeypatch
):
    texts()
    real = Path.unlink

    def refusing(path, missing_ok=False):
        if path.parent.name == KEYS.name and path.name[0] != ".":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        real(path, missing_ok)

    with monkeypatch.context() as patched, pytest.raises(OSError) as error:
        patched.setattr(Path, "unlink", refusing)
        classify("x", epsilon=1, out="R")
    [key] = KEYS.iterdir()
    assert f"nothing to repeat; remove {key}" in error.value.__notes__[0]
    whole = {path: path.read_bytes() for path in Path("R").rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match="interrupted run of this very command has made its rel"):
        classify("x", epsilon=1, out="R", force=True)
    assert not key.exists() and spent()[2] == ["finished"]
    assert all(path.read_bytes() == content for path, content in whole.items())
    classify("x", epsilon=0.1, out="R", force=True)
    assert len(spent()[2]) == 2, "another one"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("flags", [(), pytest.param(("--json",), marks=pytest.mark.long)])
def test_where_standard_output_is_full_the_release_is_whole_and_said_to_be(
    data, flags, monkeypatch
):
    texts()
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # else nothing is left to fail at the end
    command = [sys.executable, "-m", "private_graphs", "classify", "x", "--epsilon", "1", *flags]
    with open("/dev/full", "w") as full:
        done = subprocess.run([*command, "--out", "R"], stdout=full, stderr=subprocess.PIPE)
        told = done.stderr.decode()
        assert done.returncode == 0 and "R is whole and paid for" in told, told
        assert "Exception" not in told and spent()[2] == ["finished"]
        done = subprocess.run([*command, "--out", "S"], stdout=subprocess.PIPE, stderr=full)
    assert done.returncode == 0 and b"spent" in done.stdout


def test_where_streams_are_closed_the_release_is_made(data):
    texts()
    command = [sys.executable, "-m", "private_graphs", "classify", "x", "--epsilon", "1"]
    for closed, out in ((">&-", "R"), ("2>&-", "S"), ("<&- >&- 2>&-", "T")):
        shell = ["sh", "-c", f'"$@" {closed}', "sh", *command, "--out", out]
        done = subprocess.run(shell, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "Error" not in done.stderr and Path(out, "release/manifest.json").exists()
    assert spent()[2] == ["finished"] * 3


FULL = [
    ["ledger", "add", "x", "--mu", ".1", "--sentence", "Opacus"],
    ["declare", "y", "--nodes", "n.csv", "--text", "body", "--label", "topic", "--classes",
     "bikes,gardens,radios"],
    ["predict", "m.safetensors", "--nodes", "n.csv", "--out", "p.csv"],
]  # fmt: skip


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_where_standard_output_is_full_nothing_that_is_done_is_repeated(data, monkeypatch, capfd):
    texts()
    words = HashedWords(4)
    ReleasedModel(words, np.zeros((5, 2)), ("a", "b"), ("body",), "id", "x").save(
        Path("m.safetensors")
    )

    def printed_nowhere(command: list[str]) -> tuple[int, str]:
        with (
            suppress(OSError), open("/dev/full", "w") as full, monkeypatch.context() as patched,
            pytest.raises(SystemExit) as end,
        ):  # fmt: skip
            patched.setattr(sys, "stdout", full)
            cli.main(command)
        return end.value.code, capfd.readouterr().err

    for command, words in zip(
        FULL, ("is entered: there is nothing to repeat", "y.json is written", "p.csv is whole"),
        strict=True,
    ):  # fmt: skip
        code, told = printed_nowhere(command)
        assert code == 0 and words in told and "standard output cannot be written" in told
    assert spent()[2] == ["finished"] and Path("p.csv").exists()
    for command in (["ledger", "x"], ["ledger", "x", "--json"], ["--version"], ["-h"]):
        code, told = printed_nowhere(command)
        assert code == 1 and "standard output: cannot be written" in told


@pytest.mark.parametrize("call", ["sync", "finish", "read"])
def test_an_entry_of_another_tool_that_is_interrupted_counts_once(run, data, monkeypatch, call):
    texts()
    where, name = {"sync": (ledgers, "sync"), "finish": (BudgetLedger, "finish"),
                   "read": (spending._Book, "spent")}[call]  # fmt: skip

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "some file")

    command = ("ledger", "add", "x", "--mu", ".1", "--sentence", "Opacus")
    with monkeypatch.context() as patched:
        patched.setattr(where, name, property(full) if call == "read" else full)
        answer = run(*command)
    refused(answer, 1, "epsilon 0.45", "of 'x' is spent")
    if call == "read":
        assert "its entry in the ledger is whole: there is nothing to repeat" in answer.err
        assert spent()[2] == ["finished"]
        return
    assert "the same command continues this entry at no further cost" in answer.err
    Path("n.csv").rename("moved")
    for other in (command, ("classify", "x", "--epsilon", 1, "--out", "R")):
        refused(run(*other), 1, "n.csv: cannot be", "of 'x' is spent on what is not finished")
    Path("moved").rename("n.csv")
    once = spent()[0]
    assert 0.4 < once < 0.5 and spent()[2] == ["started"]
    private_graphs.add_spending("x", "Opacus, of May", mu=0.1)  # another one
    assert spent()[2] == ["started", "finished"]
    assert run(*command).code == 0 and spent()[2] == ["finished", "finished"]
    twice = spent()[0]
    assert twice > once
    refused(run(*command), 2, "has this sentence and this cost, and counts. Nothing more")
    write(Path("n.csv"), rows_of(62))
    refused(run(*command), 2, "counts for the units and documents that were in the table then")
    command = (*command[:-1], "Opacus, of June")
    with monkeypatch.context() as patched:
        patched.setattr(where, name, full)
        run(*command)
    write(Path("n.csv"), rows_of(64))
    refused(run(*command), 2, "was interrupted", "and counts for", "give another --sentence")
    assert run(*command[:-1], "Opacus, again").code == 0
    assert spent()[2] == ["finished", "finished", "started", "finished"]


def test_a_lock_that_a_signal_left_stops_no_note(run, data, monkeypatch):
    texts()

    def end(ledger, *_):
        lock = ledger._locked()
        lock.__enter__()  # and no line leaves it: the signal came between two
        raise SystemExit(143)

    def stop(*_):
        raise AssertionError("the process waits for its own lock")

    monkeypatch.setattr(BudgetLedger, "finish", end)
    handler = signal.signal(signal.SIGALRM, stop)
    signal.alarm(20)
    try:
        answer = run("ledger", "add", "x", "--mu", ".1", "--sentence", "Opacus")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
    assert answer.code == 143 and "continues this entry at no further cost" in answer.err


def test_a_lock_that_cannot_be_closed_after_an_entry_has_the_note(run, data, monkeypatch):
    texts()
    entering = BudgetLedger.entering

    @contextmanager
    def fail(ledger):
        with entering(ledger):
            yield
        raise OSError(errno.EIO, os.strerror(errno.EIO), "entry.lock")

    monkeypatch.setattr(BudgetLedger, "entering", fail)
    answer = run("ledger", "add", "x", "--mu", ".1", "--sentence", "Opacus")
    refused(answer, 1, "entry.lock", "is spent", "whole: there is nothing to repeat")


def test_an_entry_counts_once_also_where_two_processes_enter_it(data, monkeypatch):
    texts()
    refusals, finish = [], BudgetLedger.finish

    def again():
        with pytest.raises(UsageError, match="has this sentence and this cost") as refusal:
            spending.add_spending("x", "both", mu=0.2)
        refusals.append(refusal)

    second = threading.Thread(target=again)

    def slow(*given, **more):
        monkeypatch.setattr(BudgetLedger, "finish", finish)
        second.start()
        second.join(0.5)
        finish(*given, **more)

    monkeypatch.setattr(BudgetLedger, "finish", slow)
    spending.add_spending("x", "both", mu=0.2)
    second.join()
    assert spent()[2] == ["finished"] and len(refusals) == 1
    spending.add_spending("x", "both", mu=0.3)
    spending.add_spending("x", "both, in May", mu=0.2)
    assert spent()[2] == ["finished"] * 3


def test_a_sentence_is_one_line_and_a_ledger_beyond_all_use_is_restored(run, data):
    texts()
    command = ("ledger", "add", "x", "--mu", 0.1, "--sentence", "Opacus\n\x1b[2J of\tMay")
    assert run(*command).out.endswith("  Opacus [2J of May\n")
    os.truncate(data.parent / "ledgers" / "releases.jsonl", 10**12)
    refused(
        run("ledger", "x"), 1, "releases.jsonl: line 3 was changed", "restore the file from a copy"
    )


def test_what_is_no_text_is_refused_before_anything_is_charged(run, data):
    texts()
    classify("x", epsilon=1, out="R")
    before = Path("data/ledgers/releases.jsonl").read_bytes()
    ascii_locale = os.fsencode("J\u00fcrgen").decode("ascii", "surrogateescape")
    for command, option in (
        (("classify", "x", "--epsilon", 1, "--out", "S", "--contact"), "--contact"),
        (("ledger", "add", "x", "--mu", ".1", "--sentence"), "--sentence"),
        (("ledger", "--id"), "--id"),
        (("predict", "R", "--nodes", "n.csv", "--out", "p.csv", "--label"), "--label"),
    ):
        refused(run(*command, "d\udcff"), 2, option, "bytes that are not UTF-8")
        refused(run(*command, ascii_locale), 2, option, "locale of this shell", "PYTHONUTF8=1")
    assert Path("data/ledgers/releases.jsonl").read_bytes() == before
    assert not Path("S").exists()


# --- the ledger is lost -------------------------------------------------------------------------


def test_a_ledger_that_was_lost_or_is_an_old_copy_is_no_new_one(run, data):
    texts()
    classify("x", epsilon=1, dry_run=True)
    shutil.copytree("data/ledgers", "unused")
    classify("x", epsilon=1, out="R")
    shutil.copytree("data/ledgers", "old")
    classify("x", epsilon=1, out="S")
    shutil.copytree("data/ledgers", "newest")
    others = write(Path("m.csv"), rows_of(60, 100))
    actions = (
        lambda: classify("x", epsilon=1, out="T"), lambda: private_graphs.ledger("x"),
        lambda: declared("x", Path("n.csv")), lambda: declared("y", others),
    )  # fmt: skip
    for lost in (None, "unused", "old"):
        shutil.rmtree("data/ledgers")
        if lost:
            shutil.copytree(lost, "data/ledgers")
        for act in actions:
            with pytest.raises(UserError, match=r"expected the 6 .*x.json has seen.*newest copy"):
                act()
    shutil.rmtree("data/ledgers")
    kept = Path("data/declared/x.json").rename("kept")
    declared("x", Path("n.csv"))
    with pytest.raises(UserError, match="expected the 1 that the release in R has seen"):
        classify("x", epsilon=1, out="R")  # and not that it should choose another --out
    kept.rename("data/declared/x.json")
    shutil.rmtree("data/ledgers")
    with pytest.raises(UserError, match="newest copy"):  # before it gets a key of its own
        classify("x", epsilon=1, out="T")
    assert not Path("data/ledgers/key").exists()
    Path("data/ledgers").rename("begun")
    Path("data/ledgers").symlink_to("/not/mounted")
    with pytest.raises(UserError, match="ledgers: is a link to /not/mounted.*connect its disk"):
        classify("x", epsilon=1, out="T")
    Path("data/ledgers").unlink()
    Path("begun").rename("data/ledgers")
    Path("data/declared/x.json").rename("declaration")
    declared("x", Path("n.csv"))
    classify("x", epsilon=1, out="U")
    shutil.rmtree("data/ledgers")
    Path("data/declared/x.json").unlink()
    declared("x", Path("n.csv"))
    for name in "VWX":
        classify("x", epsilon=0.1, out=name)
    with pytest.raises(UserError, match="of 9 lines, of which line 1 is not the one that the rel"):
        classify("x", epsilon=1, out="U", force=True)
    shutil.rmtree("data/ledgers")
    Path("declaration").rename("data/declared/x.json")
    shutil.copytree("newest", "data/ledgers", dirs_exist_ok=True)
    key = Path("data/ledgers/key").read_bytes()
    Path("data/ledgers/key").unlink()
    with pytest.raises(UserError, match="ledgers/key: is gone or cut off"):
        private_graphs.ledger("x")
    Path("data/ledgers/key").write_bytes(key)
    assert 1.5 < private_graphs.ledger("x").spent < 1.52
    read = Path("data/ledgers/README.md").read_text()
    assert "It is no cache" in read and "leave out the folder `noise`" in read


def test_a_declaration_that_cannot_be_read_is_no_reason_to_begin_a_new_ledger(data, monkeypatch):
    """It may be the one thing that has seen what was spent: nobody declares over it either."""
    texts()
    classify("x", epsilon=1, out="R")
    others, path = write(Path("m.csv"), rows_of(60, 100)), Path("data/declared/x.json")
    whole, real = path.read_bytes(), declaration.read_kept
    shutil.copytree("data/ledgers", "newest")
    actions = (
        lambda: declared("x", Path("n.csv"), budget=9), lambda: declared("y", others),
        lambda: private_graphs.ledger("x"), lambda: classify("x", epsilon=1, out="T"),
    )  # fmt: skip

    def closed(file, *given):
        if Path(file).name == "x.json":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
        return real(file, *given)

    for lost in (False, True):
        if lost:
            shutil.rmtree("data/ledgers")
        with monkeypatch.context() as patched:
            patched.setattr(declaration, "read_kept", closed)
            for act in actions:
                with pytest.raises(UserError, match="x.json: cannot be .*permissions") as error:
                    act()
                assert "declare x again" not in str(error.value)
        assert path.read_bytes() == whole
    path.write_bytes(whole[:40])
    for act in actions[:2]:
        with pytest.raises(UserError, match="x.json: .*whether a ledger was lost is not known"):
            act()
    assert not Path("data/declared/y.json").exists()
    shutil.rmtree("data/ledgers", ignore_errors=True)
    shutil.copytree("newest", "data/ledgers")
    declared("x", Path("n.csv"))
    assert 0.99 < private_graphs.ledger("x").spent < 1


def test_a_release_knows_its_ledger_where_the_declaration_is_gone_too(data):
    texts()
    classify("x", epsilon=1, out="R")
    told = json.loads(Path("R/ledger.json").read_text())
    assert stat.S_IMODE(Path("R/ledger.json").stat().st_mode) == 0o600
    assert told["lines"] == 1 and not Path("R/release/ledger.json").exists()
    shutil.rmtree("data")
    texts()
    with pytest.raises(UserError, match="that the release in R has seen.*choose another --out"):
        classify("x", epsilon=1, out="R", force=True)
    with pytest.raises(UserError, match="that the release in R has seen"):
        classify("x", epsilon=1, out="R", dry_run=True)  # it would say that nothing is spent
    assert not Path("data/ledgers/releases.jsonl").exists()


def test_a_pipe_in_place_of_the_lock_keeps_nobody_waiting(data):
    texts()
    lock = Path("data/ledgers/lock")
    lock.unlink()
    os.mkfifo(lock)
    assert classify("x", epsilon=1, out="R").spent > 0.9


@pytest.mark.parametrize("damage", ["cut", "list", "closed"])
def test_a_release_whose_witness_is_damaged_is_not_taken_for_one_without(data, monkeypatch, damage):
    texts()
    classify("x", epsilon=1, out="R")
    shutil.rmtree("data")
    texts()
    witness, real = Path("R/ledger.json"), files.read_kept
    if damage == "closed":

        def closed(path, *most):
            if Path(path).name == "ledger.json":
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return real(path, *most)

        monkeypatch.setattr(files, "read_kept", closed)
    else:
        witness.write_bytes(witness.read_bytes()[:30] if damage == "cut" else b"[]")
    with pytest.raises(UserError, match="R/ledger.json: (is damaged|cannot be .*permissions)"):
        classify("x", epsilon=1, out="R", force=True)
    assert not Path("data/ledgers/releases.jsonl").exists()


def test_a_release_knows_its_ledger_where_the_project_has_moved(data, tmp_path, monkeypatch):
    texts()
    classify("x", epsilon=1, out="R")
    moved = tmp_path.with_name(f"{tmp_path.name}-moved")
    tmp_path.rename(moved)
    monkeypatch.chdir(moved)
    shutil.rmtree("data")
    texts()
    with pytest.raises(UserError, match="that the release in R has seen.*choose another --out"):
        classify("x", epsilon=1, out="R", force=True)


# --- one refused system call --------------------------------------------------------------------


def test_a_disturbed_release_is_whole_free_or_continued(tmp_path, pytestconfig):
    """A process is killed, ended, interrupted, or refused one system call, at each of its calls.

    Nothing that was paid for is lost, and the ledger is true (``refusals.wrongs``).
    """
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler here")
    library = tmp_path / "refusals.so"
    source = HERE / "refusals.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    most = "0" if pytestconfig.getoption("--all-faults") else "1"
    done = subprocess.run(
        [sys.executable, HERE / "refusals.py", tmp_path, most], capture_output=True, text=True,
        env=os.environ | {"LD_PRELOAD": str(library), "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len({each["call"] for each in found}) == 14
    assert not [each for each in found if each["wrong"]]
