"""The LaTeX folder: every exhibit in the order of its paper, and it compiles."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from small_shelves import FIGURE, TABLE, shelf

from private_graphs.core.errors import UserError
from private_graphs.running.exhibit import Exhibit
from private_graphs.site import paper
from private_graphs.site.paper import paper_of

OTHERS = (
    Exhibit("ours", "Ours & more", ["table"], TABLE.build),
    Exhibit("main", "Named as the document", ["table"], TABLE.build),
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
    assert heads == ["Table 1", "Table 2", "Figure 1", "Figure 10", r"Ours \& more",
                     "Named as the document"]  # fmt: skip
    files = re.findall(r"\\(?:input|includegraphics\[[^]]*\])\{([^}]*)\}", text)
    assert len(files) == 4 + 4 and len(set(files)) == len(files)
    assert all((folder / name).is_file() for name in files)
    assert "Named as the document" in text, "the document is not one of its exhibits"


def test_a_study_is_written_alone_and_an_unknown_name_is_refused(tmp_path, monkeypatch):
    shelves = [shelf("recorded", exhibits=(TABLE,))]
    monkeypatch.setattr(paper, "read_shelves", lambda *folders: shelves)
    lines: list[str] = []
    found = paper.write_paper(tmp_path, tmp_path, tmp_path / "out", lines.append, "small")
    assert tmp_path / "out" / "recorded" / "small" / "main.tex" in found
    with pytest.raises(UserError, match="smal'; expected one with results: small"):
        paper.write_paper(tmp_path, tmp_path, tmp_path / "other", lines.append, "smal")
    assert not (tmp_path / "other").exists()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_the_folder_compiles(folder):
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (folder / "main.pdf").stat().st_size > 10_000
