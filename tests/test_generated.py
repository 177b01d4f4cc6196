"""Pages and schemas show what the code computes."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from private_graphs.cli import COMMANDS, application
from private_graphs.core.errors import UserError
from private_graphs.report.claims import claims_of, judged, read_claims
from private_graphs.report.leaks import blocks
from private_graphs.running.exhibit import Table
from private_graphs.running.study import SCHEMAS, load_study, schema_text, study_ids
from private_graphs.site.advice import advised


@pytest.fixture(scope="module")
def tables(root: Path):
    """The script that writes the generated parts, as a module."""
    spec = importlib.util.spec_from_file_location("tables", root / "docs" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_table_is_in_step(tables, root: Path) -> None:
    for page, made in tables.PAGES.items():
        text = (root / page).read_text(encoding="utf-8")
        assert tables.refreshed(tables.text_of(page), made) == text, f"{page}: run: make docs"


@pytest.mark.parametrize("study", study_ids())
def test_recorded_verdicts_are_in_step(tables, study: str) -> None:
    shelf, claims = tables.prose.shelf(study), claims_of(study)
    there, made = read_claims(claims, shelf.verdicts), judged(claims, shelf.results)
    pd.testing.assert_frame_equal(there, made, check_dtype=False, rtol=1e-5, obj="make docs")


@pytest.mark.parametrize("study", study_ids())
def test_every_claim_is_judged_or_says_why_not(tables, study: str) -> None:
    frame = tables.prose.frame(f"claims/{study}")
    judged = set(frame.loc[frame["verdict"] != "not_run", "id"].str.split(".").str[0])
    silent = [each for each in claims_of(study) if each.id not in judged]
    assert [each.id for each in silent if not each.because] == []


def test_the_picture_of_the_finding_is_in_step(tables, root: Path) -> None:
    text = (root / tables.PICTURE).read_text(encoding="utf-8")
    assert text == tables.overview_picture(), "run: make docs"


def test_the_picture_of_noise_in_many_dimensions_is_in_step(tables, root: Path) -> None:
    text = (root / tables.NOISE).read_text(encoding="utf-8")
    assert text == tables.newer_papers.profiles(), "run: make docs"


def test_what_replicas_of_newer_papers_release_is_in_step(tables, mirror) -> None:
    kept, found = tables.newer_papers.kept(), tables.newer_papers.measure(mirror)
    assert kept.keys() == found.keys(), "run: python docs/tables.py --mirror DIR"
    for name in kept.keys() - {"twins"}:
        assert kept[name] == found[name], name
    for equal, different in found["twins"].values():
        assert equal < 1e-12 < 1 < different


def test_the_picture_of_the_first_page_has_the_words_of_the_page(tables, tmp_path) -> None:
    screenshot = tables.screenshot
    page = screenshot.write_page(tmp_path).read_text(encoding="utf-8")
    words = screenshot.words_of(page)
    assert words == screenshot.WORDS.read_text(encoding="utf-8"), "run: make docs, with Chromium"
    answer = tables.prose.shelf("lrec2022").answer
    for table in (answer.printed, answer.instead):
        for cell in (cell for _, cells in table.lines for cell in cells):
            assert screenshot.words_of(page.replace(f">{cell.text}<", ">.99<")) != words


def test_the_scores_of_the_first_page_are_means_of_recorded_rows(tables, root: Path) -> None:
    answer = tables.prose.shelf("lrec2022").answer
    rows = pd.read_parquet(root / "recorded" / "lrec2022" / "rows.parquet")
    rows = rows[(rows["group"] == "frontier") & (rows["scenario"] == "graph")]
    lines = {
        (answer.method, 0, 2.0): 0, ("public_only", 0, 0.0): 1,
        (answer.method, 500, 2.0): 2, ("public_only", 500, 0.0): 3,
    }  # fmt: skip
    for (method, labels, epsilon), place in lines.items():
        at = (rows["method"] == method) & (rows["validation_labels"] == labels)
        means = rows[at & (rows["epsilon"] == epsilon)].groupby("dataset")["test_micro_f1"].mean()
        assert [cell.text for cell in answer.instead.lines[place][1]] == [
            f"{mean:.2f}".removeprefix("0") for mean in means]  # fmt: skip


def test_the_method_that_is_named_is_nowhere_below_public_data(root: Path) -> None:
    rows = pd.read_parquet(root / "recorded" / "lrec2022" / "rows.parquet")
    rows = rows[(rows["group"] == "frontier") & (rows["scenario"] == "graph")]
    by = ["dataset", "validation_labels"]
    ours, public = (
        rows[(rows["method"] == method) & (rows["epsilon"] == epsilon)].groupby(by)["test_micro_f1"]
        for method, epsilon in (("class_sums", 2.0), ("public_only", 0.0))
    )
    assert len(ours) == len(public) == 12 and (ours.mean() >= public.mean()).all()


def test_every_verdict_is_a_few_words_and_has_a_reason(tables) -> None:
    for study in study_ids():
        verdict = tables.StudyEntry([tables.prose.shelf(study)]).verdict
        assert len(verdict.verdict.split()) <= 4 and verdict.because, study
        assert len(verdict.because) <= 100 and len(verdict.prints) <= 60, study
    ((exhibit, newer),) = tables.StudyEntry([tables.prose.shelf("lrec2022")]).others
    assert newer.called.endswith("2026") and newer.tone == "refuted"
    assert newer.verdict == "No for 3 of 5" and "no text beyond abstracts" in newer.because


def test_the_advice_has_scores_and_commands_that_exist(tables) -> None:
    ends = [end for study in study_ids() for end in advised(tables.prose.shelf(study))]
    assert len(ends) == sum(len(load_study(study).advice) for study in study_ids()) >= 6
    for end in ends:
        command, *rest = shlex.split(end.advice.command)
        assert command == "private-graphs" and rest[0] in COMMANDS
        options = {flag for flag in rest if flag.startswith("--")}
        helped = CliRunner().invoke(application([rest[0]]), [rest[0], "--help"]).stdout
        assert options <= set(re.findall(r"--[\w-]+", helped)), end.advice.command
        assert [own for _, _, own in end.lines].count(True) == 1
        assert float(end.proved) <= end.advice.where["epsilon"]


def test_without_a_browser_the_picture_and_its_words_are_kept(
    tables, tmp_path, monkeypatch
) -> None:
    screenshot = tables.screenshot
    picture, words = tmp_path / "picture.png", tmp_path / "picture.txt"
    picture.write_bytes(b"earlier")
    words.write_text("earlier words\n", encoding="utf-8")
    for name, value in (("ROOT", tmp_path), ("PICTURE", picture), ("WORDS", words)):
        monkeypatch.setattr(screenshot, name, value)
    page = tmp_path / "index.html"
    page.write_text("<html><body><h1>New words</h1></body></html>", encoding="utf-8")
    monkeypatch.setattr(screenshot, "write_page", lambda folder: page)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CHROMIUM", raising=False)
    assert re.search("picture.png is kept and shows earlier words: no Chromium", screenshot.renew())
    assert picture.read_bytes() == b"earlier" and words.read_text() == "earlier words\n"


def test_pages_name_lines_that_are_there(tables) -> None:
    for page in tables.LINED:
        text = tables.text_of(page)
        assert tables.lines.with_lines(text) == text, f"{page}: run: make docs"
        assert len(tables.lines.PLACE.findall(text)) >= 20, page
    with pytest.raises(UserError, match="no_such_function"):
        tables.lines.line_of("src/private_graphs/running/plan.py", "no_such_function")


def test_numbers_of_results_are_made_and_not_typed(root: Path) -> None:
    """A score that is typed into a sentence stays when the rows change."""
    text = (root / "docs/templates/studies/lrec2022.md.j2").read_text(encoding="utf-8")
    text = text.partition("\n## Recorded results")[2].partition("\nAuthors who")[0]
    assert text.count("{{") > 50
    said = re.sub(r"{{.*?}}|{%.*?%}|\| \*[^*]+\* \|", "", text, flags=re.DOTALL)  # as printed
    assert re.findall(r"(?<![\w.])\.\d+\b", said) == []


def test_a_sentence_about_no_row_and_about_several_is_refused(tables) -> None:
    where = {"dataset": "cora", "protocol": "released"}
    with pytest.raises(UserError, match="no row with"):
        tables.prose.at("lrec2022/table1", dataset="nowhere")
    with pytest.raises(UserError, match="expected one"):
        tables.prose.at("lrec2022/table1", **where)
    assert tables.prose.off("lrec2022/table1", protocol="released", dataset="pubmed") != ".000"
    assert tables.prose.short(0.0404) == ".04" and tables.prose.short(-0.5, 1) == "-.5"
    assert tables.prose.short(1.25) == "1.25" and tables.prose.short(110, 0) == "110"


def test_a_bound_on_epsilon_is_rounded_to_its_side(tables) -> None:
    place = {"dataset": "cora", "protocol": "paper", "optimizer": "sgd"}
    place["setting"] = "DP, full graph"
    file, prose = "lrec2022/table1", tables.prose
    [value] = prose.rows(file, **place)["epsilon_proved"]
    assert 0 <= float(prose.proved(file, **place)) - value < 0.01
    for read in (prose.at, prose.span, prose.most):
        for column in (*prose.UPPER, *prose.LOWER):
            with pytest.raises(UserError, match=r"a bound on ε; expected (proved|shown)\("):
                read(file, column, **place | {"protocol": "released"})


def test_no_attack_lies_above_what_a_proof_allows_with_its_whole_interval(tables) -> None:
    rate = re.compile(r"(\S+); (\S+) to (\S+); (\d[^; ]*)(?=;|$)")
    found = []
    for path in sorted(tables.ROOT.glob("recorded/*/rows.parquet")):
        results = tables.prose.shelf(path.parent.name).own
        for block in blocks(results) if len(results.leaks) else ():
            if isinstance(block, Table) and "on every model" in block.title:
                for row in block.shown.to_dict("records"):
                    text = "; ".join(str(column.show(row)) for column in block.columns)
                    found += [list(map(float, each)) for each in rate.findall(text)]
    assert all(low <= value <= high for value, low, high, _ in found)
    assert any(value > allowed for value, _, _, allowed in found)  # by chance
    assert all(low <= allowed for _, low, _, allowed in found)


def test_one_job_has_one_number_wherever_it_stands(tables) -> None:
    """PubMed, SGD, no DP, the authors' code: three run groups made it, five runs each."""
    place = {"dataset": "pubmed", "protocol": "released", "optimizer": "sgd"}
    runs = tables.prose.shelf("lrec2022").results.runs
    for name, value in {**place, "epsilon": float("inf"), "splits": 1, "train_fraction": 1}.items():
        runs = runs[runs[name] == value]
    assert list(runs.groupby("group").size()) == [5, 5, 5]
    at = {
        "lrec2022/table1": {"setting": "no DP"},
        "lrec2022/figure1_2": {"train_fraction": 1},
        "lrec2022/figure3_without_dp_2": {"splits": 1},
        "preprint2021/table2": {"setting": "no DP"},
        "preprint2021/figure1_2": {"train_fraction": 1},
    }
    for file, more in at.items():
        [row] = tables.prose.rows(file, **place, **more).to_dict("records")
        assert row["n"] == 15, file
        assert row["mean"] == pytest.approx(runs["test_micro_f1"].mean(), abs=1e-6), file


def test_the_counts_of_datasets_are_in_step(tables, root: Path, mirror) -> None:
    assert tables.counts(mirror) == (root / tables.COUNTS).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schemas_are_those_of_the_models(name: str, root: Path) -> None:
    path = root / "workflow" / "schemas" / f"{name}.schema.json"
    assert path.read_text(encoding="utf-8") == schema_text(name), "run: make docs"


def test_sections_that_code_cites_exist(root: Path) -> None:
    text = (root / "docs" / "privacy.md").read_text(encoding="utf-8")
    there = re.findall(r"^(?:## |\*\*)(\d+(?:\.\d+)?)[. ]", text, re.MULTILINE)
    released = text.partition("\n## 4. ")[2].partition("\n## ")[0]
    there += [f"4.{item}" for item in re.findall(r"^(\d+)\. ", released, re.MULTILINE)]
    files = [*root.glob("src/**/*.py"), *root.glob("tests/**/*.py")]
    cited = {
        found
        for path in files
        for found in re.findall(r"privacy\.md\W+§(\d+(?:\.[1-9])?)", path.read_text("utf-8"))
    }
    assert len(cited) > 8 and cited <= set(there), cited - set(there)
