"""A slow, plain reader of Pokec dumps, row by row in pure Python: the oracle of the fast one."""

from __future__ import annotations

import gzip
import hashlib
from html.parser import HTMLParser
from pathlib import Path

from private_graphs.datasets.pokec_format import COLUMNS

CATS, DOGS = {"macka", "mam macku", "kocur"}, {"pes", "mam psa", "mam psika", "mam psov"}


class _Text(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.parts = []

    def handle_data(self, data):
        self.parts.append(data)

    def handle_starttag(self, tag, attrs):
        if tag not in ("b", "i", "u", "span"):
            self.parts.append(" ")

    def handle_endtag(self, tag):
        self.handle_starttag(tag, [])


def parsed_html(cell):
    """Text of a cell by the standard library's HTML parser."""
    if cell in ("", "null"):
        return None
    parser = _Text()
    parser.feed(cell)
    parser.close()
    return " ".join("".join(parser.parts).replace("\u00ad", "").split()) or None


def content(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw


def lines(path: Path) -> list[bytes]:
    found = content(path).split(b"\n")
    return found[:-1] if found[-1] == b"" else found


def numeric(field: bytes) -> bool:
    return field.isdigit() and len(field) <= 18


def profile(line: bytes) -> list[bytes] | None:
    """The 59 fields of a row, or None where it is malformed."""
    fields = line.split(b"\t")
    if len(fields) != 60 or fields[59] not in (b"", b"\r"):
        return None
    return fields[:59] if numeric(fields[0]) and numeric(fields[2]) else None


def label(fields: list[bytes]) -> int | None:
    answer = fields[13].decode("utf-8", "replace").strip()
    return 0 if answer in CATS else 1 if answer in DOGS else None


def renumber(users, pairs):
    """Replace old ids by node numbers one user after another, in place, as was released."""
    entries = [list(pair) for pair in pairs]
    for node, user in enumerate(users):
        for pair in entries:
            for end in (0, 1):
                if pair[end] == user:
                    pair[end] = node
    return entries


def edges(path: Path):
    """All well-formed pairs, and the number of malformed rows."""
    pairs, malformed = [], 0
    for line in lines(path):
        fields = line.removesuffix(b"\r").split(b"\t")
        if len(fields) == 2 and all(map(numeric, fields)):
            pairs.append((int(fields[0]), int(fields[1])))
        else:
            malformed += 1
    return pairs, malformed


def masks(users):
    key = b"private-graphs pokec masks 1"

    def place(user):
        return hashlib.blake2b(user.to_bytes(8, "little"), key=key, digest_size=16).digest()

    order, tenth = sorted(users, key=place), len(users) // 10
    validation, test = set(order[:tenth]), set(order[tenth : 2 * tenth])
    return (
        [user not in validation | test for user in users],
        [user in validation for user in users],
        [user in test for user in users],
    )


def read(profiles: Path, relationships: Path, view, per_class: int, clean=parsed_html):
    """Return everything of the text graph as plain Python values; None: too few candidates."""
    rows = lines(profiles)
    released = view.profile_reading == "as_released"
    right = [profile(line) for line in (rows[1:] if released else rows)]
    malformed = sum(fields is None for fields in right)
    right = [fields for fields in right if fields is not None]
    first, claims, times = {}, {}, {}
    for fields in right:
        user = int(fields[0])
        first.setdefault(user, fields)
        claims.setdefault(user, set()).add(label(fields))
        times[user] = times.get(user, 0) + 1
    both = {user for user, said in claims.items() if {0, 1} <= said}

    def rank(user):
        if view.profile_ranking == "completion_percentage":
            return int(first[user][2])
        return sum(cell not in (b"", b"null") for cell in first[user])

    candidates = [
        [user for user in first if user not in both and label(first[user]) == each]
        for each in (0, 1)
    ]
    if min(map(len, candidates)) < per_class:
        return None
    chosen = [
        sorted(users, key=lambda user: (-rank(user), user))[:per_class] for users in candidates
    ]
    users = [*chosen[0], *chosen[1]]
    if not released:
        users = sorted(users)
    pairs, malformed_edges = edges(relationships)
    n_edge_rows = len(pairs) + malformed_edges
    pairs = [pair for pair in pairs if pair[0] in set(users) and pair[1] in set(users)]
    exact = [(users.index(i), users.index(j)) for i, j in pairs]
    ends = [tuple(pair) for pair in renumber(users, pairs)] if released else exact
    straight = [pair for pair in ends if pair[0] != pair[1]]
    undirected = sorted({(min(pair), max(pair)) for pair in straight})
    names = COLUMNS[9:58]
    texts = {
        name: [clean(first[user][9 + k].decode("utf-8", "replace")) for user in users]
        for k, name in enumerate(names)
        if view.label_column == "kept" or name != "pets"
    }
    counts = {
        "rows": len(rows), "rows_taken_as_header": int(released), "malformed_rows": malformed,
        "invalid_utf8_rows": sum(not _valid(first[user]) for user in users),
        "duplicate_users": sum(count > 1 for count in times.values()), "users_with_both": len(both),
        "candidates_cat": len(candidates[0]), "candidates_dog": len(candidates[1]),
        "edge_rows": n_edge_rows, "malformed_edge_rows": malformed_edges,
        "edges_inside": len(pairs),
    }  # fmt: skip
    if released:
        counts["edges_renumbered_twice"] = sum(a != b for a, b in zip(ends, exact, strict=True))
    return {
        "users": users, "labels": [label(first[user]) for user in users], "texts": texts,
        "edges": undirected, "loops": len(ends) - len(straight),
        "duplicates": len(straight) - len(set(straight)),
        "one_way": sum(((i, j) in straight) != ((j, i) in straight) for i, j in undirected),
        "masks": masks(users), "counts": counts,
    }  # fmt: skip


def _valid(fields):
    try:
        b"\t".join(fields).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def assert_equal(graph, expected):
    """Compare a text graph with what :func:`read` returned."""
    assert graph.labels.tolist() == expected["labels"]
    assert graph.edge_index.T.tolist() == [list(pair) for pair in expected["edges"]]
    found = [graph.train_mask, graph.validation_mask, graph.test_mask]
    assert [mask.tolist() for mask in found] == list(expected["masks"])
    assert graph.texts.to_pydict() == expected["texts"]
    assert graph.texts.column_names == list(expected["texts"])
    assert graph.info.counts == expected["counts"]
    info = graph.info
    assert (info.loops_dropped, info.duplicates_dropped, info.one_way_edges) == (
        expected["loops"],
        expected["duplicates"],
        expected["one_way"],
    )
