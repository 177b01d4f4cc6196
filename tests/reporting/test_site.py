"""The pages: links, escaping, banners, narrowed runs, statements in full."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from private_graphs.errors import UserError
from private_graphs.privacy.statements import PrivacyStatement
from private_graphs.reporting.figures import write_figures
from private_graphs.reporting.site import write_site
from private_graphs.reporting.statement_view import SECTIONS
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


def test_every_link_of_every_page_points_to_a_file_or_anchor_that_exists(
    tmp_path, cell, statistics
):
    build(tmp_path, cell, statistics)
    build(tmp_path, cell, statistics, scale="demo", synthetic=True)
    pages = [tmp_path / "index.html", *tmp_path.glob("*/statements/*.html")]
    assert len(pages) == 1 + 2 * 5  # without DP, released and paper state the same
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
    for path in [tmp_path / "index.html", *tmp_path.glob("*/statements/*.html")]:
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
    page = build(tmp_path, cell, statistics, epsilon_proved=None, status="refuted")
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
        "Proved: ε = 3.3802 at δ = 1e-5 per node (replace). That covers the model, not the "
        "predictions that were scored. All 3 runs together: ε = 4.1000. ε = 2.0000 is claimed.",
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
    assert sum("Trained without differential privacy" in text for text in texts) == 2


def test_tables_are_accessible(tmp_path, cell, statistics):
    page = build(tmp_path, cell, statistics)
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
