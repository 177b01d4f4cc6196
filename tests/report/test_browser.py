"""Pages in a browser: they load from disk, switch, sort and filter, and fit every window."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from small_shelves import AUDIT, shelf

from private_graphs.report.table import html, layout_html
from private_graphs.running.exhibit import Column, Table
from private_graphs.site.publish import write_all
from private_graphs.site.shelf import recorded_shelf
from private_graphs.site.site import write_pages

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--hide-scrollbars --enable-logging=stderr --virtual-time-budget=3000 --dump-dom"
).split()
PROBE = """
<script>
addEventListener("load", async () => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const boxes = all(".scroll");
  const told = {wide: document.documentElement.scrollWidth, window: innerWidth};
  told.cut = boxes.map((box) => box.scrollWidth - box.clientWidth);
  told.tall = boxes.map((box) => box.scrollHeight);
  told.hidden = boxes.map((box) => box.scrollHeight - box.clientHeight);
  const columns = (table, place) => [...table.tBodies[0].rows].filter((row) => !row.hidden)
    .map((row) => row.cells[place].textContent);
  const press = (text, within) => all("button", within)
    .find((each) => each.textContent.startsWith(text))?.click();
  told.open = all("details[data-results]").filter((each) => each.open && !each.hidden)
    .map((each) => each.dataset.results);
  told.pressed = all("[data-show][aria-pressed=true]").map((each) => each.dataset.show);
  const panels = all("details[data-results]:not([hidden]) .tables").at(-1);
  const table = panels?.querySelector("table");
  const first = [...(table?.tHead.rows[0].cells ?? [])];
  told.saved = all("figure a[download]").map((each) => each.download);
  told.stacked = table && getComputedStyle(table.rows[0].cells[0]).display === "none"
    || table && getComputedStyle(table.tHead).display === "none";
  told.labels = [...new Set(all("td[data-head]").map((each) => each.dataset.head))];
  const place = first.findIndex((cell) => cell.textContent === "ε asked");
  if (place >= 0) {
    const protocol = first.findIndex((cell) => cell.textContent === "protocol");
    told.protocols = columns(table, protocol);
    const shown = first.findIndex((cell) => cell.textContent === "an attack shows");
    press("ε asked", table.tHead);
    told.up = columns(table, place);
    press("ε asked", table.tHead);
    told.down = columns(table, place);
    press("an attack shows", table.tHead);
    told.known = columns(table, shown);
    press("an attack shows", table.tHead);
    told.unknown = columns(table, shown);
    press("corrected", panels);
    told.filtered = columns(table, protocol);
    told.address = location.search;
    const scroll = table.closest(".scroll");
    scroll.style.overflow = "auto";
    scroll.style.maxHeight = "8rem";
    scroll.scrollTop = 60;
    const head = table.tHead.getBoundingClientRect().top - scroll.getBoundingClientRect().top;
    told.head = Math.round(head);
  }
  const next = document.querySelector("[data-show]:not([aria-pressed=true]):not([disabled])");
  if (next) {
    next.focus();
    next.click();
    told.after = all("details[data-results]:not([hidden])").map((each) => each.dataset.results);
    told.kept = location.search;
    told.links = all("nav a").filter((each) => !each.search.includes("results=demo")).length;
  }
  const grouped = all("table").find((each) => each.tBodies.length > 1);
  if (grouped) {
    press("score", grouped.tHead);
    const first = (row) => row.cells[0].textContent;
    told.grouped = [...grouped.tBodies].map((group) => [...group.rows].map(first));
  }
  told.struck = [...new Set(all("s").map((each) => getComputedStyle(each, "::before").content))];
  told.stops = all("a[href], button, input, summary").filter((each) => each.tabIndex >= 0
    && each.checkVisibility() && each.getBoundingClientRect().right < 0
    && !(each.matches(".skip") || innerWidth < 832 && each.matches("#menu"))).length;
  parent.postMessage(JSON.stringify(told), "*");
});
</script>
"""
"""What a reader would do: look, sort the last table up and down, keep one protocol, scroll, and
switch to the other results."""

FRAME = """<!doctype html><pre id="probe"></pre><script>
const told = {};
addEventListener("message", (one) => {
  const at = [...document.querySelectorAll("iframe")].findIndex(
    (each) => each.contentWindow === one.source);
  told[at] = JSON.parse(one.data);
  document.querySelector("pre").textContent = JSON.stringify(told);
});
</script>%s"""
"""Windows of any width: the browser itself has a least one."""
HOSTILE = (
    """</td><img src=x onerror="console.error('run')"><script>console.error('run')</script>"&"""
)
"""Text of results that would be seen to run: no page may write to the console."""

pytestmark = pytest.mark.skipif(
    not Path(CHROMIUM).is_file(),
    reason=f"no Chromium at {CHROMIUM}: install it, or name it in the environment as CHROMIUM",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site with own, recorded and synthetic results."""
    root = tmp_path_factory.mktemp("site")
    demo = shelf("demo", dataset="synthetic-npz", title=f"Made up {HOSTILE}", proof=HOSTILE,
                 assumptions=[HOSTILE], preprocessing=HOSTILE)  # fmt: skip
    shelves = [shelf("recorded", audit=AUDIT), demo]
    for each in shelves:
        write_all(root / each.name / "exhibits" / each.results.study.id, each)
    pictures = tmp_path_factory.mktemp("pictures")
    (root / "recorded/exhibits/small").rename(pictures / "small")  # not beside the pages
    write_pages(root, shelves, recorded_pictures=pictures)
    layouts, wide = [], []
    for study, name in (("lrec2022", "table1"), ("progap", "table2"), ("inversion", "table4_1")):
        found = recorded_shelf(Path(__file__).parents[2] / "recorded" / study)
        table = found.blocks({each.name: each for each in found.exhibits}[name])[0]
        wide += [
            f'<div class="scroll" style="width: {PAGE}px">{text}</div>' for text in html(table)
        ]
        layouts.append(f'<div class="scroll" style="width: {PAGE}px">{layout_html(table)}</div>')
    head = '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="site.css">'
    page = f"{head}<body>{''.join([*layouts, *wide])}</body>"
    (root / TABLES).write_text(page, encoding="utf-8")
    heads = [f'<th data-group="{name}">{name}<small>verdict</small></th>' for name in GROUPS]
    row = "".join(f'<td data-head="{name}">holds</td>' for name in GROUPS)
    cards = (f'<table class="sortable stacked"><thead><tr><th>claim</th><th>printed</th>'
             f'{"".join(heads)}</tr></thead><tbody><tr><th scope="row">one</th>'
             f"<td>2</td>{row}</tr></tbody></table>")  # fmt: skip
    script = '<script src="site.js"></script>'
    frame = pd.DataFrame(
        {"unit": ["edge", "edge", "node"], "method": list("abc"), "score": [3, 1, 2]}
    )
    columns = [Column(name, lambda row, name=name: str(row[name]), above=name == "unit")
               for name in frame]  # fmt: skip
    cards += "".join(html(Table("Groups", frame, columns)))
    page = f'{head}<body><div class="tables">{cards}</div>{script}</body>'
    (root / CARDS).write_text(page, encoding="utf-8")
    return root


PAGES = (
    "index.html", "site/small/table1.html", "site/small/figure1.html", "site/small/privacy.html",
    "site/methods/gcn.html", "site/datasets/cora.html", "site/small/recorded/*.html",
)  # fmt: skip
PRIVACY, FIGURE = "site/small/privacy.html", "site/small/figure1.html"
WINDOWS = [(page, width, "") for page in PAGES for width in (390, 1280)]
GROUPS = ("authors’ code", "as described", "corrected")
TABLES, CARDS, PAGE = "site/tables.html", "site/cards.html", 990
"""Tables of the papers with the most columns, in the width that a page of 1280 pixels has."""
WINDOWS += [(TABLES, 1280, ""), (PRIVACY, 1280, "?dataset=cora&protocol=as described")]
WINDOWS += [(PRIVACY, 1280, "?results=demo"), (CARDS, 390, "")]


@pytest.fixture(scope="module")
def opened(site, tmp_path_factory):
    """Open all windows from disk in one browser; return what each probe measured, and what the
    pages wrote to the console."""
    frames = []
    for address, width, query in WINDOWS:
        page = sorted(each for each in site.glob(address) if "probed-" not in each.name)[0]
        text = page.read_text(encoding="utf-8").replace("</body>", f"{PROBE}</body>")
        probed = page.with_name(f"probed-{page.name}")
        probed.write_text(text, encoding="utf-8")
        source = probed.relative_to(site).as_posix() + query.replace("&", "&amp;")
        frames.append(f'<iframe src="{source}" width="{width}" height="900" style="border:0">'
                      "</iframe>")  # fmt: skip
    frame = site / "frame.html"
    frame.write_text(FRAME % "".join(frames), encoding="utf-8")
    profile = tmp_path_factory.mktemp("profile")
    command = [CHROMIUM, *QUIET, f"--user-data-dir={profile}", "--window-size=1400,900"]
    done = subprocess.run(
        [*command, frame.as_uri()], capture_output=True, text=True, timeout=300, check=True
    )
    found = re.search(r'<pre id="probe">(.+?)</pre>', done.stdout, re.S)
    assert found, f"no script ran to its end: {done.stderr[-500:]}"
    measured = json.loads(found[1].replace("&gt;", ">").replace("&amp;", "&"))
    told = {window: measured[str(place)] for place, window in enumerate(WINDOWS)}
    return told, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture
def told(opened):
    """What the probes measured."""
    return opened[0]


def test_pages_open_from_disk_without_an_error_and_fit(opened):
    told, console = opened
    assert console == []
    for (address, width, _), measured in told.items():
        assert measured["wide"] <= measured["window"] == width, address


def test_a_table_is_sorted_and_filtered_by_its_reader_and_by_a_link(told):
    table = told[PRIVACY, 1280, ""]
    assert table["up"] == ["2", "2", "2", "∞", "∞", "∞"] and table["down"] == table["up"][::-1]
    assert table["filtered"] == ["corrected"] * 2 and "protocol=corrected" in table["address"]
    assert set(table["protocols"]) == {"authors’ code", "as described", "corrected"}
    assert set(told[PRIVACY, 1280, "?dataset=cora&protocol=as described"]["protocols"]) == {
        "as described"
    }


def test_no_table_hides_rows(told):
    assert max(max(window["hidden"], default=0) for window in told.values()) <= 1


def test_missing_values_are_last_in_both_directions(told):
    table = told[PRIVACY, 1280, ""]
    for order in (table["known"], table["unknown"]):
        assert order.index("–") == 2 and set(order[2:]) == {"–"}


def test_heads_stay_and_tables_of_many_columns_are_stacked_on_a_phone(told):
    assert told[PRIVACY, 1280, ""]["head"] in (0, 1) and not told[PRIVACY, 1280, ""]["stacked"]
    assert told[PRIVACY, 390, ""]["stacked"]


def test_rows_are_sorted_below_the_heading_of_their_group(told):
    assert told[CARDS, 390, ""]["grouped"] == [["edge", "b", "a"], ["node", "c"]]


def test_a_card_names_its_column_once(told):
    assert set(told[CARDS, 390, ""]["labels"]) == {"printed", *GROUPS}


def test_one_switch_shows_one_set_of_results_and_is_kept_in_the_address(told):
    recorded, demo = told[PRIVACY, 1280, ""], told[PRIVACY, 1280, "?results=demo"]
    assert recorded["open"] == recorded["pressed"] == ["recorded"]
    assert recorded["after"] == ["demo"] and "results=demo" in recorded["kept"]
    assert recorded["links"] == 0, "every page of the navigation keeps the choice"
    assert demo["open"] == demo["pressed"] == ["demo"]
    assert demo["after"] == ["recorded"] and "results" not in demo["kept"]


def test_no_invisible_element_can_be_reached_with_the_keyboard(told):
    for (address, width, _), measured in told.items():
        assert measured["stops"] == 0, (address, width)


def test_tables_in_the_layout_of_their_papers_are_not_cut_and_fit_a_screen_and_a_half(told):
    tables = told[TABLES, 1280, ""]
    assert max(tables["cut"]) <= 1
    assert tables["tall"][0] <= 1.5 * 900


def test_a_picture_that_is_in_no_file_can_be_saved(told):
    assert told[FIGURE, 1280, ""]["saved"] == ["Curves.svg", "More_curves.svg"]


def test_a_print_has_what_stands_open_and_the_notes_alone(site, tmp_path):
    """A fold of five pages, a list of pages and a search are not on paper; the notes are."""
    lines = "<br>".join(["a line"] * 300)
    text = (
        '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="site.css"><body>'
        f'<header class="doors">{lines}</header><nav>{lines}</nav><main><p>A page.</p>'
        f"<details><summary>All columns</summary>{lines}</details>"
        f'<details class="notes"><summary>Notes</summary>{lines}</details></main></body>'
    )
    pages = {}
    for name, part in (("all", text), ("no notes", text.replace('class="notes"', ""))):
        (site / "site" / "printed.html").write_text(part, encoding="utf-8")
        out = tmp_path / f"{name}.pdf"
        command = [CHROMIUM, *QUIET[:-1], f"--user-data-dir={tmp_path / 'profile'}",
                   f"--print-to-pdf={out}", (site / "site" / "printed.html").as_uri()]  # fmt: skip
        subprocess.run(command, capture_output=True, timeout=120, check=True)
        pages[name] = len(re.findall(rb"/Type /Page\b", out.read_bytes()))
    assert pages["no notes"] == 1 and 2 <= pages["all"] <= 6


def test_what_is_struck_is_spoken(told):
    assert told[TABLES, 1280, ""]["struck"] == ['"refuted: "']
