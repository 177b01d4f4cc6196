"""The pages: links, escaping, banners, narrowed runs, statements in full."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest

from private_graphs.errors import UserError
from private_graphs.privacy.statements import Inference, PrivacyStatement
from private_graphs.reporting.figures import write_figures
from private_graphs.reporting.site import write_site
from private_graphs.reporting.statement_view import _INFERENCE, SECTIONS
from private_graphs.reporting.tables import write_tables

VOID = {"meta", "link", "br", "img"}


class Page(HTMLParser):
    """Links, anchors, tags and visible text of a page; fails on tags that do not match."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.text = " ".join(self.text.split())
        assert not self._open

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append((tag, values))
        self.links += [values[name] for name in ("href", "src") if name in values]
        self.anchors |= {values["id"]} if "id" in values else set()
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if "style" not in self._open:
            self.text += f" {data}"


def build(root, cell, statistics, *, scale="full", synthetic=False, title="Cora", **changes):
    """Write one finished cell per protocol, the tables and the site; return the index page."""
    folder = root / scale
    name = "synthetic-npz" if synthetic else "cora"
    for protocol in ("released", "paper", "sound"):
        scores = {math.inf: [0.8, 0.82], 2.0: [0.5, 0.6]}
        cell(folder, dataset=name, protocol=protocol, scores=scores, **changes)
    given = [statistics(name, synthetic=synthetic, title=title)]
    write_tables(folder, "lrec2022", statistics=given, epochs={"sgd": 2000}, epsilons=[2])
    write_figures(folder, "lrec2022", {"table1": [name]})
    write_site(root)
    return Page(root / "index.html")


def draw(root, cell, statistics, *, scale="full", title="Cora", protocols=("paper",), **changes):
    """Write cells of B at two shares, Figures 2 and 3 and the site; return the page of Figure 2."""
    folder = root / scale
    for protocol in protocols:
        for fraction in (0.25, 1.0):
            scores = {2.0: [0.5, 0.6], 5.0: [0.7, 0.7]}
            place = {"experiment": "B", "fraction": fraction, "protocol": protocol}
            cell(folder, **place, scores=scores, **changes)
    cell(folder, experiment="C", splits=4, protocol="sound", scores={math.inf: [0.8, 0.9]})
    figures = ["figure2", "figure3"]
    write_tables(folder, "lrec2022", tables=figures, statistics=[statistics("cora", title=title)])
    write_figures(folder, "lrec2022", {name: ["cora"] for name in figures})
    write_site(root)
    return Page(folder / "lrec2022_figure2.html")


def pages_of(root):
    return [root / "index.html", *root.glob("*/*.html"), *root.glob("*/statements/*.html")]


def test_every_link_of_every_page_points_to_a_file_or_anchor_that_exists(
    tmp_path, cell, statistics
):
    build(tmp_path, cell, statistics)
    build(tmp_path, cell, statistics, scale="demo", synthetic=True)
    draw(tmp_path, cell, statistics)
    pages = pages_of(tmp_path)
    # Two statements of each protocol; the figures add two pages and ε = 5.
    assert len(pages) == 1 + 2 * 6 + 2 + 1
    for path in pages:
        for link in Page(path).links:
            if link.startswith(("https://", "data:")):
                continue
            address, _, anchor = link.partition("#")
            target = (path.parent / address) if address else path
            assert target.is_file(), link
            assert not anchor or anchor in Page(target).anchors, link


def test_pages_load_nothing_from_the_network_and_run_no_script(tmp_path, cell, statistics):
    build(tmp_path, cell, statistics)
    draw(tmp_path, cell, statistics)
    for path in pages_of(tmp_path):
        page = Page(path)
        tags = {tag for tag, _ in page.tags}
        assert "script" not in tags and "iframe" not in tags
        loaded = [values.get("src") or "" for tag, values in page.tags if tag != "a"]
        loaded += [values["href"] or "" for tag, values in page.tags if tag == "link"]
        assert not any(address.startswith(("http", "//")) for address in loaded)
        assert "url(" not in path.read_text() and "@import" not in path.read_text()


def test_each_protocol_shows_its_score_and_what_is_proved(tmp_path, cell, statistics):
    text = build(tmp_path, cell, statistics).text
    assert "0.550 ± 0.071 none proved" in text
    assert "0.550 ± 0.071 proved ε 3.38 per node model only" in text
    assert "0.550 ± 0.071 proved ε 2.00 per node all 3 runs: ε 4.10" in text
    assert "proved: ε 3.38 per node and run; all runs of a row together: up to 4.10" in text
    assert "none proved, for any of 1 DP settings" in text
    assert "claimed: ε 1–2" in text


def test_vacuous_budgets_are_flagged_by_a_word(tmp_path, cell, statistics):
    page = build(tmp_path, cell, statistics, epsilon_proved=344.45, vacuous=True)
    assert "proved ε 344.45 per node model only vacuous" in page.text


def test_a_refuted_claim_is_named(tmp_path, cell, statistics):
    audit = {
        "design": "canary", "unit": "node", "relation": "replace", "delta": 1e-5, "runs": 2000,
        "epsilon_lower": 3.28, "confidence": 0.999,
    }  # fmt: skip
    page = build(tmp_path, cell, statistics, epsilon_proved=None, audit=audit)
    assert "claim refuted" in page.text


def test_synthetic_data_has_a_banner_and_real_data_has_none(tmp_path, cell, statistics):
    assert "embedded synthetic data" not in build(tmp_path / "a", cell, statistics).text
    page = build(tmp_path / "b", cell, statistics, scale="demo", synthetic=True, title="Made up")
    assert "These numbers come from embedded synthetic data (Made up)" in page.text
    for path in (tmp_path / "b").glob("demo/statements/*.html"):
        assert "embedded synthetic data" in Page(path).text


def test_hostile_titles_and_statements_stay_text(tmp_path, cell, statistics, mechanism):
    hostile = "<script>alert('x')</script>\"&"
    page = build(
        tmp_path, cell, statistics, title=hostile, proof=hostile, assumptions=[hostile],
        mechanisms=[mechanism | {"type": hostile}],
        selection={"n_configs": 3, "data": hostile},
    )  # fmt: skip
    assert hostile in page.text
    paths = [tmp_path / "index.html", *tmp_path.glob("*/statements/*.html")]
    for path in paths:
        assert "<script" not in path.read_text().lower()
    assert all(Page(path).text.count(hostile) >= 3 for path in paths[1:])


def test_a_narrowed_run_shows_the_other_protocols_as_not_run(tmp_path, cell, statistics):
    cell(tmp_path / "full", protocol="sound", scores={2.0: [0.5]})
    write_tables(tmp_path / "full", "lrec2022", tables=["table1"], statistics=[statistics()])
    write_site(tmp_path)
    page = Page(tmp_path / "index.html")
    assert "not run not run 0.500 proved ε 2.00 per node" in page.text
    assert not [link for link in page.links if "table3" in link or link.endswith(".png")]


def test_a_scale_with_table_3_alone_needs_no_runs(tmp_path):
    write_tables(
        tmp_path / "full", "lrec2022", tables=["table3"], epochs={"sgd": 2000}, epsilons=[2]
    )
    write_site(tmp_path)
    text = Page(tmp_path / "index.html").text
    assert "Table 3. Noise multipliers" in text and "178.333" in text


def test_a_statement_page_shows_every_field(tmp_path, cell, statistics):
    build(tmp_path, cell, statistics)
    texts = [Page(path).text for path in (tmp_path / "full" / "statements").glob("*.html")]
    (proved,) = [text for text in texts if "cora, GCN with SGD, paper, full graph, ε = 2" in text]
    for words in (
        "Proved if the seed of the noise were secret: ε = 3.3802 at δ = 1e-5 per node (replace). "
        "That covers the model, not the predictions that were scored. All 3 runs together: "
        "ε = 4.1000. ε = 2.0000 is claimed.",
        "formula of the published ε moments accountant, q = 1, T = 2000",
        "assumptions the guarantee supposes a secret seed",
        "public by declaration N the masks",
        "runs released 3",
        "ε proved for all of them together 4.1000",
        "inference leaks: ",
        "selection n configs: 3; data: validation scores; public: yes; cost: as all runs",
        "gaussian_gradient gradient_global 1 2 56 2000 1 none replace",
        "2 runs",
    ):
        assert words in proved
    assert sum("Nothing is proved: no finite ε holds." in text for text in texts) == 1
    assert sum("Trained without differential privacy" in text for text in texts) == 3


def test_tables_and_pictures_are_accessible(tmp_path, cell, statistics):
    build(tmp_path, cell, statistics)
    figure = draw(tmp_path, cell, statistics)
    for page in (Page(tmp_path / "index.html"), figure):
        assert ("html", {"lang": "en"}) in page.tags
        assert all("scope" in values for tag, values in page.tags if tag == "th")
        assert all(values.get("alt") for tag, values in page.tags if tag == "img")
        scrolled = [values for _, values in page.tags if values.get("class") == "scroll"]
        assert scrolled and all(
            values["tabindex"] == "0" and values["role"] == "region" for values in scrolled
        )


def test_pages_of_statements_that_no_run_has_any_more_are_removed(tmp_path, cell, statistics):
    stale = tmp_path / "full" / "statements" / "000000000000.html"
    stale.parent.mkdir(parents=True)
    stale.write_text("old")
    build(tmp_path, cell, statistics)
    assert not stale.exists()


def test_how_the_numbers_were_made_is_said(tmp_path, cell, statistics):
    text = build(tmp_path, cell, statistics).text
    assert "Command: snakemake --config scale=full datasets=cora" in text
    assert "Seeds 2 (0 to 1); means and standard deviations (n - 1)" in text
    assert "Epochs SGD 2000 at most; ε is charged for all of them." in text
    assert (
        "released, paper, sound: 3 configurations by validation scores. Cost: as all runs." in text
    )


def test_nothing_to_show_is_an_error(tmp_path):
    with pytest.raises(UserError, match="no tables to show"):
        write_site(tmp_path)


def test_reporting_does_not_import_torch():
    code = (
        "import sys, private_graphs.reporting.site, private_graphs.reporting.figures; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_style_sheet_is_small_and_knows_phones_and_dark_screens(tmp_path, cell, statistics):
    build(tmp_path, cell, statistics)
    style = re.search(r"<style>(.*)</style>", (tmp_path / "index.html").read_text(), re.S)[1]
    assert "prefers-color-scheme: dark" in style and "max-width: 44rem" in style
    assert len(style) < 10_000


def test_every_field_of_the_statement_model_has_its_place_on_the_page():
    named = {name for fields in SECTIONS.values() for name in fields}
    assert named | {"statement_id", "mechanisms"} == set(PrivacyStatement.model_fields)


def test_every_inference_of_the_statement_model_has_words_on_the_page():
    assert set(get_args(Inference)) <= set(_INFERENCE)
    assert "noisy releases and public data, and are covered" in _INFERENCE["noisy_rows"]


# --- figures ---


def test_the_page_shows_the_pictures_of_the_figures_and_leads_to_their_pages(
    tmp_path, cell, statistics
):
    build(tmp_path, cell, statistics)
    draw(tmp_path, cell, statistics)
    page = Page(tmp_path / "index.html")
    pictures = [values for tag, values in page.tags if tag == "img"]
    assert [values["src"] for values in pictures] == [
        "full/figures/lrec2022_table1.png",
        "full/figures/lrec2022_figure2_cora.png",
        "full/figures/lrec2022_figure3_cora.png",
    ]
    assert (
        "one line per ε (2, 5), for SGD, one panel row for each protocol (paper)"
        in (pictures[1]["alt"])
    )
    for address in (
        "full/lrec2022_figure2.html",
        "full/lrec2022_figure2.html#cora",
        "full/figures/lrec2022_figure2_cora.pdf",
        "full/tables/lrec2022_figure2.csv",
    ):
        assert address in page.links
    assert "Figure 2. With DP, by share of the training nodes Experiment B:" in page.text
    assert "released , what the authors' published code does" in page.text


def test_a_figure_has_a_page_with_its_numbers_and_statements(tmp_path, cell, statistics):
    page = draw(tmp_path, cell, statistics, protocols=("released", "paper"))
    assert "released no finite ε is proved SGD, ε = 2 0.550 ± 0.071 none proved" in page.text
    assert (
        "paper ε proved per node and run, model only: the scored predictions reveal more"
        in page.text
    )
    point = "0.550 ± 0.071 proved ε 3.38 all 3 runs: ε 4.10"
    line = f"SGD, ε = 2 {point} {point} printed: 0.39, Table 1 SGD, ε = 5 0.700 ± 0.000 proved"
    assert line in page.text
    assert "line 25 % 100 % released" in page.text
    statements = {link for link in page.links if link.startswith("../full/statements/")}
    assert len(statements) == 4  # two protocols, two ε
    assert "../full/figures/lrec2022_figure2_cora.png" in page.links
    assert "Command: snakemake --config scale=full datasets=cora experiments=B" in page.text
    assert "synthetic" not in page.text.lower()
    other = Page(tmp_path / "full" / "lrec2022_figure3.html")
    assert "sound no DP: nothing is claimed SGD 0.850 ± 0.071 no DP" in other.text


def test_figures_without_table_1_have_a_page_too(tmp_path, cell, statistics):
    draw(tmp_path, cell, statistics)
    text = Page(tmp_path / "index.html").text
    assert "Figures 2, 3" in text and "At a glance" not in text
    assert "datasets=cora" in Page(tmp_path / "full" / "lrec2022_figure2.html").text


def test_a_point_that_was_not_run_is_said_to_be_so(tmp_path, cell, statistics):
    cell(tmp_path / "full", experiment="B", protocol="sound", fraction=0.5, scores={2.0: [0.3]})
    page = draw(tmp_path, cell, statistics)
    assert (
        "sound ε proved per node and run SGD, ε = 2 not run 0.300 proved ε 2.00 all 3 runs: ε 4.10 "
        "not run"
    ) in page.text


def test_vacuous_points_are_flagged_on_the_page_of_the_figure(tmp_path, cell, statistics):
    page = draw(tmp_path, cell, statistics, epsilon_proved=344.45, vacuous=True)
    assert "proved ε 344.45 vacuous" in page.text


def test_hostile_titles_stay_text_on_the_page_of_a_figure(tmp_path, cell, statistics):
    hostile = "<script>alert('x')</script>\"&"
    page = draw(tmp_path, cell, statistics, title=hostile)
    assert hostile in page.text
    assert any(hostile in (values.get("alt") or "") for _, values in page.tags)
    for path in pages_of(tmp_path):
        assert "<script" not in path.read_text().lower()


def test_statements_name_the_experiments_and_the_share_of_their_runs(tmp_path, cell, statistics):
    draw(tmp_path, cell, statistics)
    texts = [Page(path).text for path in (tmp_path / "full" / "statements").glob("*.html")]
    words = "cora, GCN with SGD, paper, full graph, ε = 2, 25 % of the training nodes, learning"
    (text,) = [text for text in texts if words in text]
    assert "2 runs of experiment B" in text


def test_the_page_of_a_figure_that_is_gone_is_removed(tmp_path, cell, statistics):
    draw(tmp_path, cell, statistics)
    for path in (tmp_path / "full" / "tables").glob("*_figure3.*"):
        path.unlink()
    write_site(tmp_path)
    assert not (tmp_path / "full" / "lrec2022_figure3.html").exists()
    assert (tmp_path / "full" / "lrec2022_figure2.html").exists()


def profiles(root, cell, statistics, dataset="pokec_demo", kinds=("bow", "bert"), **changes):
    """Write Table 2 and the leak of some profiles and the site; return the index page."""
    folder = root / "demo"
    for features in kinds:
        for protocol in ("released", "sound"):
            cell(folder, experiment="table2", dataset=dataset, features=features,
                 protocol=protocol, view=protocol, scores={math.inf: [0.8], 2.0: [0.5]},
                 preprocessing=f"{features} as {protocol} counts")  # fmt: skip
    cell(folder, experiment="leak", dataset=dataset, features="bow", protocol="sound",
         view="sound-with-label", scores={math.inf: [0.9], 2.0: [0.7]})  # fmt: skip
    given = {"synthetic": dataset != "pokec", "title": "Some profiles", "view": "sound"} | changes
    write_tables(folder, "lrec2022", tables=["table2", "leak", "table5"],
                 statistics=[statistics(dataset, **given)])  # fmt: skip
    write_figures(folder, "lrec2022", {"table2": [dataset], "leak": [dataset]})
    write_site(root)
    return Page(root / "index.html")


def test_synthetic_profiles_have_a_banner_and_the_papers_numbers_apart(tmp_path, cell, statistics):
    page = profiles(tmp_path, cell, statistics)
    assert "embedded synthetic data (Some profiles)" in page.text
    assert "Some profiles, bag of words synthetic data setting optimizer ε published" in page.text
    assert "DP, full graph , SGD, ε = 2 SGD 2 – 0.500 none proved not run 0.500 proved" in page.text
    own, _, paper = page.text.partition("The paper, on Pokec")
    assert "these scores and those above cannot be compared" in paper
    assert "bag of words SGD 0.88 0.62 0.62 0.62 0.63" in paper and "0.88" not in own
    for address in (
        "demo/figures/lrec2022_table2.png",
        "demo/figures/lrec2022_leak.png",
        "demo/tables/lrec2022_table2.csv",
        "demo/tables/lrec2022_leak.tex",
        "demo/figures/lrec2022_table2.pdf",
        "#demo-lrec2022-leak",
    ):
        assert address in page.links


def test_published_scores_stand_beside_pokec_and_nowhere_else(tmp_path, cell, statistics):
    page = profiles(tmp_path, cell, statistics, dataset="pokec")
    assert "The paper, on Pokec" not in page.text
    assert "DP, full graph , SGD, ε = 2 SGD 2 0.62 0.500 none proved not run 0.500" in page.text
    assert "DP, full graph , SGD, ε = 5 SGD 5 0.62 not run not run not run" in page.text


def test_the_leak_says_what_it_means_and_what_was_not_run(tmp_path, cell, statistics):
    text = profiles(tmp_path, cell, statistics).text
    _, _, leak = text.partition("The leak. What the text column that defines the label is worth")
    assert "pets is the label's own definition" in leak
    assert "gain in points +20.0 with DP +10.0 without" in leak
    gained = "SGD 2 +20.0 0.500 proved ε 2.00 per node all 3 runs: ε 4.10 0.700 proved ε 2.00"
    assert gained in leak
    _, _, bert = leak.partition("Some profiles, BERT synthetic data")
    assert "SGD 2 – 0.500 proved ε 2.00 per node all 3 runs: ε 4.10 not run" in bert


def test_how_features_were_made_is_said_for_each_protocol(tmp_path, cell, statistics):
    sentences = ["Users with one pet.", "Counted <b>anew</b>."]
    page = profiles(tmp_path, cell, statistics, preprocessing=sentences)
    expected = (
        "Data, bag of words released: bow as released counts; sound: bow as sound counts "
        "Data, BERT released: bert as released counts; sound: bert as sound counts"
    )
    assert expected in page.text
    assert "Data, pokec_demo Users with one pet. Counted <b>anew</b>." in page.text


def test_statements_name_the_features_and_the_view(tmp_path, cell, statistics):
    profiles(tmp_path, cell, statistics)
    texts = [Page(path).text for path in (tmp_path / "demo" / "statements").glob("*.html")]
    words = "pokec_demo, bag of words, read as sound-with-label, GCN with SGD, sound, full graph, ε"
    assert any(words in text and "of experiment leak" in text for text in texts)
    assert any("run of Table 2" in text and "BERT, read as released" in text for text in texts)


def test_hostile_names_stay_text_in_every_table_of_scores(tmp_path, cell, statistics):
    hostile = "<script>alert('x')</script>\"&"
    kind = "<i>kind<"
    page = profiles(tmp_path, cell, statistics, kinds=("bow", kind), title=hostile,
                    preprocessing=[hostile])  # fmt: skip
    assert page.text.count(f"{hostile}, {kind}") >= 3
    for path in pages_of(tmp_path):
        assert "<script" not in path.read_text().lower() and "<i>" not in path.read_text()
