"""Pages in a browser: they load from disk, sort and filter, and fit phones and desktops."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from small_shelves import shelf

from private_graphs.report.publish import write_all
from private_graphs.report.site import write_pages

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--hide-scrollbars --enable-logging=stderr --virtual-time-budget=3000 --dump-dom"
).split()
PROBE = """
<script>
addEventListener("load", () => {
  const told = {wide: document.documentElement.scrollWidth, window: innerWidth};
  const columns = (table, place) => [...table.tBodies[0].rows].filter((row) => !row.hidden)
    .map((row) => row.cells[place].textContent);
  const press = (text, within) => [...within.querySelectorAll("button")]
    .find((each) => each.textContent.startsWith(text))?.click();
  const panels = [...document.querySelectorAll(".tables")].at(-1);
  const table = panels?.querySelector("table");
  const first = [...(table?.tHead.rows[0].cells ?? [])];
  told.saved = [...document.querySelectorAll("figure a[download]")].map((each) => each.download);
  const place = first.findIndex((cell) => cell.textContent === "ε asked");
  if (place >= 0) {
    told.protocols = columns(table, 3);
    press("ε asked", table.tHead);
    told.up = columns(table, place);
    press("ε asked", table.tHead);
    told.down = columns(table, place);
    press("sound", panels);
    told.filtered = columns(table, 3);
  }
  parent.postMessage(JSON.stringify(told), "*");
});
</script>
"""
"""What a reader would do: look, sort the last table by ε, up and down, and keep one protocol."""

FRAME = """<!doctype html><pre id="probe"></pre><script>
addEventListener("message", (told) => { document.querySelector("pre").textContent = told.data; });
</script><iframe src="%s" width="%d" height="900" style="border:0"></iframe>"""
"""A window of any width: the browser itself has a least one."""

pytestmark = pytest.mark.skipif(
    not Path(CHROMIUM).is_file(),
    reason=f"no Chromium at {CHROMIUM}: install it, or name it in the environment as CHROMIUM",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site with own, recorded and synthetic results."""
    root = tmp_path_factory.mktemp("site")
    shelves = [shelf("recorded"), shelf("demo", dataset="synthetic-npz", title="Made up")]
    for each in shelves:
        write_all(root / each.name / "exhibits" / each.results.study.id, each)
    pictures = tmp_path_factory.mktemp("pictures")
    (root / "recorded/exhibits/small").rename(pictures / "small")  # not beside the pages
    write_pages(root, shelves, recorded_pictures=pictures)
    return root


def opened(page: Path, width: int, profile: Path, query: str = "") -> tuple[dict, str]:
    """Open a page from disk; return what the probe measured, and the messages of the console."""
    probed, frame = (page.with_name(f"{name}-{page.name}") for name in ("probed", "frame"))
    text = page.read_text(encoding="utf-8").replace("</body>", f"{PROBE}</body>")
    probed.write_text(text, encoding="utf-8")
    frame.write_text(FRAME % (probed.name + query, width), encoding="utf-8")
    command = [CHROMIUM, *QUIET, f"--user-data-dir={profile}", "--window-size=1400,900"]
    try:
        done = subprocess.run(
            [*command, frame.as_uri()], capture_output=True, text=True, timeout=120, check=True
        )
    finally:
        probed.unlink()
        frame.unlink()
    found = re.search(r'<pre id="probe">(.+?)</pre>', done.stdout, re.S)
    assert found, f"the script of {page.name} did not run to its end: {done.stderr[-500:]}"
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(found[1].replace("&gt;", ">").replace("&amp;", "&")), "\n".join(console)


PAGES = (
    "index.html", "site/small/table1.html", "site/small/figure1.html", "site/small/privacy.html",
    "site/methods/gcn.html", "site/datasets/cora.html", "site/statements/recorded/*.html",
)  # fmt: skip


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("address", PAGES)
def test_a_page_opens_from_disk_without_an_error_and_fits(site, address, width, tmp_path):
    page = sorted(site.glob(address))[0]
    told, console = opened(page, width, tmp_path)
    assert console == ""
    assert told["wide"] <= told["window"] == width


def test_a_table_is_sorted_and_filtered_by_its_reader(site, tmp_path):
    told, _ = opened(site / "site/small/privacy.html", 1280, tmp_path)
    assert told["up"] == ["2", "2", "2", "∞", "∞", "∞"] and told["down"] == told["up"][::-1]
    assert told["filtered"] == ["sound", "sound"]


def test_a_link_can_ask_for_the_rows_of_one_protocol(site, tmp_path):
    page = site / "site/small/privacy.html"
    told, _ = opened(page, 1280, tmp_path)
    assert set(told["protocols"]) == {"released", "paper", "sound"}
    told, console = opened(page, 1280, tmp_path, "?dataset=cora&protocol=paper")
    assert set(told["protocols"]) == {"paper"} and console == ""


def test_a_picture_that_is_in_no_file_can_be_saved(site, tmp_path):
    told, console = opened(site / "site/small/figure1.html", 1280, tmp_path)
    assert told["saved"] == ["Curves.svg", "More_curves.svg"] and console == ""
