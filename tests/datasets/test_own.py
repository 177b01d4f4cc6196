"""A user's own graph: what is read, and the message of everything that cannot be."""

from __future__ import annotations

import csv
import io
import re

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from private_graphs.core.errors import UsageError, UserError
from private_graphs.datasets import own
from private_graphs.datasets.own import MASKS, OwnGraph, declare, read_own, remember
from private_graphs.datasets.own_warnings import warnings_about
from private_graphs.datasets.registry import dataset_spec
from private_graphs.datasets.spelling import looks
from private_graphs.datasets.text_graph import TextGraph
from private_graphs.datasets.views import SOUND

HEADER = ["id", "title", "body", "topic", "split"]
ROWS = [
    ["a", "First", "one", "x", "train"],
    ["b", "Second", "two", "y", "train"],
    ["c", "Third", "three", "x", "validation"],
    ["d", "Fourth", "four", "y", "test"],
]
EDGES = [["a", "b"], ["c", "a"], ["d", "b"]]


def as_csv(rows, header=HEADER) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([header, *rows])
    return stream.getvalue()


@pytest.fixture
def graph(tmp_path):
    """Write two tables (rows, text or bytes) and return their declaration."""

    def write(nodes=ROWS, edges=EDGES, **changes) -> OwnGraph:
        tables = {"nodes": (nodes, HEADER), "edges": (edges, ["source", "target"])}
        for name, (content, header) in tables.items():
            if isinstance(content, list):
                content = as_csv(content, header)
            if isinstance(content, str):
                content = content.encode()
            (tmp_path / f"{name}.csv").write_bytes(content)
        paths = {name: tmp_path / f"{name}.csv" for name in tables}
        columns = {"text": ("title", "body"), "label": "topic", "split": "split"}
        return OwnGraph(**{"name": "mine", **paths, **columns, **changes})

    return write


def changed(row: int, column: str, value: str) -> list[list[str]]:
    rows = [list(each) for each in ROWS]
    rows[row][HEADER.index(column)] = value
    return rows


def refused(spec: OwnGraph, *words: str) -> None:
    with pytest.raises(UserError) as error:
        read_own(spec, SOUND)
    for word in words:
        assert word in str(error.value), str(error.value)


def same(first: TextGraph, second: TextGraph) -> None:
    assert first.texts.equals(second.texts)
    for key in ("edge_index", "labels", "train_mask", "validation_mask", "test_mask"):
        np.testing.assert_array_equal(getattr(first, key), getattr(second, key))
    assert first.info.classes == second.info.classes


def test_two_small_tables_are_read_as_a_hand_checked_graph(graph, tmp_path):
    found = read_own(graph(), SOUND)
    assert found.texts.column_names == ["title", "body"]
    assert found.column("body") == ["one", "two", "three", "four"]
    assert found.edge_index.tolist() == [[0, 0, 1], [1, 2, 3]]
    assert found.info.classes == ["x", "y"] and found.labels.tolist() == [0, 1, 0, 1]
    assert found.train_mask.tolist() == [True, True, False, False]
    assert found.validation_mask.tolist() == [False, False, True, False]
    assert found.test_mask.tolist() == [False, False, False, True]
    assert [each.file for each in found.info.sources] == [
        (tmp_path / name).as_posix() for name in ("nodes.csv", "edges.csv")
    ]
    assert found.info.sources == own.source_records(graph())
    assert (found.info.view, found.info.synthetic, found.info.units) == ("sound", False, "node")
    found.save(tmp_path / "saved")
    same(found, TextGraph.load(tmp_path / "saved"))


def test_loops_and_repeated_edges_are_dropped_and_counted(graph):
    spec = graph(edges=[*EDGES, ["a", "a"], ["a", "b"], ["b", "a"], ["a", "b"]])
    found = read_own(spec, SOUND)
    assert found.edge_index.tolist() == [[0, 0, 1], [1, 2, 3]]
    info = found.info
    assert (info.loops_dropped, info.duplicates_dropped, info.one_way_edges) == (1, 2, 2)
    assert info.counts["edge_rows"] == 7 == 1 + 2 + 2 * 3 - 2
    plain = read_own(graph(edges=EDGES), SOUND).info
    assert info.preprocessing == plain.preprocessing, "statements tell no number of edges"


def test_csv_and_parquet_read_the_same(graph, tmp_path):
    spec = graph()
    for name in ("nodes", "edges"):
        table = pyarrow.csv.read_csv(tmp_path / f"{name}.csv")
        pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet")
    parquet = {name: tmp_path / f"{name}.parquet" for name in ("nodes", "edges")}
    same(read_own(spec, SOUND), read_own(spec.model_copy(update=parquet), SOUND))


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_a_byte_order_mark_and_the_kind_of_line_ends_change_nothing(graph, bom, ending):
    expected = read_own(graph(), SOUND)
    nodes = bom + as_csv(ROWS).replace("\n", ending).encode()
    edges = bom + as_csv(EDGES, ["source", "target"]).replace("\n", ending).encode()
    same(expected, read_own(graph(nodes, edges), SOUND))
    wrong = bom + as_csv(changed(2, "split", "dev")).replace("\n", ending).encode()
    refused(graph(wrong), "line 4: ")


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (changed(2, "id", "a"), ("lines 2 and 4: ", "'a'")),
        ([*ROWS, ROWS[1], ROWS[0]], ("lines 3 and 6: ", "'b'", "2 repeated ids in all")),
        (changed(2, "id", ""), ("line 4: ", "no id", "remove empty lines")),
        (changed(1, "topic", ""), ("line 3: ", "training node without a label", "'topic'")),
        (changed(2, "topic", ""), ("no node with a label for validation",)),
        (changed(2, "split", "train"), ("no node for validation", "write validation in")),
        ([[*row[:3], "x", row[4]] for row in ROWS], ("one class only", "'x'")),
        (changed(1, "split", "dev"), ("line 3: ", "'dev'", "train, validation or test")),
        ([["b", " ", "", "x", "train"], *ROWS[:1], *ROWS[2:]], ("line 2: ", "empty text")),
        ([*ROWS, ["e", "", "", "x", "test"]] + [[f"f{n}", "", "", "x", "test"] for n in range(4)],
         ("lines 6, 7 and 8: ", "5 in all")),
        (ROWS[:2], ("2 nodes, expected at least 3",)),
        ([*ROWS, ["e", "t", "b", "x", "train", "more"]], ("line 6: ", "6 fields", "the 5 of")),
        (as_csv(ROWS) + 'e,t,b,x,"train\n', ("line 6: ", "never closed")),
        (as_csv(ROWS) + 'e,"t\nf,t,b,x,train\ng,"t,b,x,train\n', ("line 6: ", "text follows")),
        ("", ("is empty",)),
        (as_csv([]), ("no row",)),
        (as_csv(ROWS).replace("topic", "Topic"), ("no column 'topic' (label)", "mean 'Topic'")),
        ("sep=,\n" + as_csv(ROWS), ("line 1: 'sep=,'", "remove that line")),
        (as_csv(ROWS).encode("utf-16-le"), ("bytes of 0, as UTF-16", "expected CSV in UTF-8")),
        (b"ARROW1\0\0" + bytes(64), ("is no text", "save it as CSV UTF-8")),
        ('[{"id": "a"}]', ("is JSON, expected CSV, Parquet or JSON lines",)),
        (as_csv(ROWS).replace("body", "title"), ("2 columns are called 'title'",)),
        (as_csv(ROWS).replace(",", "|"), ("no column 'id'", "expected commas, semicolons")),
        (as_csv(ROWS).replace("two", "zwölf").encode("latin-1"), ("line 3: ", "0xf6", "UTF-8")),
        (b"\x1f\x8b\x08 compressed", ("compressed", "unpack")),
        (b"PAR1 but no more", ("cannot be read as Parquet",)),
    ],
)  # fmt: skip
def test_every_mistake_in_the_nodes_names_the_file_and_the_line(graph, nodes, words):
    refused(graph(nodes), "nodes.csv: ", *words)


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([["a", "z"]], ("line 2: ", "'z' is the id of no node ('target')", "nodes.csv")),
        ([*EDGES, *[["q", "a"]] * 5], ("lines 5, 6 and 7: ", "5 in all", "'source'")),
        (as_csv(EDGES, ["from", "target"]), ("no column 'source'", "'from'", "with --source and")),
        ([["A", "b"]], ("line 2: 'A' is the id of no node", "did you mean 'a'?")),
        (as_csv(EDGES, ["source", "target"]) + "a,b,0.5\n", ("line 5: ", "3 fields")),
        ("", ("is empty",)),
    ],
)
def test_every_mistake_in_the_edges_names_the_file_and_the_line(graph, edges, words):
    refused(graph(edges=edges), "edges.csv: ", *words)


any_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@settings(max_examples=60)
@given(data=st.data(), ending=st.sampled_from(["\n", "\r\n"]))
def test_any_text_is_read_as_written_and_any_row_is_found_by_its_line(
    tmp_path_factory, data, ending
):
    n_rows = data.draw(st.integers(4, 8))
    rows = [
        [str(n), data.draw(any_text), data.draw(any_text) + "x", "ab"[n % 2], MASKS[n % 3]]
        for n in range(n_rows)
    ]
    folder = tmp_path_factory.getbasetemp()
    paths = {"nodes": folder / "any-n.csv", "edges": folder / "any-e.csv"}
    paths["edges"].write_text("source,target\n0,1\n")
    spec = OwnGraph(name="any", text=("title", "body"), label="topic", split="split", **paths)

    def write() -> list[int]:
        """Write the rows; return the line where each starts, counted as an editor counts."""
        stream = io.StringIO(newline="")
        lines: list[int] = []
        # Where only some fields are quoted, Python's writer leaves out those with a lone \r.
        writer = csv.writer(stream, lineterminator=ending, quoting=csv.QUOTE_ALL)
        for row in [HEADER, *rows]:
            lines.append(len(re.findall("\r\n|\r|\n", stream.getvalue())) + 1)
            writer.writerow(row)
        paths["nodes"].write_text(stream.getvalue(), encoding="utf-8", newline="")
        return lines[1:]

    write()
    found = read_own(spec, SOUND)
    assert found.column("title") == [row[1] for row in rows]
    assert found.column("body") == [row[2] for row in rows]
    wrong = data.draw(st.integers(0, n_rows - 1))
    rows[wrong][4] = "neither"
    lines = write()
    refused(spec, f"any-n.csv: line {lines[wrong]}: 'split' is 'neither'")


def test_unlabelled_nodes_outside_the_training_nodes_are_kept(graph):
    rows = [*ROWS, ["e", "Fifth", "five", "", "Test"], ["f", "Sixth", "six", " ", "valid"]]
    found = read_own(graph(rows), SOUND)
    assert found.labels.tolist() == [0, 1, 0, 1, -1, -1]
    assert found.info.counts["nodes_without_label"] == 2
    assert found.test_mask.tolist()[4:] == [True, False]
    assert found.validation_mask.tolist()[4:] == [False, True]


words = st.text(alphabet='abc," \n<é', min_size=1, max_size=6).filter(str.strip)


@settings(max_examples=40)
@given(data=st.data(), seed=st.integers(0, 5))
def test_masks_depend_on_ids_and_seed_alone(tmp_path_factory, data, seed):
    ids = data.draw(st.lists(words.map(str.strip), min_size=4, max_size=25, unique=True))
    masks = []
    folder = tmp_path_factory.getbasetemp()
    for name in ("first", "second"):
        order = data.draw(st.permutations(ids))
        rows = [[each, data.draw(words), "", "xy"[n % 2], ""] for n, each in enumerate(order)]
        ends = st.tuples(st.sampled_from(ids), st.sampled_from(ids))
        edges = data.draw(st.lists(ends, max_size=10))
        (folder / f"{name}-n.csv").write_text(as_csv(rows), encoding="utf-8", newline="")
        table = as_csv(edges, ["source", "target"])
        (folder / f"{name}-e.csv").write_text(table, encoding="utf-8", newline="")
        spec = OwnGraph(
            name=name, nodes=folder / f"{name}-n.csv", edges=folder / f"{name}-e.csv",
            text=("title",), label="topic", seed=seed,
        )  # fmt: skip
        found = read_own(spec, SOUND)
        split = found.validation_mask + 2 * found.test_mask
        assert np.all(found.train_mask == (split == 0))
        masks.append(dict(zip(order, split.tolist(), strict=True)))
    assert masks[0] == masks[1]
    counts = np.bincount(list(masks[0].values()), minlength=3)
    share = max(1, round(len(ids) / 10))
    assert counts.tolist() == [len(ids) - 2 * share, share, share]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "My Graph"}, ("name", "'My Graph'")),
        ({"name": "../up"}, ("name",)),
        ({"text": ("title", "topic")}, ("label column 'topic' is among the text columns",)),
        ({"split": "topic"}, ("'topic' is named twice",)),
        ({"features": "word2vec"}, ("features", "'word2vec'", "bow")),
        ({"min_count": 5, "max_count": 5}, ("max_count is 5",)),
        ({"name": "all"}, ("name", "'all'", "means something else", "try 'all_graph'")),
        ({"name": "1st Böard!"}, ("lower-case letters", "a letter first; try 'st_board'")),
        ({"model": "folder"}, ("'folder'", "bow, which have no model", "fasttext, bert or sbert")),
        ({"lable": "topic"}, ("lable: unknown key", "did you mean 'label'")),
    ],
)
def test_a_declaration_that_does_not_hold_is_wrong_usage(graph, changes, words):
    values = {**graph().model_dump(), **changes}
    with pytest.raises(UsageError) as error:
        declare(values, "datasets: mine")
    for word in ("datasets: mine", *words):
        assert word in str(error.value), str(error.value)
    del values["name"]
    with pytest.raises(UsageError, match="name: missing"):
        declare(values, "here")


@pytest.mark.parametrize("name", ["../mine", "a/b", "nothing\0", "n" * 5000, ""])
def test_no_name_leads_out_of_the_folder_of_declarations(graph, tmp_path, name):
    remember(graph(), tmp_path)
    with pytest.raises(UsageError, match="unknown dataset"):
        dataset_spec(name, tmp_path / "own")


# --- what looks alike, and what is lost -------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("alpha", "alpha\u200b", True), ("alpha", "\ufeffalpha", True),
        ("al\u00adpha", "alpha", True), ("\u202ealpha\u202c", "alpha", True),
        ("caf\u00e9", "cafe\u0301", True), ("ﬁx", "fix", True), ("１", "1", True),
        ("0", "0.0", True), ("00", "0", True), ("+0", "-0", True), ("1e0", "1", True),
        ("Alpha  b", "alpha b ", True), ("STRASSE", "straße", True), ("x\ufe0f", "x", True),
        ("1", "2", False), ("alpha", "beta", False), ("a b", "ab", False), ("cafe", "café", False),
        ("1e400", "2e400", False), ("v1", "v1.0", False),
        ("900000000000207008", "900000000000207009", False), ("1e3", "1000.0", True),
        ("\u845b\U000e0100", "\u845b", True), ("x\U000e0041", "x", True),
        ("\U0001d173x\U0001bca0", "x", True), ("1e99999999999999999999", "1", False),
        ("-1.50", "\u22121.5", True),
    ],
)  # fmt: skip
def test_names_that_look_alike_or_are_one_number_are_found(one, other, alike):
    assert (looks(one) == looks(other)) == alike
    statistics = about([one, other])
    assert any("one class?" in each for each in warnings_about(statistics)) == alike


def about(classes: list[str], **counts: int) -> dict:
    """Statistics of a graph of 90 nodes with these classes, and nothing else to warn of."""
    return {
        "nodes": 90, "nodes_without_features": 0, "classes": len(classes), "counts": counts,
        "classes_missing": {"train": []}, "labelled": {"test": 30},
        "train_class_counts": dict.fromkeys(classes, 15),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["nan", "NaN", "null", "None", "N/A", "<NA>", "?", "-1", "ｎａｎ"])
def test_a_class_that_stands_for_no_label_is_named(name):
    (warning,) = warnings_about(about([name, "beta"]))
    assert "looks like a missing label" in warning and repr(name) in warning
    assert warnings_about(about(["nancy", "beta"])) == []
