"""The pages: links, escaping, banners, recorded beside own, statements in full."""

from __future__ import annotations

import gzip
import json
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from colours import contrast
from markup import Tags
from small_shelves import AUDIT, FIGURE, TABLE, shelf
from small_shelves import statement as statement_of

from private_graphs.core.errors import UserError
from private_graphs.privacy.accountants import gdp_epsilon, gdp_mu
from private_graphs.privacy.explain import answers
from private_graphs.report import statement as says
from private_graphs.report.claims import COLUMNS
from private_graphs.report.table import html
from private_graphs.report.words import score
from private_graphs.running.exhibit import Column, Exhibit, Table
from private_graphs.running.study import Sentences
from private_graphs.site import overview, site
from private_graphs.site.overview import (
    Verdict,
    finding,
    guarantees,
    numbers,
    study_numbers,
    study_verdict,
    truth,
    verdicts,
)
from private_graphs.site.publish import write_all
from private_graphs.site.site import write_pages, write_site

HOSTILE = "<script>alert('x')</script>\"&"


class Page(Tags):
    """Links, anchors, tags and visible text of a page."""

    def __init__(self, path: Path) -> None:
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        super().__init__(path.read_text(encoding="utf-8"))
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag, attrs):
        super().handle_starttag(tag, attrs)
        values = dict(attrs)
        self.tags.append((tag, values))
        self.links += [values[name] for name in ("href", "src", "action") if name in values]
        assert values.get("id") not in self.anchors, values["id"]
        self.anchors |= {values["id"]} if "id" in values else set()

    def handle_startendtag(self, tag, attrs):  # of pictures
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.text += f" {data}"


def build(root: Path, *shelves) -> Page:
    """Write the exhibits of shelves and the site; return the index page."""
    for each in shelves:
        write_all(root / each.name / "exhibits" / each.results.study.id, each)
    write_pages(root, shelves)
    return Page(root / "index.html")


def exhibit_page(root: Path, name: str = "table1") -> Page:
    return Page(root / "site" / "small" / f"{name}.html")


def without_results(root: Path) -> set[Path]:
    """Pages that show no result: names of methods, the search, and advice where none is given."""
    return {root / "site" / name for name in ("methods/index.html", "search.html", "which.html")}


def statement_pages(root: Path, name: str = "full") -> list[Page]:
    return [Page(path) for path in root.glob(f"site/*/{name}/*.html")]


def test_every_link_of_every_page_points_to_a_file_or_anchor_that_exists(tmp_path):
    build(tmp_path, shelf(), shelf("recorded"), shelf("demo", dataset="synthetic-npz"))
    pages = [*tmp_path.rglob("*.html")]
    # index, which method, search; verdict, exhibits and every ε; datasets; methods; statements of
    # three protocols and without DP
    assert len(pages) == 3 + 4 + 2 + 2 + 3 * 4
    linked = set()
    for path in pages:
        for link in Page(path).links:
            if link.startswith(("https://", "data:")):
                continue
            address, _, anchor = link.partition("#")
            address = address.partition("?")[0]
            target = (path.parent / address) if address else path
            assert target.is_file(), link
            linked.add(target.resolve())
            assert not anchor or anchor in Page(target).anchors, link
    assert {path.resolve() for path in pages} <= linked


def test_pages_load_nothing_but_the_style_and_the_script_beside_them(tmp_path):
    build(tmp_path, shelf(), shelf("recorded"))
    for path in tmp_path.rglob("*.html"):
        page, up = Page(path), "../" * (len(path.relative_to(tmp_path).parts) - 2)
        up = "site/" if path.name == "index.html" and path.parent == tmp_path else up
        loaded = [values.get("src") for tag, values in page.tags if tag in ("script", "img")]
        loaded += [values["href"] for tag, values in page.tags if tag == "link"]
        index = {"search.js"} if path.name == "search.html" else set()
        assert set(loaded) == {f"{up}site.css", f"{up}site.js", "data:,"} | index
        assert not {"iframe", "object"} & {tag for tag, _ in page.tags}
    for name in ("site.css", "site.js"):
        text = (tmp_path / "site" / name).read_text()
        assert "http" not in text and "url(" not in text and "@import" not in text


def test_hostile_names_stay_text_on_every_page(tmp_path):
    exhibit = Exhibit(
        "table1", f"Table 1. {HOSTILE}", ["table"], lambda results: [HOSTILE], HOSTILE
    )
    changes = {"proof": HOSTILE, "assumptions": [HOSTILE], "preprocessing": HOSTILE}
    hostile = shelf("demo", dataset=HOSTILE, title=HOSTILE, exhibits=(exhibit, FIGURE),
                    missing={"table1": (HOSTILE,)}, **changes)  # fmt: skip
    index = build(tmp_path, hostile)
    for path in {*tmp_path.rglob("*.html")} - without_results(tmp_path):
        page = Page(path)
        scripts = [values for tag, values in page.tags if tag == "script"]
        assert {Path(each["src"]).name for each in scripts} <= {"site.js", "search.js"}
        assert HOSTILE in page.text
    assert index.text.count(HOSTILE) >= 2
    assert exhibit_page(tmp_path).text.count(HOSTILE) >= 5
    assert all(page.text.count(HOSTILE) >= 4 for page in statement_pages(tmp_path, "demo"))


def test_equal_results_give_equal_bytes(tmp_path):
    for name in ("a", "b"):
        build(tmp_path / name, shelf(), shelf("recorded"))
    files = [sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
             for name in ("a", "b")]  # fmt: skip
    assert len(files[0]) == len(files[1]) > 20
    for one, other in zip(*files, strict=True):
        assert one.name == other.name and one.read_bytes() == other.read_bytes()


def test_recorded_results_are_open_and_own_ones_folded(tmp_path):
    index = build(tmp_path, shelf(), shelf("recorded", missing={"table1": ("PubMed: none.",)}))
    assert "from recorded runs" in index.text
    verdict = exhibit_page(tmp_path, "index")
    assert {"full", "recorded"} <= verdict.anchors and "Table 1: PubMed: none." in verdict.text
    page = exhibit_page(tmp_path)
    sets = [(values["data-results"], "open" in values) for tag, values in page.tags
            if tag == "details" and "data-results" in values]  # fmt: skip
    assert sets == [("recorded", True), ("full", False)]
    assert page.text.count("A paragraph of words.") == 2
    assert "PubMed: none." in page.text
    assert "Recorded with private-graphs 0.1.0 on 2026-01-02" in page.text
    assert "snakemake --config scale=full" in verdict.text
    assert {"full", "recorded"} <= page.anchors
    for name in ("full", "recorded"):
        links = {link for link in page.links if link.startswith(f"{name}/") and "#" in link}
        assert len(links) == 6


def test_a_dataset_without_recorded_sizes_has_a_page(tmp_path):
    held = shelf("recorded")
    held.results.statistics.clear()
    build(tmp_path, held)
    assert "Cora" in Page(tmp_path / "site" / "datasets" / "cora.html").text
    (page,) = {path for path in tmp_path.glob("site/small/recorded/gcn*sound*.html")}
    assert "../../datasets/cora.html" in Page(page).links


def test_pages_link_to_guides_only_where_these_are_built(tmp_path):
    note = Table("Scores", shelf().results.rows, [Column("x", lambda row: "1")],
                 notes=("As proved (docs/privacy.md §16) and in docs/leaks.md.",))  # fmt: skip
    exhibit = replace(TABLE, build=lambda results: [note])
    doors = {"docs/index.html", "docs/your-own-graph.html"}
    index = build(tmp_path, shelf(exhibits=(exhibit,)))
    assert not doors & set(index.links)
    assert "documentation, privacy §16" in exhibit_page(tmp_path).text
    (tmp_path / "docs").mkdir()
    for name in ("index", "your-own-graph"):
        (tmp_path / "docs" / f"{name}.html").write_text("<title>A guide</title>")
    index = build(tmp_path, shelf(exhibits=(exhibit,)))
    page = exhibit_page(tmp_path)
    assert doors <= set(index.links) and ".md" not in page.text.replace("table1.md", "")
    assert {"../../docs/privacy.html#s16", "../../docs/leaks.html"} <= set(page.links)
    script = (tmp_path / "site" / "search.js").read_text(encoding="utf-8")
    assert "A guide" in script and "Scores of all settings" in script


def test_scores_that_the_largest_class_reaches_are_grey():
    rows = pd.DataFrame({"dataset": ["cora", "cora"], "mean": [0.3, 0.31], "std": [0.1, 0.1]})
    table = Table("t", rows, [Column("d", lambda row: row["dataset"]), Column("F1", score)])
    (text,) = html(table, largest={"cora": 0.3})
    useless = re.findall(r'<span class="useless">([\d.]+)', text)
    assert useless == ["0.300"] and "useless" not in html(table)[0]


def test_every_epsilon_is_sorted_by_score_at_each_guarantee():
    frame = guarantees(shelf("recorded", audit=AUDIT)).frame
    private = frame[frame["private"]]
    assert list(frame["private"]) == sorted(frame["private"], reverse=True)
    for _, group in private.groupby(["unit", "epsilon"]):
        assert list(group["high"]) == sorted(group["high"], reverse=True)


def test_synthetic_and_private_data_are_marked_and_published_data_are_not(tmp_path):
    build(tmp_path / "a", shelf())
    build(tmp_path / "b", shelf("demo", dataset="synthetic-npz", title="Made up"))
    build(tmp_path / "c", shelf(dataset="my_graph", title="Mine"))
    marks = ("embedded synthetic data (Made up)", "scores and counts of private data (my_graph)")
    for folder, expected in (("a", None), ("b", marks[0]), ("c", marks[1])):
        for path in {*(tmp_path / folder).rglob("*.html")} - without_results(tmp_path / folder):
            text = Page(path).text
            assert [mark for mark in marks if mark in text] == ([expected] if expected else [])


def test_pictures_stand_in_the_page_and_files_can_be_downloaded(tmp_path):
    build(tmp_path, shelf())
    page = exhibit_page(tmp_path, "figure1")
    pictures = [values for tag, values in page.tags if tag == "svg"]
    assert len(pictures) == 2 and all(values["role"] == "img" for values in pictures)
    for name in ("figure1.csv", "figure1_2.csv", "figure1.png", "figure1_2.png", "figure1.md"):
        assert f"../../full/exhibits/small/{name}" in page.links
    assert "../../full/exhibits/small/table1.tex" in exhibit_page(tmp_path).links


def test_verdicts_hold_printed_numbers_against_seeds_and_proofs():
    private = dict.fromkeys(("status",), "proved") | {"epsilon": 2.0, "std": 0.01, "mean": 0.5}
    rows = [
        private | {"protocol": "sound", "published": 0.52, "epsilon_proved": 2.0},
        private | {"protocol": "sound", "published": 0.53, "epsilon_proved": 1.99},
        private | {"protocol": "paper", "published": 0.48, "epsilon_proved": 2.01},
        private | {"protocol": "paper", "published": 0.47, "epsilon_proved": None},
        private | {"protocol": "released", "published": 0.5, "epsilon_proved": 1.0,
                   "status": "refuted", "audit_epsilon_lower": 4.789},
        private | {"protocol": "released", "published": 0.51, "std": math.nan, "epsilon": math.inf,
                   "epsilon_proved": None, "status": "not_private"},
        private | {"protocol": "released", "published": 0.5, "mean": math.nan},
        private | {"protocol": "released", "published": None},
    ]  # fmt: skip
    released, paper, sound = verdicts(["text", Table("t", pd.DataFrame(rows), [])])
    assert (sound.scores, sound.met, sound.hold, sound.answer.tone) == (2, 1, 2, "")
    assert (paper.met, paper.budgets, paper.hold, paper.refuted, paper.unproved) == (1, 2, 0, 0, 2)
    assert paper.larger == 2.01 and paper.answer.tone == "none"
    assert (released.scores, released.met, released.budgets, released.refuted) == (2, 1, 1, 1)
    assert released.answer.tone == "refuted" and "ε > 4.78" in released.answer.text
    table = truth([released, paper, sound])
    assert [table.columns[1].show(row) for row in table.frame.to_dict("records")] == [
        "1 of 2", "1 of 2", "1 of 2"]  # fmt: skip
    assert verdicts(["text", Table("t", pd.DataFrame({"x": [1]}), [])]) == []
    (plain,) = verdicts([Table("t", pd.DataFrame(rows[5:6]), [])])
    assert plain.budgets == 0 and "true" not in plain.answer.text and "0" not in plain.answer.text


CLAIMS = pd.DataFrame(
    [["of_all.cora", "text", "", 2.0, "paper", 70.0, 70.0, 70.0, "fails", ""],
     ["of_all.pubmed", "text", "", 2.0, "paper", 65.0, 65.0, 65.0, "fails", ""],
     ["in_part.cora", "text", "", None, "paper", 1.0, 1.0, 1.0, "holds", ""],
     ["in_part.pubmed", "text", "", None, "paper", 1.0, 0.0, 2.0, "undecided", ""],
     ["by_hand", "text", "", None, "", 0.001, 0.001, 0.001, "fails", ""]],
    columns=COLUMNS,
)  # fmt: skip
LOST = Verdict("released", 4, 3, budgets=2, hold=0, refuted=1, shown=4.789, larger=None)


def saying(**texts):
    """A recorded shelf whose study says other sentences."""
    held = shelf("recorded", audit=AUDIT)
    study = SimpleNamespace(**vars(held.results.study) | {"says": Sentences(**texts)})
    return replace(held, results=replace(held.results, study=study))


def test_sentences_are_filled_from_rows_claims_and_attacks():
    sound = {"study": "small", "protocol": "sound"}
    held = saying(
        prints="a bound of {printed of_all}",
        truth=["{no such number}", "No: {fails of_all} and {fails by_hand}, attack {attack}"],
        instead="{score} at {proved}, all {together}",
        numbers={
            "attack": {"show": "shown", "where": {"protocol": "released"}},
            "score": {"show": "score", "where": sound | {"epsilon": 2}},
            "proved": {"show": "proved", "where": sound | {"epsilon": [2, 3]}},
            "together": {"show": "together", "where": sound | {"epsilon": 2}},
        },
    )
    found = study_verdict(held, [], study_numbers(held, CLAIMS))
    assert found.prints == "a bound of 2"
    assert found.truth == "No: 65 to 70 and 0.001, attack 3.28" and found.tone == "refuted"
    assert found.instead == "0.55 at 2.00, all 2.00" and "no table of scores" in found.scores
    assert found.line("Small") == "Small: a bound of 2 is printed. True? No."
    assert found.because == "65 to 70 and 0.001, attack 3.28"
    assert "holds in_part" not in study_numbers(held, CLAIMS)  # elsewhere it is undecided
    assert study_numbers(held, CLAIMS)["most by_hand"] == "0.01"
    unproved = {"unproved": {"show": "proved", "where": {"protocol": "released"}}}
    assert "unproved" not in study_numbers(saying(numbers=unproved), None)


def test_the_data_of_a_paper_are_not_denied_where_they_were_run():
    held = saying()
    printed = held.results.rows.iloc[:1].assign(source="published", study="small")
    for dataset, words in (("cora", "no table of scores is printed"), ("pokec", "not on the data")):
        rows = pd.concat([held.results.rows, printed.assign(dataset=dataset)], ignore_index=True)
        run = replace(held, results=held.results.with_rows(rows))
        found = study_verdict(run, [], study_numbers(run, None))
        assert found.scores.startswith(words)
        assert ("not run" in found.data) == (dataset == "pokec")


def test_several_guarantees_together_cost_more_than_each():
    held = [statement_of("sound", 2.0), statement_of("sound", 1.0, epsilon_proved=1.0)]
    mu = math.hypot(gdp_mu(1.99998, 1e-5), gdp_mu(1.0, 1e-5))
    assert overview._together(held) == pytest.approx(gdp_epsilon(mu, 1e-5))


def test_the_few_words_of_a_statement_round_a_proof_up_and_a_bound_down():
    assert says.shortly(statement_of("paper", 2.0), 2.0) == "ε = 3.381, claimed 2"
    refuted = statement_of("released", 2.0, audit=AUDIT)
    assert says.shortly(refuted, 2.0) == "refuted: ε > 3.281, claimed 2"


@pytest.mark.parametrize("empty", [{}, "", None])
def test_runs_with_an_empty_setting_keep_the_rest_of_their_line(empty):
    settings = [json.dumps({"printed": empty, "rate": rate, "copies": 24}) for rate in (0.3, 0.1)]
    rows = pd.DataFrame({
        "statement_id": "a", "dataset": "cora", "method": "sgd", "protocol": "sound",
        "settings": settings, "epsilon": 2.0, "group": "small",
    })  # fmt: skip
    line = "cora, sgd, protocol sound, printed –, sampling rate {}, copies 24, ε = 2, {}"
    runs = "1 run of group small"
    assert says.runs_of(rows) == {"a": [line.format("0.1 / 0.3", runs)]}
    rows["selected"] = [True, False]
    assert says.runs_of(rows) == {"a": [line.format("0.3 (of 0.1 / 0.3)", runs)]}


def test_a_study_without_sentences_of_its_own_has_a_verdict():
    truth = study_verdict(shelf("recorded"), [LOST], study_numbers(shelf("recorded"), None)).truth
    assert truth == "No: 1 of 2 printed ε are refuted (an attack shows ε > 4.78)"
    larger = replace(LOST, refuted=0, shown=None, larger=3.38)
    assert (
        "up to 3.38"
        in study_verdict(shelf("recorded"), [larger], study_numbers(shelf("recorded"), None)).truth
    )
    held = replace(LOST, hold=2, refuted=0, shown=None)
    assert (
        study_verdict(shelf("recorded"), [held], study_numbers(shelf("recorded"), None)).tone
        == "e1"
    )
    ours = replace(held, protocol="sound")  # of this project's noise, not of the paper's
    assert (
        study_verdict(shelf("recorded"), [ours], study_numbers(shelf("recorded"), None)).tone
        == "soft"
    )
    assert "not asked" in ours.answer.text


def test_synthetic_data_decide_nothing_of_a_paper_but_calculations_and_attacks():
    sound = {"score": {"show": "score", "where": {"protocol": "sound"}}}
    attack = {"attack": {"show": "shown", "where": {"protocol": "released"}}}
    made_up = replace(saying(numbers=sound | attack), name="demo")
    made_up.results.statistics[0]["synthetic"] = True
    known = numbers(made_up, [LOST], study_numbers(made_up, CLAIMS))
    assert known == {"fails by_hand": "0.001", "most by_hand": "0.01", "attack": "3.28"}


def test_a_table_has_its_finding_as_title():
    held = saying(findings={"figure1": "All is {fails by_hand}"})
    assert finding(held, FIGURE, [], study_numbers(held, CLAIMS)) == "All is 0.001"
    assert (
        finding(held, TABLE, [LOST], study_numbers(held, CLAIMS))
        == "None of the 2 printed ε that were run holds"
    )
    scores = finding(held, TABLE, [replace(LOST, budgets=0)], study_numbers(held, None))
    assert scores.startswith("3 of 4 printed scores")
    assert finding(held, TABLE, [], study_numbers(held, None)) == ""


def test_a_finding_counts_the_points_of_its_table_and_names_their_ends():
    counted = {
        "points": {},
        "strong": {"where": "epsilon <= 2"},
        "asked": {"where": "epsilon < inf", "of": "2 * epsilon", "decimals": 1},
        "none": {"where": "epsilon < 0", "of": "epsilon"},
    }
    texts = ["{none}", "{strong} of {points}, {asked}"]
    held = saying(findings={"table1": texts}, counted={"table1": counted})
    frame = held.blocks(TABLE)[-1].frame
    few = int((frame["epsilon"] <= 2).sum())
    assert finding(held, TABLE, [], study_numbers(held, None)) == f"{few} of {len(frame)}, 4.0"
    elsewhere = {"figure1": {"points": {"exhibit": "table1"}}}
    held = saying(findings={"figure1": "{points}"}, counted=elsewhere)
    assert finding(held, FIGURE, [], study_numbers(held, None)) == str(len(frame))
    made_up = replace(held, name="demo")
    made_up.results.statistics[0]["synthetic"] = True
    assert finding(made_up, FIGURE, [], study_numbers(made_up, None)) == ""


def test_a_finished_run_prints_what_the_site_says(tmp_path):
    assert site.findings(tmp_path) == []
    build(tmp_path, shelf("recorded"))
    (line,) = site.findings(tmp_path)
    assert line == "recorded: Small (2026): no ε is printed. True? Open."
    assert "nothing was run that decides it" in exhibit_page(tmp_path, "index").text


def test_a_statement_has_a_card_with_its_words_and_a_file_with_its_fields(tmp_path):
    held = shelf(protocols=("paper",), epsilons=(1.0, 2.0), audit=AUDIT)
    build(tmp_path, held)
    (page,) = statement_pages(tmp_path)
    assert set(held.statements) <= page.anchors and "rests-1" in page.anchors
    for name, statement in held.statements.items():
        told = answers(statement, statement.epsilon_target)
        assert name in page.text and says.strongly(told) in page.text
        assert all(text in page.text for _, text in says.card(told))
        assert all(fact in page.text for fact in (*statement.assumptions, *statement.public_facts))
    reasons = {"a": "mu = 2·sqrt(500)/34.5 (§3 A)", "b": "2 releases", "c": "3 releases",
               "d": "mu = 2·sqrt(2,000)/7e-05 (§3 A)"}  # fmt: skip
    texts, values = site._formulas(reasons)
    assert texts == ["mu = 2·sqrt(x₁)/x₂ (§3 A)", "x₁ releases"]
    for name, (place, own) in values.items():
        text = texts[place]
        for place, number in enumerate(own):
            text = text.replace("x" + "₁₂₃"[place], number)
        assert text == reasons[name]
    (file,) = tmp_path.rglob("statements-*.json.gz")
    assert json.loads(gzip.decompress(file.read_bytes())) == {
        name: statement.model_dump(mode="json") for name, statement in held.statements.items()
    }


def later(first):
    """A later study, whose exhibit reads the runs of the first."""
    study = SimpleNamespace(**vars(first.results.study) | {"id": "later", "title": "A later study"})
    exhibits = (replace(TABLE, groups=["small.table"]),)
    return replace(first, results=replace(first.results, study=study), exhibits=exhibits)


@pytest.mark.parametrize("together", [None, 7.00001])
def test_every_epsilon_is_never_less_than_the_weakest_statement_says(together):
    made = shelf("recorded", protocols=("sound",), epsilon_proved=2.00001,
                 epsilon_all_runs=together)  # fmt: skip
    table = guarantees(made)
    row, without = table.frame.to_dict("records")
    shown = {each.head: each.show(row) for each in table.columns}
    assert shown["ε proved"].text == "2.01" and shown["ε proved"].tone == "e3"
    assert shown["all runs of a job"] == ("none" if together is None else "7.01")
    assert shown["micro-F1"].text == "0.55"
    assert {each.head: each.show(without) for each in table.columns}["ε proved"].text == "no DP"


@pytest.mark.parametrize("first", [0, 1])
def test_of_several_statements_every_number_is_that_which_promises_least(first):
    weak = {"epsilon_proved": 2.00001, "epsilon_all_runs": 7.1, "epsilon_published": 1.9}
    strong = {"epsilon_proved": 1.5, "epsilon_all_runs": 9.1, "epsilon_published": 1.2}
    bounds = AUDIT | {"epsilon_lower": 1.4}, AUDIT | {"epsilon_lower": 1.3}
    held = [shelf("recorded", protocols=("paper",), epsilons=(2.0,), audit=audit, **each)
            for each, audit in zip((weak, strong), bounds, strict=True)]  # fmt: skip
    one, other = held[first], held[1 - first]
    rows = pd.concat([one.results.rows, other.results.rows], ignore_index=True)
    told = {**one.results.statements, **other.results.statements}
    table = guarantees(replace(one, results=replace(one.results, rows=rows, statements=told)))
    (row,) = table.frame.to_dict("records")
    shown = {each.head: each.show(row) for each in table.columns}
    assert (shown["ε proved"].text, shown["ε proved"].tone) == ("2.01", "refuted")
    assert (shown["all runs of a job"], shown["ε claimed"]) == ("9.10", "1.90")
    assert shown["an attack shows"] == "> 1.40"


def test_refuted_claims_are_marked_among_every_epsilon():
    table = guarantees(shelf(audit=AUDIT))
    rows = [row for row in table.frame.to_dict("records") if row["private"]]
    tones = {row["protocol"]: row["tone"] for row in rows}
    assert tones == {"released": "refuted", "paper": "refuted", "sound": "e3"}


def test_pages_can_be_used_with_a_keyboard_and_read_aloud(tmp_path):
    build(tmp_path, shelf())
    for path in tmp_path.rglob("*.html"):
        page = Page(path)
        assert ("html", {"lang": "en"}) in page.tags
        assert all("scope" in values for tag, values in page.tags if tag == "th")
        for _, values in page.tags:
            if "scroll" in (values.get("class") or "").split():
                assert values["tabindex"] == "0" and values["role"] == "region"
                assert values["aria-label"]
            if values.get("type") in ("search", "checkbox"):
                assert values["aria-label"]
        levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
        steps = [after - before for before, after in pairwise([0, *levels])]
        assert levels[0] == 1 and max(steps) == 1, f"{path.name}: a level of headings is missing"
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<th[^>]*>\s*</th>", text), f"{path.name}: a heading without words"
        for part in text.split('class="results"'):
            regions = re.findall(r'role="region" tabindex="0" aria-label="([^"]*)"', part)
            assert len(regions) == len(set(regions)), f"{path.name}: two regions of one name"


def test_colours_of_text_differ_enough_from_what_lies_behind_it(tmp_path):
    """At least 4.5 to 1, in light and in dark mode, on a page and on a card."""
    build(tmp_path, shelf())
    style = (tmp_path / "site" / "site.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root {[^}]*}", style)
    for rules in (light, dark):
        shades = dict(re.findall(r"--([\w-]+): ?(#[0-9a-f]{6});", rules))
        texts = ("ink", "soft", "link", "e1", "e3", "e10", "e20", "vacuous", "none", "refuted")
        pairs = [(text, behind) for text in texts for behind in ("page", "card")]
        for text, behind in [*pairs, ("ink", "banner"), ("link", "banner"), ("page", "ink"),
                             ("banner-line", "page")]:  # fmt: skip
            assert contrast(shades[text], shades[behind]) >= 4.5, (text, behind)


def test_pages_that_nothing_is_made_of_any_more_are_removed(tmp_path):
    stale = tmp_path / "site" / "small" / "full" / "000000000000.html"
    stale.parent.mkdir(parents=True)
    stale.write_text("old")
    (tmp_path / "site" / "assets").mkdir()
    own = [tmp_path / "site" / "notes.html", tmp_path / "site" / "assets" / "app.html"]
    for path in own:
        path.write_text("of the owner of the folder")
    build(tmp_path, shelf())
    build(tmp_path, shelf(exhibits=(FIGURE,)))
    assert all(path.exists() for path in own), "only pages of studies are removed"
    assert not stale.exists() and not (tmp_path / "site" / "small" / "table1.html").exists()
    assert not (tmp_path / "full" / "exhibits" / "small" / "table1.csv").exists()


def test_damaged_rows_beside_exhibits_are_named(tmp_path):
    (tmp_path / "demo" / "exhibits" / "lrec2022").mkdir(parents=True)
    (tmp_path / "demo" / "exhibits" / "lrec2022" / "table1.md").write_text("x")
    (tmp_path / "demo" / "rows.parquet").write_text("junk")
    with pytest.raises(UserError, match="rows.parquet: not readable"):
        write_site(tmp_path, tmp_path / "nothing")


def test_a_page_of_another_origin_stays(tmp_path, root):
    page = tmp_path / "index.html"
    page.write_text("<title>My home page</title>", encoding="utf-8")
    with pytest.raises(UserError, match="index.html: there is a page of another origin"):
        write_site(tmp_path, root / "recorded")
    assert page.read_text(encoding="utf-8") == "<title>My home page</title>"


def test_nothing_to_show_is_an_error(tmp_path):
    with pytest.raises(UserError, match="no results to show"):
        write_pages(tmp_path, [])
