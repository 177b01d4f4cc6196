"""The ledger: what each protected unit has spent, kept by the ids of units and documents.

One JSON line is appended and forced to the disk, under a lock, before a release reads anything
private, and counts in full from then on. A release is charged to the units whose ids it held,
whatever the graph was called: releases about disjoint ids cost each unit its own, and what one unit
has spent is a filter, the sum of μ² of the releases that held it (docs/privacy.md, "Documents of an
owner"; ``accounts``). Ids are stored as keyed hashes; the key lies beside the ledger, readable by
its owner.

The key of a release's noise lies beside the ledger from its line until its files are whole: who is
interrupted makes the same release again, at no further cost. Declarations and releases keep the
number and digest of a line, so that a ledger that was lost is not taken for a new one.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from private_graphs.core.bounded_files import opened, parsed_json, read_kept
from private_graphs.core.entropy import fresh_bytes
from private_graphs.core.errors import UsageError, UserError, listed, naming
from private_graphs.core.files import names_in, sync, write_text
from private_graphs.core.limits import MOST_DOCUMENT_BYTES
from private_graphs.core.private_files import hide_from_git, make_folder, private_path
from private_graphs.datasets.spelling import seen
from private_graphs.documents.accounts import (
    OTHER_TOOL,
    Cost,
    People,
    RecordedRelease,
    charged_account,
    over_budget,
)
from private_graphs.documents.declaration import (
    Declaration,
    LedgerState,
    beside,
    folder_of,
    keep,
    ledger_states,
    note_ledger,
)
from private_graphs.documents.noise import NoiseKey

FOLDER = "ledgers"
"""Folder of the ledger beside the folder of raw files: ``data/raw`` -> ``data/ledgers``."""
_RELEASES, _KEY, _LINES, _NOISE = "releases.jsonl", "key", "lines", "noise"
_LOCK, _ENTRY = "lock", "entry.lock"
_KEY_BYTES = 32
_WHOLE = ("an interrupted run of this very command has made its release whole: there is nothing to "
          "repeat, and nothing is spent. Once more, the command makes another one")  # fmt: skip
_ABOUT = """# What this folder is

The ledger of private-graphs: what the releases of your documents have spent. It is no cache. Where
it is lost, nobody knows what was spent, and nothing more can be released. Copy `releases.jsonl`,
`lines` and `key` together to another disk after each release, and leave out the folder `noise`: it
has the keys of releases that are not finished, or whose command was killed at its very end. Who
has such a key, the tables and the release can take the noise off.
"""


class OverBudget(UserError):
    """A release that some unit's budget does not allow; nothing was drawn or read."""

    exit_code = 3


class BudgetLedger:
    """The ledger of a data folder; entries are read when they are needed."""

    def __init__(self, data: Path, before: str = "") -> None:
        self.data, self.folder = data, beside(data, FOLDER)
        self.before = before
        """Release before whose line the entries end; empty: all are read."""
        self._path = self.folder / _RELEASES

    def refuse(self, *written: Path) -> None:
        """Raise UsageError for a path of results within the folders of ledger and declarations."""
        for kept in (self.folder, folder_of(self.data)):
            for path in written:
                if kept.resolve() in (path.resolve(), *path.resolve().parents):
                    raise UsageError(
                        f"--out leads to {path}, within {kept}, which is for declarations and the "
                        "ledger alone; choose another name"
                    )

    # --- ids ---

    def people(
        self, units: Sequence[str], ids: Sequence[str], unit_of: np.ndarray, sides: np.ndarray,
        alone: bool,
    ) -> People:  # fmt: skip
        """Return keyed hashes of units and documents; ``alone``: each document is a unit.

        Ids count in their visible form, so that another spelling in Unicode is no other document.
        """
        with self._locked():
            key = self._key()
        documents = _hashes_of_documents(key, ids)
        hashed = np.empty(len(units), np.uint64)
        if alone:
            hashed[unit_of] = documents
        else:
            hashed = _hashes(key, "unit", units)
        return People(hashed, documents, np.asarray(unit_of), sides.astype(np.uint8))

    def _key(self) -> bytes:
        """Return the key of the hashes; it is made once. The lock is held."""
        path = self.folder / _KEY
        key = read_kept(path) if path.exists() else b""
        if len(key) == _KEY_BYTES:
            return key
        if self._path.exists():
            raise UserError(
                f"{path}: is gone or cut off, and without it the ids in {self._path} mean nothing; "
                "restore it from a copy"
            )
        self._check_states([])
        with private_path(path) as temporary, open(temporary, "wb") as file:
            file.write(key := fresh_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        return key

    # --- reading ---

    def entries(self) -> list[RecordedRelease]:
        """Return all releases, in order.

        Raises:
            UserError: a line that was changed or lost, with its number.
        """
        if not self._path.exists() and not (self.folder / _LINES).exists():
            self._check_states([])
            return []
        with self._locked():
            lines = self._lines()
        finished = {line["release"] for line in lines if line["kind"] == "finished"}
        started = [line for line in lines if line["kind"] == "started"]
        names = [line["release"] for line in started]
        end = names.index(self.before) if self.before else len(names)
        return [_entry(line, line["release"] in finished) for line in started[:end]]

    def state_of(self, release: str) -> str:
        """Return ``started`` or ``finished``; "" for a release that was not charged."""
        with self._locked():
            kinds = {line["kind"] for line in self._lines() if line["release"] == release}
        return next((kind for kind in ("finished", "started") if kind in kinds), "")

    def declare(self, declaration: Declaration) -> Path:
        """Write a declaration, with the last line of the ledger, and return its path.

        A release that is charged writes its line into the declaration that it finds. Under one lock
        neither overwrites what the other has written: an older, larger budget would hold again.
        """
        with self._locked():
            states = [_state(line) for line in self._lines()[-1:]]
            ledger = states[0] if states else None
            return keep(declaration.model_copy(update={"ledger": ledger}), self.data)

    @contextmanager
    def entering(self) -> Iterator[None]:
        """Let one process at a time enter spending of another tool: what a second one finds is
        finished, or was left by a process that ended."""
        with self._locked(_ENTRY):
            yield

    def check(self, state: LedgerState, witness: str) -> None:
        """Raise UserError unless the ledger has a line that a witness has seen in it."""
        with self._locked():
            self._require(state, self._lines(), witness)

    def _lines(self) -> list[dict[str, Any]]:
        """Return the checked lines; the lock is held."""
        lines, key, size = [], b"", 0
        for number, text in enumerate(self._written(), start=1):
            if text[-1:] != b"\n" and len(text) < MOST_DOCUMENT_BYTES:
                break
            key, size = key or self._key(), size + len(text)
            try:
                line = parsed_json(text)
                digest = line.pop("digest")
                right = digest == _digest(line, key)
            except (ValueError, KeyError, TypeError, AttributeError):
                right = False
            if not right:
                raise self._damaged(
                    number, f"was changed or damaged, or {_KEY} beside it is another one"
                )
            if line["line"] != number:
                raise self._damaged(number, f"is missing: line {line['line']} stands in its place")
            lines.append(line | {"digest": digest})
        self._check_count(len(lines))
        self._check_states(lines)
        if self._path.exists() and self._path.stat().st_size > size:
            # by a killed process; its release read nothing, as the line was never finished
            os.truncate(self._path, size)
        return lines

    def _written(self) -> Iterator[bytes]:
        """Yield the lines as they stand; a longer one than any release has in parts."""
        if self._path.exists():
            with opened(self._path) as stream:
                yield from iter(partial(stream.readline, MOST_DOCUMENT_BYTES), b"")

    def _check_count(self, count: int) -> None:
        """Raise UserError unless as many lines were found as were written, or one more: a process
        may be killed between the two files."""
        path = self.folder / _LINES
        digits = read_kept(path) if path.exists() else b"0"
        written = int(digits) if digits.isdigit() and len(digits) < 20 else -1
        if written < 0 or not 0 <= count - written <= 1:
            if count < written:
                raise self._damaged(count + 1, f"is missing: {written} lines were written")
            raise UserError(
                f"{path}: is gone, or is no number of the {count} lines in {_RELEASES}; what was "
                "spent is not known any more: restore both files from one copy"
            )

    def _check_states(self, lines: list[dict[str, Any]]) -> None:
        """Raise UserError if a declaration has seen a line that the ledger has not, or may have."""
        for path, state in ledger_states(self.data).items():
            if state is not None:
                self._require(state, lines, str(path))
            elif not lines:
                raise UserError(
                    f"{path}: cannot be read as a declaration, and {self.folder} has no line: "
                    "whether a ledger was lost is not known. Restore the file from a copy; where "
                    "nothing was ever released, remove it"
                )

    def _require(self, state: LedgerState, lines: list[dict[str, Any]], witness: str) -> None:
        if [state] == [_state(line) for line in lines[state.lines - 1 : state.lines]]:
            return
        from private_graphs.documents.refusals import other_ledger

        raise other_ledger(self.folder, len(lines), state.lines, witness)

    def _damaged(self, number: int, what: str) -> UserError:
        return UserError(
            f"{self._path}: line {number} {what}; what was spent is not known any more: restore "
            "the file from a copy"
        )

    # --- writing ---

    def start(
        self, people: People, costs: dict[int, Cost], budget: float | None, epsilon: float,
        check: Callable[[list[RecordedRelease]], object] = lambda entries: None,
        links: Cost | None = None, noise: NoiseKey | None = None, release: str = "", **about: Any,
    ) -> str:  # fmt: skip
        """Enter a release if every unit's budget allows it, and return its name.

        ``costs`` are those of sides in the account of documents, ``links`` is that of a link. The
        checks and the line are one step under a lock. The filter of docs/privacy.md decides, and no
        stricter rule: the sum of μ² of each unit, this release included, stays within the budget's.
        ``check`` raises if the entries before forbid the release. The key
        ``noise`` is stored before the line, so that no release is charged that cannot be continued.
        ``release`` is the name, if the caller has one.

        Raises:
            OverBudget: some unit has too little left; nothing is written.
            UsageError: another process has begun this very release meanwhile.
        """
        delta = about["delta"]
        with self._locked():
            lines = self._lines()
            if noise is not None and self._begun(lines, noise.computation):
                raise self._twin()
            entries = [_entry(line, True) for line in lines if line["kind"] == "started"]
            check(entries)
            account = entries, people, delta, costs, links
            after = charged_account(*account, asked=True)
            if budget is not None and over_budget(after, budget):
                from private_graphs.documents.refusals import over_budget_words

                request = about["graph"], epsilon, budget, delta
                accounts = charged_account(*account), after
                raise OverBudget(over_budget_words(*request, *accounts, people, entries))
            note_ledger(about["graph"], self.data)  # what refuses it now has cost nothing
            release = release or fresh_name()
            if noise is not None:
                noise.release, about["mark"] = release, noise.mark
                self._store(noise)
            self._append(
                lines,
                {
                    "kind": "started",
                    "release": release,
                    "date": datetime.now(UTC).isoformat(timespec="seconds"),
                    **about,
                    "epsilon": epsilon,
                    "budget": budget,
                    "costs": {str(side): vars(cost) for side, cost in costs.items()},
                    "links": links and vars(links),
                    "people": _packed(people),
                },
            )
        return release

    def draw(self, release: str, mark: str) -> None:
        """Note what passed the door, once: all that is ever written of a release follows from it.

        Raises:
            UserError: something else has passed under the same noise before.
        """
        with self._locked():
            lines = self._lines()
            marks = [line["mark"] for line in lines
                     if (line["kind"], line["release"]) == ("drawn", release)]  # fmt: skip
            if not marks:
                self._append(lines, {"kind": "drawn", "release": release, "mark": mark})
            elif marks != [mark]:
                raise UserError(
                    "this machine computes other values than the interrupted run did, under the "
                    "same noise: both together would show exact values, so nothing is written. Run "
                    "the same command where it was interrupted"
                )

    def finish(self, release: str, **about: Any) -> None:
        """Note that the files of a release are whole, and delete the key of its noise."""
        with self._locked():
            self._append(self._lines(), {"kind": "finished", "release": release, **about})
            self.key_of(release).unlink(missing_ok=True)

    def key_of(self, release: str) -> Path:
        """Return the file of a release's noise key, which is there until the release is whole."""
        return self.folder / _NOISE / release

    def _append(self, lines: list[dict[str, Any]], line: dict[str, Any]) -> None:
        """Append a line and force it to the disk; the lock is held."""
        self._count(len(lines))
        line = {"line": len(lines) + 1, **line}
        line["digest"] = _digest(line, self._key())
        text = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        _forced(self._path, os.O_APPEND, text)
        self._count(line["line"])
        sync(self.folder)
        for each in (line, *lines):
            if each["kind"] == "started" and each["release"] == line["release"]:
                note_ledger(each["graph"], self.data, _state(line))

    def _count(self, lines: int) -> None:
        """Write the number of lines, unless it is there; one may miss after a kill."""
        path = self.folder / _LINES
        if (read_kept(path) if path.exists() else b"0") != (told := str(lines).encode()):
            with private_path(path) as temporary:
                _forced(temporary, os.O_TRUNC, told)

    # --- noise ---

    @contextmanager
    def noise(self, computation: bytes) -> Iterator[NoiseKey]:
        """Hold the noise key of the unfinished release of a computation, or a new key.

        Raises:
            UsageError: another process holds it, or was killed when its release was whole.
        """
        key = NoiseKey(computation)
        try:
            with self._locked():
                unfinished = self._unfinished(lines := self._lines())
                names = {*names_in(self.folder / _NOISE)}
                release = self._begun(lines, computation)
                for name in names - unfinished:  # of killed processes
                    (self.folder / _NOISE / name).unlink()
                if release and release not in unfinished:
                    raise UsageError(_WHOLE)
                key.lost = tuple(line for line in lines if line["kind"] == "started"
                                 and line.get("mark") and line["release"] in unfinished
                                 and not self._secret_of(line["release"]))  # fmt: skip
                key.others = len(names & unfinished - {line["release"] for line in key.lost})
                if release:
                    key = NoiseKey(computation, self._secret_of(release), release)
                    self._hold(self.key_of(release), key)
            yield key
        finally:
            if key.lock >= 0:
                with naming(self.folder / _NOISE / key.release):
                    os.close(key.lock)

    def debt(self, name: str) -> str | None:
        """Return what is paid for and can be continued under the name of declared documents."""
        if not self._path.exists():
            return None
        epsilons = [
            f"{entry.epsilon:g}" for entry in self.entries()
            if entry.graph == name and not entry.finished
            and (entry.method == OTHER_TOOL or self._secret_of(entry.release))
        ]  # fmt: skip
        return (
            f"epsilon {listed(epsilons)} of {name!r} is spent on what is not finished: its own "
            "command, with the same table and declaration, continues it at no further cost, unless "
            "a program is upgraded"
        ) if epsilons else None  # fmt: skip

    def _unfinished(self, lines: list[dict[str, Any]]) -> set[str]:
        """Return the releases that were charged and are not finished."""
        return set.difference(*({line["release"] for line in lines if line["kind"] == kind}
                                for kind in ("started", "finished")))  # fmt: skip

    def _begun(self, lines: list[dict[str, Any]], computation: bytes) -> str:
        """Return the release of a computation whose key is still there; "" without one."""
        return next((
            line["release"] for line in lines if line["kind"] == "started"
            and (secret := self._secret_of(line["release"]))
            and hmac.compare_digest(NoiseKey(computation, secret).mark, line.get("mark", ""))
        ), "")  # fmt: skip

    def _secret_of(self, release: str) -> bytes:
        """Return the noise key of a release; b"" where its file is gone or damaged."""
        path = self.key_of(release)
        with naming(path):
            content = read_kept(path) if path.is_file() and path.stat().st_size < 1000 else b""
        secret = content[:_KEY_BYTES]
        return secret if content == _with_check(secret) else b""

    def _store(self, noise: NoiseKey) -> None:
        """Write the key of a release that is charged next, and hold it."""
        folder = self.folder / _NOISE
        make_folder(folder)
        with private_path(folder / noise.release) as temporary:
            _forced(temporary, os.O_TRUNC, _with_check(noise.secret))
        self._hold(folder / noise.release, noise)
        sync(folder)

    def _hold(self, path: Path, noise: NoiseKey) -> None:
        """Lock the file of a key until its process lets it go, or ends."""
        noise.lock = os.open(path, os.O_RDONLY)
        try:
            with naming(path):
                fcntl.flock(noise.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._twin() from None

    def _twin(self) -> UsageError:
        return UsageError(
            "another process makes this very release at the moment; wait for its end: if it fails, "
            "the same command continues it. Nothing more was spent"
        )

    @contextmanager
    def _locked(self, name: str = _LOCK) -> Iterator[None]:
        """Hold a lock of the ledger; the system releases it when a process dies."""
        make_folder(self.folder)
        hide_from_git(self.folder)
        if not (about := self.folder / "README.md").exists():
            write_text(about, _ABOUT)
        # a file of Python is closed, and its lock let go, wherever a signal ends this block
        with naming(self.folder / name):
            file = open(self.folder / name, "a+b", 0, opener=partial(os.open, mode=0o600))
        try:
            with naming(self.folder / name):
                fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            with naming(self.folder / name):
                file.close()


def fresh_name() -> str:
    """Return a name for a release that none has yet."""
    return fresh_bytes(6).hex()


def _with_check(secret: bytes) -> bytes:
    """Return a noise key as it is stored, so that a damaged one is found."""
    return secret + hashlib.sha256(secret).digest()


def _hashes_of_documents(key: bytes, ids: Sequence[str]) -> np.ndarray:
    """Return the keyed hashes of ids in their visible form."""
    return _hashes(key, "document", list(map(seen, ids)))


def _hashes(key: bytes, kind: str, ids: Sequence[str]) -> np.ndarray:
    """Return (ids,) uint64 keyed hashes."""
    person = kind.encode()
    raw = b"".join(
        hashlib.blake2b(name.encode(errors="surrogatepass"), key=key, digest_size=8,
                        person=person).digest()
        for name in ids
    )  # fmt: skip
    return np.frombuffer(raw, dtype="<u8")


def _digest(line: dict[str, Any], key: bytes) -> str:
    """Return a checksum of a line: it finds mistakes; the owner could write another ledger.

    It is made with the key of the ids, so that another key is found, under which no id matches.
    """
    text = json.dumps(line, separators=(",", ":"), sort_keys=True).encode()
    return hmac.new(key, text, hashlib.sha256).hexdigest()[:16]


def _state(line: dict[str, Any]) -> LedgerState:
    return LedgerState(lines=line["line"], fingerprint=line["digest"])


def _forced(path: Path, how: int, data: bytes) -> None:
    """Write to a file of the owner's, and force it to the disk."""
    with naming(path):
        file = os.open(path, os.O_CREAT | os.O_WRONLY | how, 0o600)
        try:
            while data:
                data = data[os.write(file, data) :]
            os.fsync(file)
        finally:  # some file systems say at the end alone that there is no room
            os.close(file)


def _packed(people: People) -> dict[str, str]:
    """Return arrays as text; units are left out where each document is one."""
    per_document = len(people.units) == len(people.documents) and bool(
        (people.units[people.unit_of] == people.documents).all()
    )
    arrays = {
        "documents": people.documents.astype("<u8"),
        "unit_of": people.unit_of.astype("<u4"),
        "sides": people.sides,
    } | ({} if per_document else {"units": people.units.astype("<u8")})
    return {name: base64.b64encode(array.tobytes()).decode() for name, array in arrays.items()}


def _entry(line: dict[str, Any], finished: bool) -> RecordedRelease:
    packed = {name: base64.b64decode(text) for name, text in line["people"].items()}
    documents = np.frombuffer(packed["documents"], "<u8")
    unit_of = np.frombuffer(packed["unit_of"], "<u4").astype(np.int64)
    sides = np.frombuffer(packed["sides"], np.uint8)
    if "units" in packed:
        units = np.frombuffer(packed["units"], "<u8")
    else:
        units = np.empty(len(sides), np.uint64)
        units[unit_of] = documents
    return RecordedRelease(
        release=line["release"], date=line["date"], graph=line["graph"], method=line["method"],
        epsilon=line["epsilon"], delta=line["delta"], unit=line["unit"],
        budget=line.get("budget"), finished=finished,
        people=People(units, documents, unit_of, sides),
        costs={int(side): Cost(**cost) for side, cost in line["costs"].items()},
        links=Cost(**line["links"]) if line.get("links") else None, state=_state(line),
        sentence=line.get("sentence", ""),
        # earlier versions did not note it: where it may be, it counts
        publishes_links=line.get("publishes_links", line.get("links") is None),
    )  # fmt: skip
