"""Reading Pokec: the fast reader against a slow one, malformed rows, and every error."""

from __future__ import annotations

import gzip
import logging
import time
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pokec_reference import assert_equal, read, renumber

from private_graphs.core.errors import UserError
from private_graphs.datasets import pokec_blocks
from private_graphs.datasets.pokec import keyed_user_masks, read_pokec, renumbered_in_place
from private_graphs.datasets.pokec_format import COLUMNS, TEXT_COLUMNS, clean_text
from private_graphs.datasets.views import PAPER, SOUND, SOUND_WITH_LABEL, VIEWS

CELLS = {
    "null": None, "": None, "pivo": "pivo", ' "a < b :) ': '"a < b :)',
    "<div> <a title='x' href=\"/klub/y\">pro&shy;fi</a> &bull;  <a>z</a></div>": "profi • z",
    "a\rb": "a b", "r&amp;b": "r&b", "<br>": None,
}  # fmt: skip
ANSWERS = [
    "macka", " mam macku", "kocur", "pes", "mam psa ", "mam psov", "null", "pes, macka", "Pes",
]  # fmt: skip


def written(folder, rows, edges):
    """Write a dump of raw lines and return its two paths."""
    folder.mkdir(exist_ok=True)
    paths = folder / "profiles.txt", folder / "relationships.txt"
    for path, lines in zip(paths, (rows, edges), strict=True):
        path.write_bytes(b"".join(line + b"\n" for line in lines))
    return paths


def row(user, pets="null", completion=50, **cells):
    """A raw profile, everything else null."""
    cells = {"user_id": user, "completion_percentage": completion, "pets": pets, **cells}
    return "\t".join([*(str(cells.get(name, "null")) for name in COLUMNS), ""]).encode()


def parse(paths, view, per_class=1, **options):
    options = {"max_malformed": 1.0, "progress": lambda *_: None, **options}
    return read_pokec(
        *paths, view, name="pokec_tiny", per_class=per_class, title="Tiny", synthetic=True,
        sources=[], licence="none", citation="none", public_facts=["the masks"], **options,
    )  # fmt: skip


@st.composite
def profile_rows(draw):
    """Profiles with few ids, so that some repeat; every kind of malformed row."""
    cells = st.sampled_from(sorted(CELLS))
    fields = ["null"] * 59
    for column in draw(st.lists(st.integers(9, 58), max_size=6)):
        fields[column] = draw(cells)
    fields[0], fields[2] = str(draw(st.integers(0, 14))), str(draw(st.integers(0, 3)))
    fields[13] = draw(st.sampled_from(ANSWERS))
    line = "\t".join([*fields, ""]).encode()
    kinds = ["right"] * 8 + ["few", "tab", "tab and few", "id", "percent", "empty", "bytes", "crlf"]
    kind = draw(st.sampled_from(kinds))
    return {
        "few": line[: line.rfind(b"\t")], "tab": line.replace(b"null", b"nu\tll", 1),
        "tab and few": line.replace(b"null", b"nu\tll", 1)[:-1], "id": b"x" + line,
        "percent": line.replace(b"\t", b"\t-", 2), "empty": b"",
        "bytes": line.replace(b"null", b"\xff\xe1", 1), "crlf": line + b"\r",
    }.get(kind, line)  # fmt: skip


edge_rows = st.one_of(
    st.tuples(st.integers(0, 14), st.integers(0, 14)).map(lambda e: f"{e[0]}\t{e[1]}".encode()),
    st.sampled_from([b"", b"1", b"a\t1", b"1\t2\t3", b"1\t\t2", b"1\t2\r", b"4\t-1", b"9" * 19]),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(profile_rows(), min_size=1, max_size=24),
    edges=st.lists(edge_rows, max_size=40),
    view=st.sampled_from(sorted(VIEWS)),
    block=st.sampled_from([1, 7, 300, 1 << 20]),
    last_newline=st.booleans(),
)
def test_tiny_dumps_are_read_as_by_the_slow_reader(
    tmp_path, rows, edges, view, block, last_newline
):
    paths = written(tmp_path, rows, edges)
    if not last_newline:
        paths[0].write_bytes(paths[0].read_bytes().removesuffix(b"\n"))
    expected = read(*paths, VIEWS[view], 1, clean=lambda cell: CELLS.get(cell, cell.strip()))
    with mock.patch.object(pokec_blocks, "BLOCK_BYTES", block):
        if expected is None:
            with pytest.raises(UserError):
                parse(paths, VIEWS[view])
        else:
            assert_equal(parse(paths, VIEWS[view]), expected)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=14, unique=True))
def test_ids_renumbered_in_place_follow_their_chain(users):
    final = renumbered_in_place(np.array(users))
    assert final.tolist() == [pair[0] for pair in renumber(users, [(user, user) for user in users])]


@pytest.mark.parametrize(
    "unit",
    [
        "<!--",
        "-->",
        "<!-- --",
        "<a ",
        '<a "',
        "<a \"'",
        "<a '\"'",
        "<a '' \"",
        "<",
        "</",
        "&#",
        "&a",
    ],
)
def test_a_cell_of_broken_markup_takes_linear_time(unit):
    cell = unit * (1_000_000 // len(unit))
    for each in (cell, f"--> {cell}"):
        start = time.process_time()
        assert clean_text(each) is not None
        # processor time: .1 s where it is linear, minutes where it is quadratic
        assert time.process_time() - start < 10


def test_the_label_column_is_dropped_and_said(tmp_path):
    paths = written(tmp_path, [row(1, "pes"), row(2, "macka")], [b"1\t2", b"2\t1"])
    kept, dropped = parse(paths, PAPER), parse(paths, SOUND)
    assert kept.texts.column_names == list(TEXT_COLUMNS) and len(TEXT_COLUMNS) == 49
    assert dropped.texts.column_names == [name for name in TEXT_COLUMNS if name != "pets"]
    assert parse(paths, SOUND_WITH_LABEL).texts.equals(kept.texts)
    assert kept.labels.tolist() == dropped.labels.tolist() == [1, 0]
    assert any("'pets', which is the label" in each for each in kept.info.preprocessing)
    assert not any("pets" in each for each in dropped.info.preprocessing)
    for graph in (kept, dropped):
        assert "outside every guarantee" in graph.info.preprocessing[0]
        assert graph.info.classes == ["cat", "dog"] and graph.info.public_facts == ["the masks"]


def test_a_user_in_two_rows(tmp_path):
    rows = [
        row(1, "pes"), row(1, "macka", 99), row(2, "null"), row(2, "pes", 99),
        row(3, "macka", 1), row(4, "pes", 2), row(4, "mam psa", 90),
    ]  # fmt: skip
    graph = parse(written(tmp_path, rows, []), PAPER)
    assert graph.column("pets") == ["macka", "pes"]
    found = {key: graph.info.counts[key] for key in ("duplicate_users", "users_with_both")}
    assert found == {"duplicate_users": 3, "users_with_both": 1}


def test_masks_are_keyed_by_user_alone():
    users = np.arange(5, 105) * 7
    train, validation, test = keyed_user_masks(users).values()
    assert (train.sum(), validation.sum(), test.sum()) == (80, 10, 10)
    assert np.all(train.astype(int) + validation + test == 1)
    shuffled = np.random.default_rng(0).permutation(len(users))
    for mask, again in zip(
        (train, validation, test), keyed_user_masks(users[shuffled]).values(), strict=True
    ):
        assert np.array_equal(mask[shuffled], again)
    # Pinned: another order would be another benchmark.
    assert np.flatnonzero(validation).tolist() == PINNED_VALIDATION


PINNED_VALIDATION = [3, 19, 37, 39, 60, 82, 85, 86, 89, 99]


def test_malformed_rows_are_counted_and_their_lines_named(tmp_path, caplog):
    rows = [row(1, "pes"), b"1\t2", row(2, "macka"), b"", row(3).replace(b"null", b"a\tb", 1)]
    paths = written(tmp_path, rows, [b"1\t2", b"# comment", b"2\t1"])
    with caplog.at_level(logging.WARNING):
        graph = parse(paths, PAPER)
    assert (graph.info.counts["rows"], graph.info.counts["malformed_rows"]) == (5, 3)
    assert (graph.info.counts["edge_rows"], graph.info.counts["malformed_edge_rows"]) == (3, 1)
    assert "3 of 5 rows are not 59 columns" in caplog.text and "lines 2, 4, 5" in caplog.text
    assert "1 of 3 rows are not two user ids" in caplog.text and "line 2;" in caplog.text


def test_invalid_utf8_is_replaced_and_counted_where_it_is_kept(tmp_path):
    broken = row(1, "pes", 90, hobbies="@").replace(b"@", b"pivo \xe1\xff")
    lost = row(3, "pes", 1).replace(b"null", b"\xff", 1)
    graph = parse(written(tmp_path, [broken, row(2, "macka"), lost], []), PAPER)
    assert graph.info.counts["invalid_utf8_rows"] == 1
    assert graph.column("hobbies")[0].startswith("pivo \ufffd")


def test_gzip_and_plain_text_are_the_same(tmp_path):
    rows = [row(k, ["pes", "macka"][k % 2], k, fun=f"slovo{k}") for k in range(40)]
    paths = written(tmp_path, rows, [f"{k}\t{k * 7 % 40}".encode() for k in range(40)])
    plain = parse(paths, PAPER, per_class=5)
    for path in paths:
        whole = path.read_bytes()
        # Two members, as concatenated downloads have them.
        path.write_bytes(gzip.compress(whole[:900]) + gzip.compress(whole[900:]))
    packed = parse(paths, PAPER, per_class=5)
    assert packed.texts.equals(plain.texts)
    assert np.array_equal(packed.edge_index, plain.edge_index)
