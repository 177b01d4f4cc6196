"""The picture of README: a page of results as Chromium shows it.

    make site && python docs/screenshot.py

writes ``docs/screenshot.png``, in 128 colours to keep it small.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from private_graphs.core.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "results" / "index.html"
OUT = ROOT / "docs" / "screenshot.png"


def shoot(page: Path, out: Path, width: int = 1280, height: int = 800) -> None:
    """Write the first screen of a page as a PNG.

    Raises UserError where there is no page or no Chromium.
    """
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not browser:
        raise UserError("no Chromium found: install it, or name it in the environment as CHROMIUM")
    if not page.is_file():
        raise UserError(f"{page}: no such page; expected what 'make site' writes")
    with tempfile.TemporaryDirectory() as folder:
        taken = Path(folder, "page.png")
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   f"--user-data-dir={folder}/profile", f"--window-size={width},{height}",
                   f"--screenshot={taken}", page.resolve().as_uri()]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
        Image.open(taken).convert("RGB").quantize(128).save(out, optimize=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the picture of README anew.")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    try:
        shoot(options.page, options.out)
    except UserError as error:
        sys.exit(f"error: {error}")
