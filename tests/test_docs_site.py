"""The documentation as a site: it builds without a warning, and all its links lead somewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import accumulate
from os.path import normpath
from pathlib import Path
from urllib.parse import unquote

import pytest

from private_graphs.running.catalog import exhibits_by_name
from private_graphs.site.search import search_index

PROSE = ("p", "li", "td")
"""Elements whose text may name a section of the proofs."""


class Page(HTMLParser):
    """Links, anchors and external files of a page, and the sections (§) that are no link."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.unlinked: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given["id"]} if given.get("id") else set()
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag == "form":
            self.links.append(given["action"])
        if tag in ("script", "img", "link") and (file := given.get("src") or given.get("href")):
            self.loaded.append(file)
        self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data):
        if set(PROSE) & set(self.open) and not {"a", "code", "pre", "title"} & set(self.open):
            self.unlinked += re.findall(r"§[0-9][0-9.]*", data)


@pytest.fixture(scope="module")
def site(root, tmp_path_factory) -> Path:
    """The pages as ``make site`` builds them, but those that are made of docstrings."""
    pytest.importorskip("sphinx", reason="needs the extra 'docs'")
    folder = tmp_path_factory.mktemp("site") / "docs"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q",
               "-D", "exclude_patterns=api/[!ds]*,api/studies*", "-d", folder.parent / "doctrees",
               
               root / "docs", folder]  # fmt: skip
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site) -> dict[str, Page]:
    """Every page by its address."""
    return {path.relative_to(site).as_posix(): Page(path.read_text(encoding="utf-8"))
            for path in site.rglob("*.html") if "_static" not in path.parts}  # fmt: skip


def result_page(address: str) -> bool:
    """Return whether the pages of results have an address, told from the folder of all pages."""
    if address in ("index.html", "site/which.html", "site/search.html"):
        return True
    _, study, page = address.split("/")
    return page in {f"{name}.html" for name in (*exhibits_by_name(study), "privacy", "claims")}


def test_every_link_leads_to_a_page_and_its_heading(site, pages):
    reached, wrong = {"index.html"}, []
    for name, page in pages.items():
        for link in (*page.links, *page.loaded):
            if re.match(r"\w+:", link):
                wrong += [(name, link)] if link in page.loaded else []
                continue
            address, _, anchor = link.partition("#")
            target = normpath(Path("docs", name).parent / unquote(address).partition("?")[0])
            if not address:
                target = f"docs/{name}"
            if not target.startswith("docs/"):
                wrong += [] if result_page(target) else [(name, link)]
                continue
            inside = target.removeprefix("docs/")
            reached.add(inside)
            if not (site / inside).is_file():
                wrong.append((name, link))
            elif anchor and inside in pages and unquote(anchor) not in pages[inside].anchors:
                wrong.append((name, link))
    assert wrong == []
    moved = {name for name in pages if 'http-equiv="refresh"' in (site / name).read_text()}
    assert "results.html" in moved and not moved & reached
    assert set(pages) - reached == moved


def test_every_section_that_a_page_names_is_a_link(pages):
    assert {name: page.unlinked for name, page in pages.items() if page.unlinked} == {}
    numbered = [int(each[1:]) for each in pages["privacy.html"].anchors
                if re.fullmatch(r"s\d+", each)]  # fmt: skip
    assert sorted(numbered) == list(range(max(numbered) + 1)) and len(numbered) > 10


def test_no_words_of_an_attribute_are_taken_for_its_type(site):
    text = (site / "api" / "documents.html").read_text(encoding="utf-8")
    assert "Parameters" in text and 'Type<span class="colon">' not in text


def found(index: str, word: str) -> dict[str, str]:
    """Return the titles of the pages that an index has for a word, by address."""
    known = json.loads(re.fullmatch(r"const INDEX = (.*);\n", index)[1])
    pages = (known["pages"][place] for place in accumulate(known["words"].get(word, ())))
    return {address: title for address, title, _, _ in pages}


@pytest.mark.parametrize("word", ["epsilon", "hospital", "ledger", "clipping", "opacus", "ε"])
def test_the_search_finds_a_word_in_the_guides_and_in_results(site, word):
    result = site.parent / "site" / "small" / "table1.html"
    page = "<title>A table</title><main><p>What clipping and a ledger cost, ε = 2.</p></main>"
    index = search_index(site.parent, {result: page})
    assert any(address.startswith("docs/") for address in found(index, word))
    if word in ("clipping", "ledger", "ε"):
        assert found(index, word)["site/small/table1.html"] == "A table"


def test_no_page_names_a_guide_by_its_file(site):
    for path in (path for path in site.rglob("*.html") if "_static" not in path.parts):
        text = re.sub(r"<pre\b.*?</pre>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert re.findall(r">[^<]*docs/[\w/-]+\.md", text) == [], path


def test_every_link_of_the_finished_site_leads_somewhere(request, root, tmp_path):
    """Everything from nothing: the pages of all recorded results, and the guides."""
    if not request.config.getoption("--demo"):
        pytest.skip("takes two minutes: make test-all")
    command = [sys.executable, "-m", "private_graphs", "site", str(tmp_path)]
    built = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    todo, pages, wrong = {tmp_path / "index.html"}, {}, []
    while todo:
        path = todo.pop()
        pages[path] = page = Page(path.read_text(encoding="utf-8"))
        for link in (*page.links, *page.loaded):
            address, _, anchor = link.partition("#")
            if re.match(r"\w+:", link):
                continue
            target = Path(normpath(path.parent / unquote(address).partition("?")[0]))
            target = target if address else path
            if not target.is_file():
                wrong.append((path.relative_to(tmp_path), link))
            elif target.suffix == ".html" and target not in pages:
                todo.add(target)
    assert wrong == []
    assert set(tmp_path.rglob("*.html")) - set(pages) == set(), "no link leads there"
    for path, page in pages.items():
        for link in page.links:
            address, _, anchor = link.partition("#")
            target = Path(normpath(path.parent / unquote(address).partition("?")[0]))
            if anchor and not re.match(r"\w+:", link):
                assert unquote(anchor) in pages[target if address else path].anchors, (path, link)
