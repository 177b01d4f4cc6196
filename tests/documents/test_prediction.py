"""Tables to predict: in blocks, as DataFrames, with declared shares; and what a release says."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from command_line import refused
from document_tables import CLASSES, declared, rows_of, write
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError
from sklearn.base import clone

import private_graphs
from private_graphs.core.errors import UserError
from private_graphs.datasets import own_tables, table_blocks, typed_tables
from private_graphs.documents.declaration import Declaration
from private_graphs.documents.hashing import HashedWords
from private_graphs.documents.model import ReleasedModel


def classifier(epsilon: float = 4.0, shares=(0.5, 0.25, 0.25), columns: int = 64) -> ReleasedModel:
    weights = np.zeros((columns + 1, 3))
    features = HashedWords(columns, signed=False)
    for code, word in enumerate(("chain", "rose", "dial")):
        weights[features.rows([word]).indices[0], code] = 3.0
    weights[-1] = np.log(shares)
    return ReleasedModel(features, weights, CLASSES, ("body",), "id", "x", shares, epsilon)


@pytest.fixture
def release(tmp_path) -> Path:
    (tmp_path / "release").mkdir()
    classifier().save(tmp_path / "release" / "model.safetensors")
    return tmp_path / "release"


CELLS = st.text(st.sampled_from('ab"\n,; é'), max_size=8)


@given(st.lists(CELLS, min_size=1, max_size=60), st.sampled_from(["utf-8", "latin-1", "utf-16"]))
def test_blocks_of_a_table_are_the_table(tmp_path_factory, cells, encoding):
    path = tmp_path_factory.mktemp("blocks") / "t.csv"
    with open(path, "w", newline="", encoding=encoding) as stream:
        rows = csv.writer(stream)
        rows.writerow(["id", "body\nof it"])
        rows.writerows([f"d{number}", cell] for number, cell in enumerate(cells))
    roles = {"id": "id", "text 1": "body\nof it"}
    whole = own_tables.read_table(path, roles, encoding=encoding)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(typed_tables, "BLOCK_BYTES", 32)
        blocks = list(table_blocks.read_blocks(path, roles, encoding))
    for name, column in whole.columns.items():
        found = [cell for block, _ in blocks for cell in block.columns[name].to_pylist()]
        assert found == column.to_pylist()
    assert max(block.n_rows for block, _ in blocks) <= 64 and blocks[-1][1] == 1.0


def test_errors_of_a_late_block_name_the_line_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(typed_tables, "BLOCK_BYTES", 64)
    for end, words in (("x\n", "line 42: 1 fields"), ("y,\u00e9\n", "line 42: byte 0xe9")):
        path = tmp_path / "t.csv"
        path.write_bytes(("id,body\n" + "d,word\n" * 40 + end).encode("latin-1"))
        with pytest.raises(UserError, match=words):
            list(table_blocks.read_blocks(path, {"id": "id", "text 1": "body"}))


def test_a_quote_inside_a_field_of_a_long_table_takes_little_time(tmp_path, monkeypatch):
    path, rows = tmp_path / "t.csv", 60_000
    path.write_text('id,body\na,5" pipe\n' + "b,word\n" * rows)
    monkeypatch.setattr(typed_tables, "BLOCK_BYTES", 2**18)
    start = time.perf_counter()
    blocks = list(table_blocks.read_blocks(path, {"id": "id", "text 1": "body"}))
    assert sum(block.n_rows for block, _ in blocks) == rows + 1
    assert time.perf_counter() - start < 5  # quadratic counts took minutes
    monkeypatch.setattr(table_blocks, "LONGEST_BLOCK", 2**18)
    with pytest.raises(UserError, match="without the end of a row, expected at most 262,144"):
        list(table_blocks.read_blocks(path, {"id": "id", "text 1": "body"}))


def test_a_terabyte_without_a_line_end_is_refused_at_once(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,body\n")
    os.truncate(path, 10**12)  # a hole: no byte of it is on the disk
    with pytest.raises(UserError, match="t.csv: a line has more than 16,777,216 bytes"):
        list(table_blocks.read_blocks(path, {"id": "id"}))


@pytest.mark.parametrize("kind", ["repeated", "categories", "distinct"])
def test_long_texts_of_parquet_are_read_in_blocks_and_a_longer_one_is_refused(
    tmp_path, monkeypatch, kind
):
    """A text that is stored once for all rows would fill the memory when it is repeated."""
    monkeypatch.setattr(typed_tables, "BLOCK_BYTES", 2**16)
    monkeypatch.setattr(typed_tables, "LONGEST_BLOCK", 2**16)
    texts = [f"{number * (kind == 'distinct')}" + "a" * 2**14 for number in range(64)]
    body = pa.array(texts)
    body = body.dictionary_encode() if kind == "categories" else body
    table = pa.table({"id": pa.array(map(str, range(64))), "body": body})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet", use_dictionary=kind != "distinct")
    roles, read = {"id": "id", "text 1": "body"}, []
    real = typed_tables.parts
    monkeypatch.setattr(
        typed_tables, "parts", lambda path, part: (read.append(part), real(path, part))[1]
    )
    blocks = [block for block, _ in table_blocks.read_blocks(tmp_path / "t.parquet", roles)]
    assert [cell for block in blocks for cell in block.cells("body")] == texts
    assert max(block.n_rows for block in blocks) <= 4
    if kind != "categories":
        assert max(part.num_rows for part in read) <= 4, "no more is unpacked at once"
    assert own_tables.read_table(tmp_path / "t.parquet", roles).cells("body") == texts
    monkeypatch.setattr(typed_tables, "LONGEST_BLOCK", 2**13)
    monkeypatch.setattr(typed_tables, "BLOCK_BYTES", 2**13)
    for read_all in (
        own_tables.read_table,
        lambda *given: list(table_blocks.read_blocks(*given)),
    ):
        with pytest.raises(UserError, match="t.parquet: a row has 16,.* at most 8,192; split the"):
            read_all(tmp_path / "t.parquet", roles)


@pytest.mark.parametrize("error", [
    MemoryError("Unable to allocate 9 TiB"),
    SafetensorError("Error: I/O error: Cannot allocate memory (os error 12)"),
])  # fmt: skip
def test_a_model_that_does_not_fit_in_memory_is_named(run, data, release, monkeypatch, error):
    def fails(*_):
        raise error

    nodes = write(Path("n.csv"), rows_of(3))
    monkeypatch.setattr("safetensors.safe_open", fails)
    done = run("predict", release, "--nodes", nodes, "--out", "p.csv")
    refused(done, 1, "model.safetensors: cannot be read into memory", "ulimit -v")


@pytest.mark.parametrize(("error", "words"), [
    (OSError(errno.EMFILE, "Too many open files"), "cannot be opened (Too many open files)"),
    (FileNotFoundError("No such file"), "its library cannot open it; check permissions, the limit"),
])  # fmt: skip
def test_a_model_that_the_system_does_not_let_read_is_no_damaged_one(
    run, data, release, monkeypatch, error, words
):
    def fails(*_):
        raise error

    nodes = write(Path("n.csv"), rows_of(3))
    monkeypatch.setattr("safetensors.safe_open", fails)
    done = run("predict", release, "--nodes", nodes, "--out", "p.csv")
    refused(done, 1, f"model.safetensors: {words}")


@pytest.mark.parametrize(("line", "why"), [
    ("[1,2]", "no object"), ("null", "no object"), ('"text"', "no object"), ("{", "Expecting"),
    ('{"id":"b","body":"x","id":"c"}', "the name 'id' stands twice"), ('{"id":NaN}', "no value"),
    ('{"id":"\\ud83d"}', "half a character"), ("[" * 10**5, "nested too deeply"),
    ('{"id":' + "1" * 10**4 + "}", "a number of 10,000 digits"),
])  # fmt: skip
def test_a_json_line_that_is_no_document_is_told(tmp_path, line, why):
    path = tmp_path / "t.jsonl"
    path.write_text('{"id":"a"}\n\n' + line)
    with pytest.raises(UserError, match=rf"t.jsonl: line 3: cannot be read as .jsonl \(.*{why}"):
        own_tables.read_table(path, {"id": "id"})


def test_json_lines_keep_what_they_say(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"id":1,"body":"a"}\n{"id":2,"Body":"b"}\n')
    with pytest.raises(UserError, match="t.jsonl: object 2: has the name 'Body', and others 'bod"):
        own_tables.read_table(path, {"id": "id", "text 1": "body"})
    path.write_text(
        '\ufeff{"id":1,"body":"a\u2028b"}\r\n{"id":12345678901234567890,"body":null}'
        '\n{"id":3,"extra":[{}],"body":"\\ud83d\\ude00"}\n{"id":4}\n'
    )
    with pytest.raises(UserError, match="column 'id' is no text or 64-bit whole number; write"):
        own_tables.read_table(path, {"id": "id"})
    mixed = tmp_path / "m.jsonl"
    mixed.write_text('{"id":null}\n{"id":1}\n{"id":2}\n{"id":"a"}\n')
    with pytest.raises(UserError, match="column 'id' is no .* number: value 4 has another type"):
        own_tables.read_table(mixed, {"id": "id"})
    path.write_text(path.read_text().replace("12345678901234567890", "1234567890123456789"))
    table = own_tables.read_table(path, {"id": "id", "text 1": "body"})
    assert table.cells("id") == ["1", "1234567890123456789", "3", "4"]
    assert table.cells("body") == ["a\u2028b", "", "\U0001f600", ""]
    with pytest.raises(UserError, match="no column 'who'.*found 'id', 'body', 'extra'"):
        own_tables.read_table(path, {"unit": "who"})


READS = (
    lambda path, roles: own_tables.read_table(path, roles),
    lambda path, roles: list(table_blocks.read_blocks(path, roles)),
)


@pytest.mark.parametrize("read", READS)
def test_parquet_that_unpacks_to_far_more_than_text_or_has_a_wrong_bit_is_refused(
    tmp_path, monkeypatch, read
):
    path = tmp_path / "t.parquet"
    table = pa.table({"id": ["a", "b"], "body": ["word " * 50_000] * 2})
    how = dict(compression="zstd", use_dictionary=False)
    pyarrow.parquet.write_table(table, path, **how)
    roles = {"id": "id", "text 1": "body"}
    monkeypatch.setattr(typed_tables, "_UNPACKED", 600_000)
    read(path, roles)
    monkeypatch.setattr(typed_tables, "_UNPACKED", 400_000)
    with pytest.raises(UserError, match="bytes of the column 'body' unpack to 500,"):
        read(path, roles)
    if read is not READS[1]:  # blocks are of any length
        groups = pa.concat_tables([table, pa.table({"id": ["c"], "body": ["word " * 50_000]})])
        pyarrow.parquet.write_table(groups, path, row_group_size=1, **how)
        with monkeypatch.context() as patched, pytest.raises(UserError, match="unpack to 750,"):
            patched.setattr(pyarrow.parquet.ParquetFile, "read", None)  # it is known before
            read(path, roles)
        table = pa.table({"id": [*"abc"], "body": ["word " * 50_000] * 3})
        pyarrow.parquet.write_table(table, path, compression="zstd")  # a text is stored once
        with pytest.raises(UserError, match="bytes unpack to 750,0.. bytes of text, expected"):
            read(path, roles)
    table = pa.table({"id": ["a", "b"], "body": ["chain", "pedal"]})
    pyarrow.parquet.write_table(table, path, compression="none", write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[content.index(b"pedal")] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match="cannot be read as Parquet .*checksum"):
        read(path, roles)


@pytest.mark.parametrize("read", READS)
def test_parquet_of_more_row_groups_than_any_table_has_is_refused(tmp_path, monkeypatch, read):
    path, roles = tmp_path / "t.parquet", {"id": "id"}
    table = pa.table({"id": [str(number) for number in range(40)]})
    pyarrow.parquet.write_table(table, path, row_group_size=1)
    for name, most, words in (
        ("_MOST_GROUPS", 39, "has 40 row groups, expected at most 39; write it with fewer"),
        ("_MOST_FOOTER", 99, r"its list of row groups has \d,... bytes, expected at most 99"),
    ):
        with monkeypatch.context() as patched, pytest.raises(UserError, match=words):
            patched.setattr(typed_tables, name, most)
            read(path, roles)
    read(path, roles)


def test_a_pipe_that_nobody_writes_into_is_told(tmp_path):
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(UserError, match="t.csv: is a pipe that nobody writes into"):
        own_tables.read_table(tmp_path / "t.csv", {"id": "id"})


@pytest.mark.parametrize("encoding", ["nonsense", "hex", "rot13", "punycode", "IDNA"])
def test_an_encoding_that_is_none_is_named_for_a_long_table_too(tmp_path, monkeypatch, encoding):
    monkeypatch.setattr(typed_tables, "BLOCK_BYTES", 8)
    (tmp_path / "t.csv").write_text("id,body\na,word\n")
    with pytest.raises(UserError, match="is no known encoding of text"):
        list(table_blocks.read_blocks(tmp_path / "t.csv", {"id": "id"}, encoding))
    with pytest.raises(ValueError, match="is no known encoding"):
        Declaration(name="x", nodes="t.csv", text=["body"], label="body", encoding=encoding)


def test_a_table_of_any_kind_gets_the_same_classes(release, data, tmp_path, monkeypatch):
    rows = rows_of(200)
    frame = pd.DataFrame(rows)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_json(tmp_path / "t.JSONL", orient="records", lines=True)
    write(tmp_path / "t.csv", rows)
    monkeypatch.setattr(typed_tables, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(table_blocks, "_BLOCK_ROWS", 33)
    tables = [frame, *(tmp_path / f"t.{end}" for end in ("parquet", "JSONL", "csv"))]
    done = []
    found = [
        private_graphs.predict(release, nodes=table, label="topic", out=f"{number}.csv",
                               progress=lambda part, all_: done.append(part / all_))
        for number, table in enumerate(tables)
    ]  # fmt: skip
    assert all(each.classes == [row["topic"] for row in rows] for each in found)
    assert {each.accuracy for each in found} == {1.0} and done.count(1.0) == 4 and len(done) > 9
    assert len({Path(f"{number}.csv").read_text() for number in range(4)}) == 1
    (tmp_path / "t.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(UserError, match="save it as CSV"):
        private_graphs.predict(release, nodes=tmp_path / "t.xlsx")


def test_columns_for_classes_and_counts_are_told(run, release, data, tmp_path):
    rows = [*rows_of(30), {"id": "none", "who": "", "body": "...", "topic": "", "open": ""}]
    nodes = write(tmp_path / "t.csv", rows)
    answer = run("predict", release, "--nodes", nodes, "--out", "p.csv")
    assert "1 document without a word that the model knows: no class" in answer.out
    assert re.search(r"bikes \d+ % \(50 %\), gardens \d+ % \(25 %\)", answer.out)
    lines = list(csv.DictReader(open("p.csv")))
    names = [f"score {name}" for name in CLASSES]
    assert list(lines[0]) == ["id", "class", "score", *names]
    assert lines[-1]["class"] == "" and lines[-1]["score"] == "" == lines[-1]["score bikes"]
    for line in lines[:-1]:
        scores = [float(line[name]) for name in names]
        assert sum(scores) == pytest.approx(1, abs=2e-4) and max(scores) == float(line["score"])
    found = run("predict", release, "--nodes", nodes, "--out", "p.csv", "--json").json
    assert found["empty"] == 1 and sum(use["predicted"] for use in found["classes"]) == 30


def test_labels_that_are_no_class_and_documents_without_an_id_are_told(
    run, release, data, tmp_path
):
    rows = rows_of(30)
    for row in rows[:3]:
        row["id"] = ""
    for row, label in zip(rows[4:], ("other", "other", ""), strict=False):
        row["topic"] = label
    nodes = write(tmp_path / "t.csv", rows)
    answer = run("predict", release, "--nodes", nodes, "--out", "p.csv", "--label", "topic")
    for words in ("3 documents without an id", "100.0 % of 27 documents whose label is a class",
                  "not counted: 2 labels that the model has no class for (such as 'other'), "
                  "1 document without a label"):  # fmt: skip
        assert words in answer.out
    refused(
        run("predict", release, "--nodes", nodes, "--out", "p.csv", "--label", "id"),
        1,
        "'id' (id of the model) and 'id' (label) are both the column 'id', expected one role",
    )


def test_declared_shares_replace_those_of_the_release(run, release, data, tmp_path):
    nodes = write(tmp_path / "t.csv", [{"id": "a", "body": "word"}])
    shares = dict(zip(CLASSES, (0.1, 0.1, 0.8), strict=True))
    [score] = private_graphs.predict(release, nodes=nodes, shares=shares).scores
    assert score == pytest.approx(0.8), "a word that tells nothing leaves the declared shares"
    assert private_graphs.predict(release, nodes=nodes, shares=shares).classes == ["radios"]
    command = ("predict", release, "--nodes", nodes, "--out", "p.csv", "--shares")
    assert run(*command, "bikes=8,gardens=1,radios=1").code == 0
    for wrong in ("bikes=1,gardens=1", "bikes=x", "bikes=0,gardens=1,radios=1", "a=1",
                  "bikes=8,gardens=1,radios=1,bikes=2"):  # fmt: skip
        refused(run(*command, wrong), 2, "--shares")
    classifier(epsilon=1.0).save(release / "model.safetensors")
    refused(run(*command, "bikes=8,gardens=1,radios=1"), 2, "epsilon 1, expected at least 2")


def test_a_dataframe_is_declared_and_a_changed_table_is_named(run, data, tmp_path):
    rows = rows_of(60)
    found = declared("x", pd.DataFrame(rows))
    [stored] = (data.parent / "declared").glob("x.nodes.*.parquet")
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    declared("y", write(tmp_path / "n.csv", rows))
    assert found.protected == 60
    assert "has changed" not in run("classify", "y", "--epsilon", 1, "--dry-run").err
    write(tmp_path / "n.csv", rows[:50])
    assert (
        "n.csv has changed since 'y' was declared"
        in run("classify", "y", "--epsilon", 1, "--dry-run").err
    )
    assert len(private_graphs.classify("x", epsilon=1, out="A").lines()) < 12
    kept = sorted((data.parent / "declared").iterdir())
    for refused_table in (pd.DataFrame(rows[:9]).assign(topic="neither"), pd.DataFrame(rows)):
        with pytest.raises(UserError):
            declared("z", refused_table, delta=0.9)
    assert sorted((data.parent / "declared").iterdir()) == kept, "no copy of a refused table"


def test_results_fit_a_screen_and_the_classifier_is_cloned(data, tmp_path):
    declaration = declared("x", write(tmp_path / "n.csv", rows_of(60)))
    result = private_graphs.classify("x", epsilon=1, out="A")
    model = private_graphs.load("A")
    predicted = private_graphs.predict("A", nodes=tmp_path / "n.csv")
    for shown in (declaration, result, model, predicted, private_graphs.ledger("x"),
                  private_graphs.explain("A")):  # fmt: skip
        text = repr(shown)
        assert 0 < len(text) < 4000 and text.count("\n") < 30, text
    same = clone(model)
    texts = [row["body"] for row in rows_of(9)]
    assert same is not model and (same.predict(texts) == model.predict(texts)).all()
    verbs = {"declare", "classify", "predict", "explain", "ledger", "attack", "load"}
    assert verbs <= set(dir(private_graphs))


def test_a_release_stands_alone(data, tmp_path):
    """Its page names nothing that is not there, and its five lines of Python run in it."""
    declared("x", write(tmp_path / "n.csv", rows_of(60)), unit="who", max_per_unit=3)
    private_graphs.classify("x", epsilon=1, out="A")
    page = Path("A/release/README.md").read_text()
    for words in ("at most 3 documents of one", "version 0.", "Intended use", "made on 2",
                  "monthly ones", "a fifth of the units"):  # fmt: skip
        assert words in page, words
    assert "fixed in advance." not in page.replace("was fixed in advance;", "")
    named = set(re.findall(r"[\w/-]+\.(?:md|csv|json|html|safetensors)\b", page))
    assert named <= {"new.csv", "classes.csv", *(path.name for path in Path("A/release").iterdir())}
    commands, python = re.findall(r"```\n(.*?)\n```", page, flags=re.DOTALL)
    assert len(commands.splitlines()) == 2 and len(python.splitlines()) == 5
    run = subprocess.run([sys.executable, "-c", python], cwd="A/release", capture_output=True,
                         text=True)  # fmt: skip
    assert run.returncode == 0 and "bikes" in run.stdout, run.stderr


def test_a_table_that_cannot_be_read_is_named_and_not_the_file_that_is_written(
    run, data, release, tmp_path, monkeypatch
):
    """A disk may fail under a table of any kind while its predictions are written."""
    rows = rows_of(3)
    write(tmp_path / "n.csv", rows)
    pd.DataFrame(rows).to_parquet(tmp_path / "n.parquet")

    class Failing(io.BytesIO):
        def __init__(self, *_):
            super().__init__()

        def read(self, *_):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def failed(*_, **__):
        raise OSError(errno.EIO, "Error reading bytes from file")  # as pyarrow does

    command = ("predict", release, "--out", "p.csv", "--nodes")
    with monkeypatch.context() as patched:
        patched.setattr(table_blocks, "open", Failing, raising=False)
        refused(run(*command, "n.csv"), 1, "n.csv: cannot be read", "its disk or network drive")
    with monkeypatch.context() as patched:
        patched.setattr(table_blocks.pyarrow.parquet, "ParquetFile", failed)
        refused(run(*command, "n.parquet"), 1, "n.parquet: cannot be read", "its disk or network")
    assert not (tmp_path / "p.csv").exists() and run(*command, "n.csv").code == 0


def test_a_manifest_that_the_system_does_not_open_means_no_damaged_release(run, release, tmp_path):
    nodes = write(tmp_path / "n.csv", rows_of(3))
    (release / "statement.json").symlink_to("statement.json")
    (release / "manifest.json").symlink_to("manifest.json")
    for command in (("predict", release, "--nodes", nodes, "--out", "p.csv"), ("explain", release)):
        made = run(*command)
        refused(made, 1, f"{release}/manifest.json: cannot be found (", "in a circle: remove them")
        assert "anew" not in made.err, made.err


def test_predictions_replace_nothing_but_predictions(run, data, release, tmp_path):
    """A private table, a paid release and the ledger would be lost without a word."""
    nodes = write(tmp_path / "n.csv", rows_of(3))
    read = tmp_path / "scored.csv"
    read.write_text('"id","class","score","body"\n"d1","bikes",0.4,"the chain"\n')
    (tmp_path / "link.csv").hardlink_to(nodes)
    ledger = tmp_path / "data" / "ledgers" / "lines"
    ledger.parent.mkdir(parents=True)
    ledger.write_text("3")
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    predict = ("predict", release, "--nodes")
    declared_ = tmp_path / "data" / "declared" / "p.csv"
    for out in (
        nodes,
        tmp_path / "link.csv",
        ledger,
        ledger.with_name("p.csv"),
        declared_,
        release / "model.safetensors",
    ):
        refused(run(*predict, nodes, "--out", out), 2, str(out), "choose another name")
    refused(run(*predict, read, "--out", "scored.csv"), 2, "a table that is read")
    assert {path: path.read_bytes() for path in kept} == kept
    other = tmp_path / "other"
    other.mkdir()
    (other / "manifest.json").write_text("{}")
    refused(run(*predict, nodes, "--out", other / "predictions.csv"), 2, "not to be given away")
    assert not (other / "predictions.csv").exists()
    for _ in range(2):  # predictions may be made again, and a file may be made beforehand
        assert run(*predict, nodes, "--out", "p.csv").code == 0
    (tmp_path / "empty.csv").touch()
    assert run(*predict, nodes, "--out", "empty.csv").code == 0


def test_a_manifest_that_is_too_long_is_named_and_not_read(run, data, release):
    nodes = write(Path("n.csv"), rows_of(3))
    with open(release / "manifest.json", "wb") as stream:
        stream.truncate(2**40)
    words = "manifest.json: has 1,099,511,627,776 bytes, expected at most"
    refused(run("predict", release, "--nodes", nodes, "--out", "p.csv"), 2, words)


def test_a_file_that_is_too_long_is_named_and_not_read(run, data, release):
    hashes = {"model.safetensors": "0" * 64}
    (release / "manifest.json").write_text(json.dumps({"schema": 1, "sha256": hashes}))
    with open(release / "model.safetensors", "r+b") as stream:
        stream.truncate(2**32 + 1)
    nodes = write(Path("n.csv"), rows_of(3))
    words = "model.safetensors: has 4,294,967,297 bytes, expected at most 4,294,967,296; take the"
    refused(run("predict", release, "--nodes", nodes, "--out", "p.csv"), 1, words)


@pytest.mark.parametrize("kind", ["lists", "parts", "mixed", "twice", "complex", "huge"])
def test_a_column_that_is_no_text_is_named(data, tmp_path, release, kind):
    frame = pd.DataFrame(rows_of(8))
    if kind == "twice":
        frame = pd.concat([frame, frame[["id"]]], axis=1)
    else:
        frame["body"] = {"lists": [["a"]] * 8, "parts": [{"a": 1}] * 8, "mixed": [1, "secret"] * 4,
                         "complex": [1j] * 8, "huge": [10**30] * 8}[kind]  # fmt: skip
    tables: list = [frame]
    if kind in ("lists", "parts"):
        frame.to_parquet(tmp_path / "n.parquet")
        tables.append(tmp_path / "n.parquet")
    for table in tables:
        with pytest.raises(UserError, match="body|Duplicate column|too large") as error:
            declared("x", table)
        assert "expected" in str(error.value) and "secret" not in str(error.value)
        assert ("DataFrame of nodes: " in str(error.value)) == (table is frame)
        with pytest.raises(UserError, match="body|columns are called 'id'") as error:
            private_graphs.predict(release, nodes=table)
        assert "secret" not in str(error.value)


def test_classes_that_look_the_same_are_refused(data, tmp_path):
    nodes = write(tmp_path / "n.csv", rows_of(8))
    for pair in (("\u00e9", "e\u0301"), ("a\u200b", "a"), ("\uff11", "1")):
        with pytest.raises(UserError, match="name one class twice"):
            declared("x", nodes, classes=(*pair, "bikes"))
