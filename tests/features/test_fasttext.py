"""Means of word vectors, the loader, and the embedded model."""

from __future__ import annotations

import gzip
import math
import re
import struct

import numpy as np
import pytest

from private_graphs.core.errors import UserError
from private_graphs.datasets.views import RELEASED, SOUND
from private_graphs.features.fasttext import (
    fasttext_means,
    load_model,
    trained_model,
    word_vectors,
)
from private_graphs.features.fasttext_files import check_sizes, unpacked
from private_graphs.features.make import FeatureOptions
from private_graphs.features.words import tokens, vocabulary


def test_same_as_a_loop_over_users_and_words(labelled, tmp_path):
    path = trained_model(labelled, RELEASED, tmp_path)
    found = fasttext_means(labelled, RELEASED, FeatureOptions((20, 60), path)).values
    model, kept = load_model(path), set(vocabulary(labelled, RELEASED, (20, 60))[0].words)
    columns = [labelled.column(name) for name in labelled.texts.column_names]
    without = 0
    for user, row in enumerate(found):
        words = [w for column in columns for w in tokens(column[user]) if w in kept]
        without += not words
        expected = np.mean([model.of(w) for w in words], axis=0) if words else np.zeros(64)
        np.testing.assert_allclose(row, expected, atol=1e-6)
    assert found.dtype == np.float32 and without < len(found)


def test_a_packed_model_is_unpacked_once_and_gives_the_same(labelled, tmp_path):
    path = trained_model(labelled, RELEASED, tmp_path)
    packed = tmp_path / "packed" / "model.bin.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(path.read_bytes()))
    plain = fasttext_means(labelled, RELEASED, FeatureOptions((3, 1000), path))
    found = fasttext_means(labelled, RELEASED, FeatureOptions((3, 1000), packed, "sk vectors"))
    np.testing.assert_array_equal(found.values, plain.values)
    assert (packed.parent / "model.bin").read_bytes() == path.read_bytes()
    assert found.models[0].file == "model.bin.gz" and "sk vectors" in found.preprocessing[1]
    kept = (packed.parent / "model.bin").stat()
    assert unpacked(packed).stat().st_mtime_ns == kept.st_mtime_ns
    assert unpacked(packed).stat().st_ino == kept.st_ino


def test_a_changed_archive_is_unpacked_anew(tmp_path):
    packed, magic = tmp_path / "model.bin.gz", struct.pack("<i", 793712314)
    for content in (magic + b"first", magic + b"second"):
        packed.write_bytes(gzip.compress(content))
        assert unpacked(packed).read_bytes() == content
    for content, words in (
        (b"no archive", "cannot be unpacked"),
        (gzip.compress(b"another file"), "does not unpack to a fastText model"),
        (gzip.compress(magic + bytes(2**27)), "unpacks to far more than a fastText model"),
    ):
        packed.write_bytes(content)
        with pytest.raises(UserError, match=rf"model\.bin\.gz: {words}"):
            unpacked(packed)
    assert (tmp_path / "model.bin").read_bytes() == magic + b"second"


def test_no_file_beside_an_archive_is_replaced(tmp_path):
    (tmp_path / "model.bin").write_text("mine")
    packed = tmp_path / "model.bin.gz"
    packed.write_bytes(gzip.compress(struct.pack("<i", 793712314)))
    with pytest.raises(UserError, match="model.bin: is there, .* move it away"):
        unpacked(packed)
    assert (tmp_path / "model.bin").read_text() == "mine"


def test_training_twice_gives_equal_vectors_and_a_small_file(labelled, tmp_path):
    first = trained_model(labelled, SOUND, tmp_path / "a")
    second = trained_model(labelled, SOUND, tmp_path / "b")
    assert first.name == second.name and first.read_bytes() == second.read_bytes()
    assert first.stat().st_size < 8_000_000
    assert [path.name for path in (tmp_path / "a").iterdir()] == [first.name]
    kept = first.stat().st_mtime_ns
    assert trained_model(labelled, SOUND, tmp_path / "a").stat().st_mtime_ns == kept
    assert trained_model(labelled, RELEASED, tmp_path / "a").name != first.name


def test_a_model_that_was_cut_off_anywhere_is_refused_before_the_library_reads_it(
    labelled, tmp_path
):
    whole = trained_model(labelled, SOUND, tmp_path)
    assert load_model(whole).dimension == 64
    refused_where_cut(whole, tmp_path)


@pytest.mark.parametrize("more", [{}, {"qnorm": True, "qout": True, "cutoff": 400}])
def test_a_quantised_model_that_was_cut_off_is_refused_too(tmp_path, more):
    fasttext = pytest.importorskip("fasttext")
    lines = [f"__label__{n % 300} word{n} word{n % 40} word{n % 7}" for n in range(600)]
    (tmp_path / "texts").write_text("\n".join(lines))
    model = fasttext.train_supervised(
        str(tmp_path / "texts"), dim=8, epoch=1, minn=2, maxn=3, bucket=500, thread=1, verbose=0
    )
    model.quantize(input=str(tmp_path / "texts"), thread=1, verbose=0, **more)
    whole = tmp_path / "whole.bin"
    model.save_model(str(whole))
    refused_where_cut(whole, tmp_path)
    content, quantiser = whole.read_bytes(), struct.pack("<4i", 8, 4, 2, 2)
    assert quantiser in content
    for size in (-100_000, -1, 0, 10**8):  # the library would index outside of its arrays
        other = struct.pack("<4i", 8, 4, size, 8 - 3 * size)
        whole.write_bytes(content.replace(quantiser, other, 1))
        with pytest.raises(UserError, match="the quantiser of its input matrix"):
            load_model(whole)
    at = content.index(quantiser) + 16
    for number in (math.nan, 3e38):
        whole.write_bytes(content[:at] + struct.pack("<f", number) + content[at + 4 :])
        with pytest.raises(UserError, match="no finite numbers, or too large"):
            load_model(whole)


def refused_where_cut(whole, tmp_path):
    check_sizes(whole)
    load_model(whole)
    content = whole.read_bytes()

    cut = tmp_path / "cut.bin"
    for length in (0, 7, 60, 84, 500, len(content) // 2, len(content) * 2 // 3, len(content) - 1):
        for version in (12, 11):
            cut.write_bytes((content[:4] + struct.pack("<i", version) + content[8:])[:length])
            with pytest.raises(UserError, match="cut.bin: is not a whole fastText model"):
                load_model(cut)


def test_a_model_that_takes_far_more_than_its_file_is_refused(tmp_path):
    fasttext = pytest.importorskip("fasttext")
    texts, path = tmp_path / "texts", tmp_path / "model.bin"
    texts.write_text("\n".join(f"__label__{n % 9} {chr(97 + n % 26) * 9000}" for n in range(99)))
    options = {"dim": 2, "epoch": 1, "minn": 1, "maxn": 2, "bucket": 5, "thread": 1, "verbose": 0}
    fasttext.train_supervised(str(texts), loss="hs", **options).save_model(str(path))
    check_sizes(path)
    whole = path.read_bytes()
    label = struct.pack("<qb", 11, 1)
    assert whole.count(label) == 9
    # the paths of a tree of equal or growing counts of zero are as long as there are labels
    for other in (struct.pack("<qb", 0, 1), struct.pack("<qb", 12, 1)):
        path.write_bytes(other.join(whole.rsplit(label, 1)))
        with pytest.raises(UserError, match="do not decrease, or are zero"):
            check_sizes(path)
    path.write_bytes(whole + bytes(7))
    with pytest.raises(UserError, match="7 bytes follow its last matrix"):
        check_sizes(path)
    # what continues a letter is hashed with each subword, too
    wide = re.sub(rb"([a-z])\1{8999}", (b"a" + 44 * b"\x80") * 200, whole)
    for content in (whole, wide):
        path.write_bytes(content[:44] + struct.pack("<2i", 1, 100) + content[52:])
        with pytest.raises(UserError, match="subwords of up to 100 letters, too many"):
            check_sizes(path)


@pytest.mark.parametrize("bucket", [500, 0])
def test_a_word_that_is_a_label_has_no_row_of_the_matrix(tmp_path, bucket):
    fasttext = pytest.importorskip("fasttext")
    texts = tmp_path / "texts"
    texts.write_text("\n".join(f"topic_{n % 3} word{n % 9} and more" for n in range(90)))
    model = fasttext.train_supervised(
        str(texts), label="topic_", dim=8, thread=1, verbose=0, bucket=bucket,
        minn=2 * (bucket > 0), maxn=3 * (bucket > 0),
    )  # fmt: skip
    model.save_model(str(tmp_path / "model.bin"))
    vectors = load_model(tmp_path / "model.bin")
    label, word, unknown = word_vectors(vectors, ["topic_1", "word1", "xylophone"])
    assert not label.any() and word.any() and unknown.any() == (bucket > 0)
    assert (word == model.get_word_vector("word1")).all()


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (8, struct.pack("<i", 0), "0 dimensions"),
        (4, struct.pack("<i", -7), "it is of version -7"),
        (40, struct.pack("<3i", 0, 3, 6), "0 buckets of subwords"),
        (40, struct.pack("<3i", -3, 0, 0), "-3 buckets of subwords"),
        (64, struct.pack("<3i", 3, 4, -1), "3 entries, of 4 words and labels"),
        (-65, b"\1", "its output matrix is quantised, and its input matrix is not"),
        (-4, struct.pack("<f", math.nan), "its output matrix has values that are no finite"),
        (40, struct.pack("<i", 2**30), "rows of 4, expected 1,073,741,827 of 4"),
        (8, struct.pack("<i", 5), "rows of 4, expected 13 of 5"),
        (102, b"\1", "entry 0 of its dictionary is no word"),
        (32, struct.pack("<i", 9), "its loss is number 9"),
        (36, struct.pack("<i", 7), "a model of kind 7"),
        (
            44,
            struct.pack("<2i", 1, 1000),
            "subwords have up to 1,000 letters, expected at most 100",
        ),
        (48, struct.pack("<i", 2**31 - 1), "subwords have up to 2,147,483,647 letters"),
        (40, struct.pack("<3i", 0, 0, -1), "subwords have up to -1 letters"),
        (64, struct.pack("<3i", 0, 0, 0), "its dictionary has no word"),
        (94, struct.pack("<q", 10**16), "entry 0 of its dictionary is counted 10,000,000,000,000"),
    ],
)
def test_a_model_without_usable_vectors_is_refused(tmp_path, place, value, words):
    (tmp_path / "texts").write_text("a b a b c " * 20)
    library = pytest.importorskip("fasttext")
    model = library.train_unsupervised(
        str(tmp_path / "texts"), dim=4, minCount=1, bucket=10, thread=1, verbose=0
    )
    path = tmp_path / "model.bin"
    model.save_model(str(path))
    content = bytearray(path.read_bytes())
    place %= len(content)
    content[place : place + len(value)] = value
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"model.bin: .*{words}"):
        load_model(path)
