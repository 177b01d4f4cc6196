"""The LaTeX folder: every exhibit in the order of its paper, and it compiles."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from small_shelves import FIGURE, TABLE, shelf

from private_graphs.running.exhibit import Exhibit
from private_graphs.site.paper import paper_of

OTHERS = (
    Exhibit("ours", "Ours & more", ["table"], TABLE.build),
    Exhibit("figure10", "Ten", ["table"], FIGURE.build),
    Exhibit("table2", "Two", ["table"], TABLE.build),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a shelf with exhibits in disorder."""
    out = tmp_path_factory.mktemp("paper")
    made = shelf("recorded", exhibits=(*OTHERS, FIGURE, TABLE))
    assert set(paper_of(made, out)) == {path for path in out.rglob("*") if path.is_file()}
    return out / "small"


def test_exhibits_stand_in_the_order_of_the_paper_and_every_file_is_there(folder):
    text = (folder / "main.tex").read_text()
    heads = re.findall(r"\\subsection\*\{([^.}]*)", text)
    assert heads == ["Table 1", "Table 2", "Figure 1", "Figure 10", r"Ours \& more"]
    files = re.findall(r"\\(?:input|includegraphics\[[^]]*\])\{([^}]*)\}", text)
    assert len(files) == 3 + 4 and len(set(files)) == len(files)
    assert all((folder / name).is_file() for name in files)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_the_folder_compiles(folder):
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (folder / "main.pdf").stat().st_size > 10_000
