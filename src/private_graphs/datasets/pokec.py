"""Pokec as a text graph: cat people and dog people, their profile texts and friendships.

Source: Takac & Zabovsky, "Data Analysis in Public Social Networks", 2012; the selection of users
follows Igamberdiev & Habernal (LREC 2022, §4) or their released code, depending on the view.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tqdm import tqdm

from private_graphs.core.errors import UserError
from private_graphs.datasets.arrays import (
    UndirectedEdges,
    keyed_order,
    masks_by_order,
    require,
    undirected_edges,
)
from private_graphs.datasets.pokec_blocks import FieldBlock, Progress, line_blocks, whole_numbers
from private_graphs.datasets.pokec_format import (
    CLASS_OF,
    CLASSES,
    COMPLETION,
    FIRST_TEXT,
    LABEL,
    LABEL_COLUMN,
    LAST_TEXT,
    N_COLUMNS,
    TEXT_COLUMNS,
    USER,
    clean_text,
)
from private_graphs.datasets.text_graph import TextGraph, TextGraphInfo
from private_graphs.datasets.views import DataView

PER_CLASS = 10_000
MASK_KEY = b"private-graphs pokec masks 1"
"""Public constant; the masks depend on it and on the ids of the selected users alone."""
MAX_MALFORMED = 0.01
"""Largest accepted share of malformed rows in a file."""
N_LINES_NAMED = 5
PROFILES, TEXTS, FRIENDSHIPS = "profiles", "texts", "friendships"
"""Names of the three passes in calls of ``progress``."""

_log = logging.getLogger(__name__)


@dataclass
class _Rows:
    """Number of rows read from a file, and which of them are malformed."""

    path: Path
    expected: str
    limit: float
    seen: int = 0
    malformed: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, wrong: np.ndarray, first_line: int) -> None:
        """Count the rows of a block; ``wrong`` is a mask, ``first_line`` counts from 1."""
        self.seen += len(wrong)
        indices = np.flatnonzero(wrong)
        self.malformed += len(indices)
        self.lines += (indices[: N_LINES_NAMED - len(self.lines)] + first_line).tolist()

    def finish(self) -> None:
        """Warn about malformed rows; UserError where they are too many."""
        if not self.malformed:
            return
        message = (
            f"{self.path}: {self.malformed} of {self.seen} rows are not {self.expected}, the "
            f"first in line{'s' if len(self.lines) > 1 else ''} {', '.join(map(str, self.lines))}"
        )
        if self.malformed > self.limit * self.seen:
            raise UserError(
                f"{message}; expected at most {self.limit:.0%}: this is not the published file, "
                "supply that"
            )
        _log.warning("%s; they are skipped", message)


@dataclass(frozen=True, eq=False)
class _Profiles:
    """Values of every well-formed row that the selection needs; all arrays (rows,)."""

    user: np.ndarray
    completion: np.ndarray
    non_null: np.ndarray
    label: np.ndarray
    """Class derived from ``pets``, -1 for none."""
    line: np.ndarray
    """Line number, from 0."""


def _scan_block(block: FieldBlock) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the mask of well-formed lines and, for those, user, completion, non-null and label."""
    import pyarrow.compute as pc

    right, width = block.n_fields == N_COLUMNS + 1, N_COLUMNS + 1
    fields = block.fields(right)
    user, completion, label, last = (
        fields.take(np.arange(column, len(fields), width))
        for column in (USER, COMPLETION, LABEL, N_COLUMNS)
    )
    # A non-empty last field results from a tab in a text, or from a missing column.
    valid = pc.is_in(last, pa.array([b"", b"\r"])).to_numpy(False)
    numbers = []
    for column in (user, completion):
        values, known = whole_numbers(column)
        valid &= known
        numbers.append(values)
    missing = pc.is_in(fields, pa.array([b"", b"null"])).to_numpy(False).reshape(-1, width)
    labels = [CLASS_OF.get(answer.decode("utf-8", "replace").strip(), -1)
              for answer in label.to_pylist()]  # fmt: skip
    right[right] = valid
    non_null = N_COLUMNS - missing[:, :N_COLUMNS].sum(axis=1)
    columns = (*numbers, non_null, np.array(labels, np.int8))
    return right, [column[valid] for column in columns]


def _scan(path: Path, header: bool, limit: float, progress: Progress) -> tuple[_Profiles, _Rows]:
    """Read ids, ranks and classes of all profiles; ``header``: skip the first row."""
    rows = _Rows(
        path, f"{N_COLUMNS} columns and a last tab with a numeric id and completion", limit
    )
    parts: list[list[np.ndarray]] = []
    first = 0
    for data in line_blocks(path, PROFILES, progress):
        block = FieldBlock(data)
        right, values = _scan_block(block)
        lines = np.flatnonzero(right) + first
        skipped = int(header and first == 0)
        taken = lines >= skipped if first == 0 else slice(None)
        parts.append([column[taken] for column in (*values, lines)])
        rows.add(~right[skipped:], first + skipped + 1)
        first += len(block.lines)
    rows.finish()
    if not parts:
        raise UserError(f"{path}: the file is empty, expected profiles; supply the published file")
    return _Profiles(*(np.concatenate(blocks) for blocks in zip(*parts, strict=True))), rows


def _select(
    profiles: _Profiles, view: DataView, per_class: int, path: Path
) -> tuple[list[np.ndarray], dict[str, int]]:
    """Return, per class, the rows of its most complete users in order of rank; and counts."""
    users, first, times = np.unique(profiles.user, return_index=True, return_counts=True)
    claims = [profiles.user[profiles.label == label] for label in range(len(CLASSES))]
    overlap = np.intersect1d(*claims)
    label = np.where(np.isin(users, overlap), -1, profiles.label[first])
    ranking = (
        profiles.non_null if view.profile_ranking == "non_null_columns" else profiles.completion
    )
    counts = {"duplicate_users": int(np.sum(times > 1)), "users_with_both": len(overlap)}
    chosen = []
    for code, name in enumerate(CLASSES):
        candidates = first[label == code]  # by ascending user id, which breaks ties
        counts[f"candidates_{name}"] = len(candidates)
        order = np.argsort(-ranking[candidates], kind="stable")
        chosen.append(candidates[order[:per_class]])
    if min(len(rows) for rows in chosen) < per_class:
        sizes = ", ".join(f"{counts[f'candidates_{name}']} {name}s" for name in CLASSES)
        raise UserError(
            f"{path}: found {sizes} by the column {LABEL_COLUMN!r}, expected at least {per_class} "
            "of each; supply the complete file or select fewer per class"
        )
    return chosen, counts


def _read_texts(
    path: Path, lines: np.ndarray, view: DataView, progress: Progress
) -> tuple[pa.Table, int]:
    """Return the texts of the profiles in ``lines`` (N,), in order, and the number of invalid rows.

    A row that is not UTF-8 is read with replacement characters and counted.
    """
    order = np.argsort(lines)
    targets, first = lines[order], 0
    rows: list[bytes] = []
    for data in line_blocks(path, TEXTS, progress):
        block = FieldBlock(data)
        here = targets[np.searchsorted(targets, first) :]
        here = here[: np.searchsorted(here, first + len(block.lines))]
        rows += block.lines.take(here - first).to_pylist()
        first += len(block.lines)
    invalid = 0
    known: dict[str, str | None] = {}  # many answers repeat
    columns: list[list[str | None]] = [[None] * len(lines) for _ in TEXT_COLUMNS]
    for node, row in zip(order.tolist(), rows, strict=True):
        try:
            text = row.decode("utf-8")
        except UnicodeDecodeError:
            text = row.decode("utf-8", "replace")
            invalid += 1
        cells = text.split("\t")[FIRST_TEXT : LAST_TEXT + 1]
        for column, cell in zip(columns, cells, strict=True):
            if cell not in known:
                known[cell] = clean_text(cell)
            column[node] = known[cell]
    arrays = {
        name: pa.array(column, pa.string())
        for name, column in zip(TEXT_COLUMNS, columns, strict=True)
        if view.label_column == "kept" or name != LABEL_COLUMN
    }
    return pa.table(arrays), invalid


def _read_friendships(
    path: Path, users: np.ndarray, limit: float, progress: Progress
) -> tuple[np.ndarray, _Rows]:
    """Return the friendships among ``users`` (N,) as (2, rows) positions in it."""
    rows = _Rows(path, "two user ids and a tab between them", limit)
    order = np.argsort(users)
    ids = users[order]
    parts = [np.empty((2, 0), dtype=np.int64)]
    for data in line_blocks(path, FRIENDSHIPS, progress):
        block = FieldBlock(data)
        right = block.n_fields == 2
        values, valid = whole_numbers(block.fields(right))
        valid = valid.reshape(-1, 2).all(axis=1)
        right[right] = valid
        rows.add(~right, rows.seen + 1)
        pairs = values.reshape(-1, 2)[valid]
        for end in (0, 1):
            position = np.searchsorted(ids, pairs[:, end])
            inside = ids[np.minimum(position, len(ids) - 1)] == pairs[:, end]
            pairs = pairs[inside]
        parts.append(order[np.searchsorted(ids, pairs)].T)
    rows.finish()
    return np.concatenate(parts, axis=1), rows


def renumbered_in_place(users: np.ndarray) -> np.ndarray:
    """Return the final node (N,) of each user when edge ends are renumbered in place.

    The released builder goes through the users in node order and replaces every edge end equal to
    the old id ``users[k]`` by ``k``. Where the old id of a later user k' equals k, the ends that
    were just written are replaced again, by k', and so on (docs/privacy.md §4.6). ``users`` is (N,)
    distinct ids in node order; user k ends at the last node of its chain.
    """
    nodes = np.arange(len(users))
    order = np.argsort(users)
    position = np.minimum(np.searchsorted(users[order], nodes), len(users) - 1)
    later = order[position]
    final = np.where((users[later] == nodes) & (later > nodes), later, nodes)
    while not np.array_equal(longer := final[final], final):
        final = longer
    return final


def keyed_user_masks(users: np.ndarray) -> dict[str, np.ndarray]:
    """Return train, validation and test masks (N,) bool of 80/10/10 by a keyed order of user ids.

    Users are ordered by BLAKE2b(id) under :data:`MASK_KEY`: the first floor(N/10) validate, the
    next floor(N/10) test, the others train. Labels, texts and edges have no influence.
    """
    tenth = len(users) // 10
    return masks_by_order(keyed_order(users, MASK_KEY), tenth, tenth)


def _graph_edges(
    ends: np.ndarray, users: np.ndarray, view: DataView
) -> tuple[UndirectedEdges, dict[str, int]]:
    """Return the undirected edges of the raw rows ``ends`` (2, rows), and counts."""
    counts = {"edges_inside": ends.shape[1]}
    if view.profile_reading == "as_released":
        final = renumbered_in_place(users)
        moved = final != np.arange(len(users))
        counts["edges_renumbered_twice"] = int(np.sum(moved[ends].any(axis=0)))
        ends = final[ends]
    return undirected_edges(ends[0], ends[1], len(users)), counts


@contextlib.contextmanager
def _metered(progress: Progress | None, passes: dict[str, int]) -> Iterator[Progress]:
    """Yield ``progress``, or by default a bar on standard error over the bytes of all passes."""
    if progress is not None:
        yield progress
        return
    before = dict(zip(passes, np.cumsum([0, *passes.values()]).tolist(), strict=False))
    total = sum(passes.values())
    with tqdm(total=total, unit="B", unit_scale=True, desc="Pokec") as bar:

        def show(stage: str, done: int, _total: int) -> None:
            bar.set_postfix_str(stage, refresh=False)
            bar.update(before[stage] + done - bar.n)

        yield show


def _sentences(view: DataView, per_class: int) -> list[str]:
    """Return sentences for the privacy statement: decisions that used private data."""
    ranking = (
        "number of columns filled in"
        if view.profile_ranking == "non_null_columns"
        else "completion percentage"
    )
    sentences = [
        f"the nodes are the {per_class} users of each class with the largest {ranking} among all "
        "candidates, so which users are nodes depends on private profiles; this choice is outside "
        "every guarantee, because neighbours are defined after dataset construction",
        "masks: 80/10/10 by a keyed permutation of these users' ids (public key); their texts, "
        "labels and edges have no part in it",
    ]
    if view.label_column == "kept":
        sentences.append(f"the texts include the column {LABEL_COLUMN!r}, which is the label")
    if view.profile_reading == "as_released":
        sentences.append(
            "the first profile is lost as a header and some edges are wrong, because edge ends "
            "were renumbered in place, as in the released code"
        )
    return sentences


def read_pokec(
    profiles: Path,
    relationships: Path,
    view: DataView,
    *,
    name: str,
    per_class: int = PER_CLASS,
    max_malformed: float = MAX_MALFORMED,
    progress: Progress | None = None,
    **fields: Any,
) -> TextGraph:
    """Read profiles and friendships (plain or gzip) into a text graph of 2 ``per_class`` nodes.

    Nodes are the ``per_class`` most complete users of each class, ties broken by the smaller user
    id. Under ``exact`` they are numbered by ascending user id, under ``as_released`` cats come
    first and dogs second, each by rank. Malformed rows, users in several rows (the first counts;
    one that claims both classes is dropped), rows that are not UTF-8, and edges are counted in
    ``info.counts``. The profiles are read twice, in blocks.

    Args:
        max_malformed: largest share of malformed rows in either file.
        progress: callback as described at :data:`Progress`; by default a bar on standard error.
        name, fields: fields of ``info`` that do not follow from the files: title, synthetic,
            sources, licence, citation, public_facts.

    Raises:
        UserError: a file is missing, damaged or not the published one; too few candidates.
    """
    profiles, relationships = Path(profiles), Path(relationships)
    for path in (profiles, relationships):
        require(path.is_file(), path, "no file", "one", "supply the raw files first")
    header = view.profile_reading == "as_released"
    size = profiles.stat().st_size
    passes = {PROFILES: size, TEXTS: size, FRIENDSHIPS: relationships.stat().st_size}
    with _metered(progress, passes) as meter:
        scanned, rows = _scan(profiles, header, max_malformed, meter)
        chosen, counts = _select(scanned, view, per_class, profiles)
        order = np.concatenate(chosen)
        if view.profile_reading == "exact":
            order = order[np.argsort(scanned.user[order])]
        users, labels = scanned.user[order], scanned.label[order].astype(np.int64)
        texts, invalid = _read_texts(profiles, scanned.line[order], view, meter)
        require(invalid <= max_malformed * len(order), profiles, f"{invalid:,} of {len(order):,} "
                f"chosen rows that are not UTF-8", f"at most {max_malformed:.1%}, as their "
                "characters would be lost", "supply the published file, or convert this one to "
                "UTF-8")  # fmt: skip
        ends, edge_rows = _read_friendships(relationships, users, max_malformed, meter)
    edges, edge_counts = _graph_edges(ends, users, view)
    info = TextGraphInfo(
        name=name,
        view=view.name,
        classes=list(CLASSES),
        **edges.entry_counts,
        counts={
            "rows": rows.seen + header,
            "rows_taken_as_header": int(header),
            "malformed_rows": rows.malformed,
            "invalid_utf8_rows": invalid,
            **counts,
            "edge_rows": edge_rows.seen,
            "malformed_edge_rows": edge_rows.malformed,
            **edge_counts,
        },
        preprocessing=_sentences(view, per_class),
        **fields,
    )
    arrays = keyed_user_masks(users) | {"labels": labels, "edge_index": edges.edge_index}
    return TextGraph(texts=texts, info=info, **arrays)
