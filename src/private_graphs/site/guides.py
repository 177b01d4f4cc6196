"""The guides beside the pages of results: ``docs/`` of a checkout, as Sphinx builds it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from private_graphs.core.errors import UserError

GUIDES = "docs"
"""Folder of the guides, below that of ``index.html``."""
_NEEDED = ("sphinx", "furo", "myst_parser")
_PAGE = re.compile(r"docs/([a-z0-9/-]+)\.md(?:,? §(\d+(?:\.\d+)?))?")
_TEXT = re.compile(r">[^<>]*docs/[^<>]*<")


@contextmanager
def guides_in_background(out: Path) -> Iterator[Callable[[], None]]:
    """Build the guides of the checkout that is the current folder; yield a function that waits.

    It raises UserError with what Sphinx says where the build fails. Without Sphinx, and where the
    current folder is not this checkout, nothing is built: pages then link to no guide.
    """
    sources = Path(__file__).resolve().parents[3] / "docs"
    here = Path("docs").resolve() == sources and (sources / "conf.py").is_file()
    if not here or any(find_spec(name) is None for name in _NEEDED):
        yield lambda: None
        return
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q",
               "-d", "build/doctrees", "docs", str(out)]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603

        def wait() -> None:
            _, message = process.communicate()
            if process.returncode:
                raise UserError(f"docs/: Sphinx could not build the guides:\n{message.strip()}")

        try:
            yield wait
        finally:
            if process.poll() is None:
                process.terminate()


def linked(page: str, root: str | None) -> str:
    """Return a page of HTML whose texts link to the guides that they name.

    ``root`` leads from the page to the folder of ``index.html``; None: there are no guides, and
    the page of the documentation is named.
    """

    def link(match: re.Match[str]) -> str:
        name, section = match.groups()
        words = f"documentation, {name.rpartition('/')[2]}{f' §{section}' if section else ''}"
        if root is None:
            return words
        anchor = f"#s{section}" if section and name == "privacy" else ""
        return f'<a href="{root}{GUIDES}/{name}.html{anchor}">{words}</a>'

    return _TEXT.sub(lambda text: _PAGE.sub(link, text[0]), page)
