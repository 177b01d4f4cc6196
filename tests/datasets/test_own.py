"""A user's own graph: what is read, and the message of everything that cannot be."""

from __future__ import annotations

import csv
import io
import re
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from private_graphs.datasets import own
from private_graphs.datasets.own import (
    MASKS,
    OwnGraph,
    declare,
    keyed_split,
    known,
    read_own,
    remember,
)
from private_graphs.datasets.own_warnings import warnings_about
from private_graphs.datasets.registry import dataset_names, dataset_spec
from private_graphs.datasets.spelling import looks
from private_graphs.datasets.text_graph import TextGraph
from private_graphs.datasets.views import PAPER, RELEASED, SOUND
from private_graphs.errors import UsageError, UserError

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


def test_a_file_without_a_header_does_not_put_its_texts_into_the_message(graph):
    rows = [*changed(0, "body", "somebody's private words " * 20), *[["x"] * 5] * 2]
    with pytest.raises(UserError) as error:
        read_own(graph(as_csv(rows[1:], rows[0])), SOUND)
    assert len(str(error.value)) < 400 and str(error.value).count("private words") == 1
    wide = [[f"column {n}" for n in range(500)], ["1"] * 500]
    with pytest.raises(UserError, match="'column 7' and 492 more"):
        read_own(graph(as_csv(wide[1:], wide[0])), SOUND)


def test_every_view_reads_the_same_texts_nodes_and_edges(graph):
    for view in (RELEASED, PAPER):
        same(read_own(graph(), view), read_own(graph(), SOUND))
        assert read_own(graph(), view).info.view == view.name


def test_loops_and_repeated_edges_are_dropped_and_counted(graph):
    spec = graph(edges=[*EDGES, ["a", "a"], ["a", "b"], ["b", "a"], ["a", "b"]])
    found = read_own(spec, SOUND)
    assert found.edge_index.tolist() == [[0, 0, 1], [1, 2, 3]]
    info = found.info
    assert (info.loops_dropped, info.duplicates_dropped, info.one_way_edges) == (1, 2, 2)
    assert info.counts["edge_rows"] == 7 == 1 + 2 + 2 * 3 - 2


def test_csv_and_parquet_read_the_same(graph, tmp_path):
    spec = graph()
    for name in ("nodes", "edges"):
        table = pyarrow.csv.read_csv(tmp_path / f"{name}.csv")
        pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet")
    parquet = {name: tmp_path / f"{name}.parquet" for name in ("nodes", "edges")}
    same(read_own(spec, SOUND), read_own(spec.model_copy(update=parquet), SOUND))


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.uint8(), pa.large_string()])
def test_whole_number_ids_of_parquet_are_those_of_csv(graph, tmp_path, kind):
    spec = graph(nodes=[[str(n), *row[1:]] for n, row in enumerate(ROWS)], edges=[["0", "3"]])
    path = tmp_path / "edges.parquet"
    ends = {"source": pa.array(["0"]).cast(kind), "target": pa.array(["3"]).cast(kind)}
    pyarrow.parquet.write_table(pa.table(ends), path)
    same(read_own(spec, SOUND), read_own(spec.model_copy(update={"edges": path}), SOUND))


def test_categories_and_empty_texts_of_parquet_are_those_of_csv(graph, tmp_path):
    spec = graph(nodes=changed(1, "title", ""))
    table = pa.table(dict(zip(HEADER, zip(*changed(1, "title", ""), strict=True), strict=True)))
    table = table.set_column(3, "topic", table.column("topic").dictionary_encode())
    pyarrow.parquet.write_table(table, tmp_path / "nodes.parquet")
    parquet = spec.model_copy(update={"nodes": tmp_path / "nodes.parquet"})
    same(read_own(spec, SOUND), read_own(parquet, SOUND))
    assert read_own(parquet, SOUND).texts.column("title").null_count == 1


def test_numbers_with_a_point_are_refused_rather_than_guessed(graph, tmp_path):
    path = tmp_path / "edges.parquet"
    pyarrow.parquet.write_table(pa.table({"source": [1.0], "target": [2.0]}), path)
    refused(
        graph().model_copy(update={"edges": path}),
        "edges.parquet",
        "'source'",
        "double",
        "missing values",
    )


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_a_byte_order_mark_and_the_kind_of_line_ends_change_nothing(graph, bom, ending):
    expected = read_own(graph(), SOUND)
    nodes = bom + as_csv(ROWS).replace("\n", ending).encode()
    edges = bom + as_csv(EDGES, ["source", "target"]).replace("\n", ending).encode()
    same(expected, read_own(graph(nodes, edges), SOUND))
    wrong = bom + as_csv(changed(2, "split", "dev")).replace("\n", ending).encode()
    refused(graph(wrong), "line 4: ")


HOSTILE = ['=HYPERLINK("http://x","y")', "NA", "null", "\t tab", "ž\u2028š\x0b"]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_looks_like_code_stays_text_to_the_last_character(graph, text):
    found = read_own(graph(nodes=changed(1, "body", text)), SOUND)
    assert found.column("body") == ["one", text, "three", "four"]


BROKEN_LINES = "several\nlines\nof text"


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
        ("", ("is empty",)),
        (as_csv([]), ("no row",)),
        (as_csv(ROWS).replace("topic", "Topic"), ("no column 'topic' (label)", "mean 'Topic'")),
        ("sep=,\n" + as_csv(ROWS), ("line 1: 'sep=,'", "remove that line")),
        (as_csv(ROWS).encode("utf-16-le"), ("looks like UTF-16", "save it as UTF-8")),
        ('[{"id": "a"}]', ("is JSON, expected CSV or Parquet",)),
        (as_csv(ROWS).replace("body", "title"), ("2 columns are called 'title'",)),
        (as_csv(ROWS).replace(",", ";"), ("no column 'id'", "expected commas")),
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


def test_lines_are_those_of_the_file_where_texts_have_several_and_some_are_blank(graph):
    rows = changed(0, "body", BROKEN_LINES)  # lines 2 to 4
    rows[1][HEADER.index("body")] = "x\r\ny"  # lines 5 and 6
    text = as_csv(rows).replace("\nc,", "\n\n\nc,")  # lines 7 and 8 are blank, c is line 9
    assert read_own(graph(text), SOUND).n_nodes == 4
    refused(graph(text.replace("validation", "dev")), "line 9: ")
    lines = text.replace("validation", "dev").replace("\r\n", "\n").split("\n")
    assert lines[9 - 1].startswith("c,")


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


def test_a_long_text_has_no_limit(graph):
    found = read_own(graph(changed(1, "body", "word, " * 400_000)), SOUND)
    assert len(found.column("body")[1]) == 2_400_000
    rows = changed(1, "body", "word, " * 400_000)
    refused(graph(rows[:2] + [[*rows[2][:4], "dev"]] + rows[3:]), "line 4: ")


def test_mistakes_in_parquet_name_the_row(graph, tmp_path):
    spec = graph()
    path = tmp_path / "nodes.parquet"
    columns = dict(zip(HEADER, zip(*changed(2, "id", "a"), strict=True), strict=True))
    pyarrow.parquet.write_table(pa.table(columns), path)
    refused(spec.model_copy(update={"nodes": path}), "nodes.parquet: rows 1 and 3: ")
    pyarrow.parquet.write_table(pa.table({"id": ["a"]}), path)
    refused(spec.model_copy(update={"nodes": path}), "no column 'topic' (label), found 'id'")


def test_bytes_that_parquet_only_calls_text_are_refused(graph, tmp_path):
    wrong = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xf6"], pa.binary()).buffers())
    path = tmp_path / "edges.parquet"
    pyarrow.parquet.write_table(pa.table({"source": wrong, "target": ["a"]}), path)
    refused(graph().model_copy(update={"edges": path}), "edges.parquet: column 'source'", "UTF-8")


def test_a_file_that_is_not_there_is_named(graph, tmp_path):
    refused(graph().model_copy(update={"nodes": tmp_path / "none.csv"}), "none.csv: cannot be read")
    refused(graph().model_copy(update={"edges": tmp_path}), f"{tmp_path}: cannot be read")
    with pytest.raises(UserError, match="none.csv: cannot be read"):
        own.source_records(graph().model_copy(update={"edges": tmp_path / "none.csv"}))


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


def test_another_seed_draws_other_masks_and_the_same_seed_the_same():
    ids = [f"n{number}" for number in range(1000)]
    drawn = [keyed_split(ids, seed).tolist() for seed in (0, 1, 0)]
    assert drawn[0] == drawn[2] != drawn[1]
    assert np.bincount(drawn[0]).tolist() == [800, 100, 100]


def test_public_facts_and_preprocessing_say_what_was_done_and_count_nothing(graph):
    found = read_own(graph(split=None, seed=7), SOUND).info
    assert any("ids" in each for each in found.public_facts)
    assert any("texts, labels and mutual edges" in each for each in found.public_facts)
    said = " ".join(found.preprocessing)
    assert "80/10/10" in said and "seed 7" in said
    assert "the column 'split'" in " ".join(read_own(graph(), SOUND).info.preprocessing)


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


def test_a_declaration_is_remembered_and_written_only_when_it_changes(graph, tmp_path):
    spec, folder = graph(), tmp_path / "own"
    assert known(folder) == {}
    path = remember(spec, folder)
    assert path == folder / "mine.json" and known(folder) == {"mine": spec}
    written = path.stat().st_mtime_ns
    remember(spec, folder)
    assert path.stat().st_mtime_ns == written
    remember(spec.model_copy(update={"min_count": 4}), folder)
    assert known(folder)["mine"].min_count == 4
    assert [each.name for each in folder.iterdir()] == ["mine.json"]


@pytest.mark.parametrize("content", ["{", "[]", '{"name": "mine"}', "\xff"])
def test_a_broken_declaration_stops_only_who_asks_for_it(graph, tmp_path, capsys, content):
    (tmp_path / "mine.json").write_text(content, encoding="latin-1")
    remember(graph(name="yours"), tmp_path)
    assert dataset_spec("yours", tmp_path).name == "yours"
    assert capsys.readouterr().err == ""
    for _ in range(2):
        assert list(known(tmp_path)) == ["yours"]
        assert dataset_names(tmp_path)[-1] == "yours" and "mine" not in dataset_names(tmp_path)
    warned = capsys.readouterr().err
    assert warned.startswith("warning: ") and warned.count("\n") == 1
    assert f"{tmp_path / 'mine.json'}: cannot be read as the declaration" in warned
    with pytest.raises(UserError, match="mine.json: cannot be read as the declaration"):
        dataset_spec("mine", tmp_path)


@pytest.mark.parametrize("name", ["../mine", "a/b", "nothing\0", "n" * 5000, ""])
def test_no_name_leads_out_of_the_folder_of_declarations(graph, tmp_path, name):
    remember(graph(), tmp_path)
    with pytest.raises(UsageError, match="unknown dataset"):
        dataset_spec(name, tmp_path / "own")


def test_rows_are_counted_once_for_every_state_of_the_tables(graph, tmp_path, monkeypatch):
    remember(graph(), tmp_path)
    assert dataset_spec("mine", tmp_path).size.nodes == len(ROWS) + 1
    opened = []
    genuine = Path.open

    def spy(path, *arguments, **keywords):
        opened.append(path.name)
        return genuine(path, *arguments, **keywords)

    monkeypatch.setattr(Path, "open", spy)
    for _ in range(3):
        dataset_spec("mine", tmp_path)
    assert not {"nodes.csv", "edges.csv"} & set(opened)
    with genuine(tmp_path / "nodes.csv", "a") as stream:
        stream.write("e,Fifth,five,x,train\n")
    assert dataset_spec("mine", tmp_path).size.nodes == len(ROWS) + 2
    assert opened.count("nodes.csv") == 1


def test_the_size_of_a_table_that_cannot_be_counted_is_a_guess_and_no_traceback(graph, tmp_path):
    table = pa.table({"source": ["a", "b"], "target": ["b", "c"]})
    path = tmp_path / "edges.parquet"
    pyarrow.parquet.write_table(table, path)
    spec = graph().model_copy(update={"edges": path})
    remember(spec, tmp_path)
    assert dataset_spec("mine", tmp_path).size.edges == 2
    whole = path.read_bytes()
    for damaged in (whole[:-30], b"PAR1", whole[:40] + b"\0" * len(whole)):
        path.write_bytes(damaged)
        assert dataset_spec("mine", tmp_path).size.edges == 1
    refused(spec, "edges.parquet: cannot be read as Parquet")
    path.write_bytes(b"source,target\na,b\n")  # CSV under a misleading name
    assert dataset_spec("mine", tmp_path).size.edges == 2
    path.unlink()
    assert dataset_spec("mine", tmp_path).size.edges == 1


def test_twenty_thousand_nodes_are_read_in_seconds_as_a_slow_reference_reads_them(graph):
    generator = np.random.default_rng(0)
    n_nodes = 20_000
    rows = [
        [f"user{n}", f"text {n}", 'a "b"\nc' if n % 7 == 0 else "", f"k{n % 5}", ""]
        for n in generator.permutation(n_nodes)
    ]
    ends = generator.integers(0, n_nodes, (200_000, 2)).tolist()
    edges = [[f"user{a}", f"user{b}"] for a, b in ends]
    spec = graph(rows, edges, split=None)
    started = time.monotonic()
    found = read_own(spec, SOUND)
    assert time.monotonic() - started < 6
    position = {row[0]: n for n, row in enumerate(rows)}
    pairs = {tuple(sorted((position[a], position[b]))) for a, b in edges if a != b}
    assert list(zip(*found.edge_index.tolist(), strict=True)) == sorted(pairs)
    assert found.labels.tolist() == [int(row[3][1:]) for row in rows]
    assert found.column("title") == [row[1] for row in rows]


# --- what looks alike, and what is lost -------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("alpha", "alpha\u200b", True),
        ("alpha", "\ufeffalpha", True),
        ("al\u00adpha", "alpha", True),
        ("\u202ealpha\u202c", "alpha", True),
        ("caf\u00e9", "cafe\u0301", True),
        ("ﬁx", "fix", True),
        ("１", "1", True),
        ("0", "0.0", True),
        ("00", "0", True),
        ("+0", "-0", True),
        ("1e0", "1", True),
        ("Alpha  b", "alpha b ", True),
        ("STRASSE", "straße", True),
        ("x\ufe0f", "x", True),
        ("1", "2", False),
        ("alpha", "beta", False),
        ("a b", "ab", False),
        ("cafe", "café", False),
        ("1e400", "2e400", False),
        ("v1", "v1.0", False),
    ],
)
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


@pytest.mark.parametrize(
    "mark", ["\u200b", "\ufeff", "\u200e", "\u2060", "\u00ad", "\x01", "\u00a0"]
)
def test_what_nobody_sees_around_a_name_is_no_part_of_it(graph, mark):
    nodes = changed(0, "topic", f"{mark}x{mark}")
    nodes[1][0] = f"b{mark}"
    read, plain = read_own(graph(nodes), SOUND), read_own(graph(), SOUND)
    same(read, plain)
    assert read.info.counts["names_trimmed"] == (0 if mark == "\u00a0" else 2)
    refused(graph(changed(0, "topic", mark)), "training node without a label")
    refused(graph(changed(0, "id", mark)), "no id")


def test_ids_that_look_alike_and_texts_that_are_none_are_counted(graph):
    nodes = [list(each) for each in ROWS]
    nodes[0][0], nodes[1][0], nodes[2][1] = "caf\u00e9", "cafe\u0301", "nan"
    nodes[3][2] = "what was \ufffd\ufffd read"
    counts = read_own(graph(nodes, []), SOUND).info.counts
    assert (counts["ids_alike"], counts["texts_missing"], counts["texts_replaced"]) == (1, 1, 1)
    refused(graph(nodes, [["c\u200b2", "c"]]), "is the id of no node")
    refused(graph(edges=[["ｃ", "a"]]), "did you mean 'c'")


@pytest.mark.parametrize("parquet", [False, True])
def test_a_column_is_found_whatever_stands_around_its_name(graph, tmp_path, parquet):
    header = ["id", " title", "\ufeffbody ", " topic", "split"]
    spec = graph(as_csv(ROWS, header))
    if parquet:
        pyarrow.parquet.write_table(pyarrow.csv.read_csv(spec.nodes), tmp_path / "nodes.parquet")
        spec = spec.model_copy(update={"nodes": tmp_path / "nodes.parquet"})
    plain = read_own(graph(), SOUND)
    spec = graph(as_csv(ROWS, header)) if not parquet else spec
    for changes in ({}, {"label": " topic", "text": (" title", "body")}):
        found = read_own(spec.model_copy(update=changes), SOUND)
        assert found.info.classes == plain.info.classes
        assert [found.column(name) for name in found.texts.column_names] == [
            plain.column("title"), plain.column("body")
        ]  # fmt: skip


def test_of_two_columns_the_one_of_this_very_name_is_meant(graph):
    header = ["id", "title", "body", "topic", " topic"]
    rows = [[*row[:4], f"other {row[3]}"] for row in ROWS] * 1
    spec = graph(as_csv(rows + [["e", "t", "b", "x", "other x"]], header), split=None)
    for label, first in (("topic", "x"), (" topic", "other x")):
        assert first in own.read_own(spec.model_copy(update={"label": label}), SOUND).info.classes
    refused(spec.model_copy(update={"label": "TOPIC"}), "did you mean 'topic'? (--label topic)")
    header[3:] = [" My topic", "split"]
    refused(graph(as_csv(ROWS, header), label="my topic"), "(--label ' My topic')")
