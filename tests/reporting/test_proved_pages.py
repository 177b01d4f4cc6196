"""Proved methods on the site and in what is kept of a scale."""

from __future__ import annotations

import json
import math
import os

import pandas as pd
import pytest
from test_site import Page, pages_of

from private_graphs.errors import UserError
from private_graphs.reporting.figures import write_figures
from private_graphs.reporting.method_tables import NAMES
from private_graphs.reporting.publish import compose, publish
from private_graphs.reporting.site import write_site
from private_graphs.reporting.tables import write_tables


def score(epsilon, labels, seed):
    return 0.5 + 0.01 * (seed % 2)


@pytest.fixture
def proved(method_cell):
    """A function that finishes two methods on a dataset; ``changes`` go to the statements."""

    def run(scale, dataset="cora", **changes):
        for method in ("class_sums", "public_only"):
            method_cell(scale, method, "text", score, dataset=dataset, **changes)

    return run


def show(root, statistics, scale="full", dataset="cora", names=NAMES, **known):
    """Write the tables, the pictures and the site; return the index page."""
    given = [statistics(dataset, **known)]
    write_tables(root / scale, "lrec2022", tables=list(names), statistics=given)
    write_figures(root / scale, "lrec2022", {"frontier": [dataset]})
    write_site(root)
    return Page(root / "index.html")


def test_the_page_has_a_section_with_pictures_sentences_and_tables(tmp_path, proved, statistics):
    proved(tmp_path / "full")
    page = show(tmp_path, statistics)
    for words in (
        "Private and useful Methods whose ε is proved",
        "node level : only the tuning set public",
        "cora: ε = 1: The paper prints 0.56, without a proof.",
        "cora: node level, only the tuning set public: with all 500 tuning labels public, neither",
        "Draws 10 of the noise at every ε",
    ):
        assert words in page.text, words
    for address in (
        "full/figures/lrec2022_frontier_cora.png",
        "full/figures/lrec2022_labels_cora.pdf",
        "full/tables/lrec2022_useful.csv",
        "full/tables/lrec2022_labels.tex",
        "full/lrec2022_frontier.html#cora",
        "#full-lrec2022-useful",
    ):
        assert address in page.links, address


def test_every_link_leads_somewhere_and_pictures_have_words(tmp_path, proved, statistics):
    proved(tmp_path / "full")
    show(tmp_path, statistics)
    pages = pages_of(tmp_path)
    assert len(pages) == 2 + 16 + 4
    for path in pages:
        page = Page(path)
        assert all(values.get("alt") for tag, values in page.tags if tag == "img")
        assert all("scope" in values for tag, values in page.tags if tag == "th")
        for link in page.links:
            if link.startswith(("https://", "data:")):
                continue
            address, _, anchor = link.partition("#")
            target = (path.parent / address) if address else path
            assert target.is_file(), link
            assert not anchor or anchor in Page(target).anchors, link


def test_numbers_lead_to_their_statements(tmp_path, proved, statistics):
    proved(tmp_path / "full")
    show(tmp_path, statistics)
    page = Page(tmp_path / "full" / "lrec2022_frontier.html")
    assert "node level (only the tuning set public) ε proved per node and run" in page.text
    assert "class sums – 0.505 ± 0.005 proved ε 0.25 all 40 runs: ε 0.88" in page.text
    assert "public only 0.505 ± 0.005 nothing private is read –" in page.text
    texts = [Page(path).text for path in (tmp_path / "full" / "statements").glob("*.html")]
    words = "cora, class sums, node level, only the tuning set public, ε = 2, 20 of 500 tuning"
    assert sum(words in text for text in texts) == 1
    assert sum("Nothing private is read: ε = 0 per node." in text for text in texts) == 4


def test_hostile_words_stay_text(tmp_path, proved, statistics):
    hostile = "<script>alert('x')</script>\"&{}"
    proved(tmp_path / "full", assumptions=[hostile])
    page = show(tmp_path, statistics, title=hostile)
    assert hostile in page.text
    for path in pages_of(tmp_path):
        assert "<script" not in path.read_text().lower()


def test_a_scale_may_have_some_of_the_tables(tmp_path, proved, statistics):
    proved(tmp_path / "full")
    page = show(tmp_path, statistics, names=("frontier",))
    assert "Private and useful" in page.text and "Fewer public labels" not in page.text


def test_synthetic_methods_have_a_banner_and_a_gone_frontier_has_no_page(
    tmp_path, proved, statistics
):
    proved(tmp_path / "demo", "synthetic-npz")
    known = {"synthetic": True, "title": "Made up"}
    page = show(tmp_path, statistics, "demo", "synthetic-npz", **known)
    numbers = tmp_path / "demo" / "lrec2022_frontier.html"
    for each in (page, Page(numbers)):
        assert "synthetic data (Made up)" in each.text
    for path in (tmp_path / "demo" / "tables").glob("*_frontier.*"):
        path.unlink()
    write_tables(tmp_path / "demo", "lrec2022", tables=["table3"], epsilons=[2], epochs={"sgd": 9})
    write_site(tmp_path)
    assert not numbers.exists()


@pytest.fixture
def finish(cell, proved, statistics):
    """A function that finishes Table 1 and two proved methods on some datasets."""

    def run(scale, *datasets):
        for dataset in datasets:
            for optimizer in ("sgd", "adam"):
                for protocol in ("released", "paper", "sound"):
                    for splits in (1, 10):
                        scores = {1: {math.inf: [0.8], 2.0: [0.5]}, 10: {1.0: [0.3], 2.0: [0.5]}}
                        cell(scale, dataset=dataset, optimizer=optimizer, protocol=protocol,
                             splits=splits, scores=scores[splits])  # fmt: skip
            proved(scale, dataset)
        write_tables(
            scale, "lrec2022", tables=["table1", "table3", "table5", *NAMES],
            statistics=[statistics(each) for each in datasets], epochs={"sgd": 9}, epsilons=[2],
        )  # fmt: skip
        write_figures(scale, "lrec2022", {"frontier": list(datasets)})

    return run


@pytest.fixture
def planned(monkeypatch):
    """A function that says which cells of proved methods a run plans, as (method, setting)."""

    def plan(*cells):
        monkeypatch.setattr(
            "private_graphs.reporting.publish_methods.MethodHoldings.planned",
            lambda self: {
                f"frontier/{self.dataset}/raw/{method}/{setting}": frozenset(range(10))
                for method, setting in cells
            },
        )

    plan(("class_sums", "text"), ("public_only", "text"))
    return plan


def test_tables_pictures_and_times_of_the_methods_are_kept(tmp_path, finish, planned):
    scale, kept = tmp_path / "results" / "full", tmp_path / "kept"
    finish(scale, "cora", "pubmed")
    benchmark = scale / "benchmarks/method/lrec2022/frontier/cora/raw/class_sums/text.tsv"
    benchmark.parent.mkdir(parents=True)
    benchmark.write_text("s\th:m:s\n120.0\t0:02:00\n")
    written = publish(scale, kept)
    assert all(path.stat().st_size for path in written)
    assert {path.name for path in (kept / "cora").iterdir()} == {
        *(f"{name}.{form}" for name in NAMES for form in ("csv", "md")),
        "frontier.png", "labels.png", "methods_times.csv", "table1.csv", "table1.md",
        "table1.png", "table5.csv", "table5.md", "times.csv", "runs.md",
    }  # fmt: skip
    for name in NAMES:
        page = (kept / "cora" / f"{name}.md").read_text()
        assert "cora" in page and "pubmed" not in page
        for form in ("csv", "md"):
            whole = (scale / "tables" / f"lrec2022_{name}.{form}").read_text()
            assert sorted((kept / f"lrec2022_{name}.{form}").read_text().splitlines()) == sorted(
                whole.splitlines()
            )
    times = pd.read_csv(kept / "cora" / "methods_times.csv").set_index("method")
    assert times.loc["class_sums", ["runs", "run_seconds"]].tolist() == [160, 80.0]
    assert times["job_seconds"].dropna().to_dict() == {"class_sums": 120.0}
    assert "| class_sums | text | 160 | 2.00 |" in (kept / "cora" / "runs.md").read_text()
    compose(kept)


def test_an_unfinished_method_or_an_old_picture_is_not_kept(tmp_path, finish, planned):
    scale = tmp_path / "results" / "full"
    finish(scale, "cora")
    planned(("class_sums", "text"), ("dp_linear", "text"))
    with pytest.raises(UserError, match=r"1 of 2 cells .* on cora .*dp_linear/text.*experiments="):
        publish(scale, tmp_path / "kept")
    planned(("class_sums", "text"))
    drawn = scale / "figures" / "lrec2022_frontier_cora.png"
    os.utime(drawn, (1, 1))
    with pytest.raises(UserError, match=r"frontier_cora\.png is older than .*frontier\.csv"):
        publish(scale, tmp_path / "kept")
    drawn.unlink()
    with pytest.raises(UserError, match=r"frontier_cora\.png is missing"):
        publish(scale, tmp_path / "kept")


def test_settings_that_were_used_are_said(tmp_path, finish, planned):
    scale = tmp_path / "results" / "full"
    finish(scale, "cora")
    path = scale / "methods/lrec2022/frontier/cora/raw/class_sums/text/runs.parquet"
    stamp = path.stat().st_mtime
    runs = pd.read_parquet(path)
    used = [json.dumps({"rank": 64 * (1 + row % 2), "prior": "a|b"}) for row in range(len(runs))]
    runs.assign(configuration=used).to_parquet(path)
    os.utime(path, (stamp, stamp))
    publish(scale, tmp_path / "kept")
    assert "rank 64 to 128; prior a\\|b |" in (tmp_path / "kept/cora/runs.md").read_text()
