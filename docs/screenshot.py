"""The picture of README: the first page of the recorded results, as Chromium shows it.

    python docs/screenshot.py

writes ``docs/screenshot.png``, in 128 colours to keep it small, and beside it
``docs/screenshot.txt``: the words of the first screen of which the picture was made. ``make docs``
does so where these words differ from those of the page; a test compares them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from private_graphs.core.errors import UserError
from private_graphs.core.files import write_text
from private_graphs.site.site import write_first_page

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))
import prose  # noqa: E402  # beside this script, which tests load by its path

PICTURE = ROOT / "docs" / "screenshot.png"
WORDS = PICTURE.with_suffix(".txt")
WIDTH, HEIGHT = 1280, 800
ROWS = 13
"""Rows of the page's tables that the first screen shows, heads among them."""


class _Screen(HTMLParser):
    """Visible text of the first screen: that of the page until the first ``ROWS`` of its tables."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._open: list[str] = []
        self._rows = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what is open; an element without an end is not."""
        if tag not in ("input", "link", "meta"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Count the rows of the table."""
        self._open.pop()
        self._rows += tag == "tr"

    def handle_data(self, data: str) -> None:
        """Keep text that is seen: of a folded list, its summary alone."""
        folded = "details" in self._open and "summary" not in self._open
        unseen = {"head", "script", "style"} & {*self._open}
        if self._rows < ROWS and not folded and not unseen and data.strip():
            self.parts.append(" ".join(data.split()))


def words_of(page: str) -> str:
    """Return the words of the first screen of a page, a part in a line."""
    screen = _Screen()
    screen.feed(page)
    return "\n".join(screen.parts) + "\n"


def write_page(folder: Path) -> Path:
    """Write the first page of the recorded results into a folder; return its path."""
    studies = sorted(path.parent.name for path in (ROOT / "recorded").glob("*/rows.parquet"))
    return write_first_page(folder, map(prose.shelf, studies), ROOT / "results")


def shoot(page: Path, out: Path) -> None:
    """Write the first screen of a page as a PNG.

    Raises UserError where there is no Chromium.
    """
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not browser:
        raise UserError("no Chromium found: install it, or name it in the environment as CHROMIUM")
    with TemporaryDirectory() as folder:
        taken = Path(folder, "page.png")
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   f"--user-data-dir={folder}/profile", f"--window-size={WIDTH},{HEIGHT}",
                   f"--screenshot={taken}", page.resolve().as_uri()]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
        Image.open(taken).convert("RGB").quantize(128).save(out, optimize=True)


def renew(always: bool = False) -> str:
    """Write the picture and its words where the page has other words, or ``always``.

    Return what was done, in a line. Without Chromium picture and words stay as they are.
    """
    name = PICTURE.relative_to(ROOT)
    with TemporaryDirectory() as folder:
        page = write_page(Path(folder))
        words = words_of(page.read_text(encoding="utf-8"))
        if words == WORDS.read_text(encoding="utf-8") and not always:
            return f"{name}: the first screen has the words that it was made of"
        try:
            shoot(page, PICTURE)
        except UserError as error:
            return f"{name} is kept and shows earlier words: {error}"
    write_text(WORDS, words)
    return f"wrote {name}"


if __name__ == "__main__":
    print(renew(always=True))
