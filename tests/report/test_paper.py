"""The LaTeX folder: every exhibit in the order of its paper, and it compiles."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from small_shelves import FIGURE, TABLE, shelf

import private_graphs
from private_graphs.core.errors import UserError
from private_graphs.report.latex import tex, tex_text, unknown
from private_graphs.running.exhibit import Column, Exhibit, Layout, LayoutCell, Line, Table
from private_graphs.running.study import study_ids
from private_graphs.site import paper
from private_graphs.site.paper import paper_of

OTHERS = (
    Exhibit("ours", "Ours & more", ["table"], TABLE.build),
    Exhibit("main", "Named as the document", ["table"], TABLE.build),
    Exhibit("figure10", "Ten", ["table"], FIGURE.build),
    Exhibit("table2", "Two", ["table"], TABLE.build),
)

STUDIES = study_ids()


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
    files = re.findall(r"\\(?:input|drawing)\{(exhibits/[^}]*)\}", text)
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


WORDS = ("studies", "report", "privacy", "tasks", "methods")
"""Packages whose texts are in tables."""


def texts_of(path: Path) -> Iterator[str]:
    """Yield the texts of a module, but no docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from () if id(node) in docstrings else (node.value,)


def test_latex_has_every_character_of_every_exhibit(root):
    package = Path(private_graphs.__file__).parent
    wrong = {}
    for part in WORDS:
        for path in (package / part).rglob("*.py"):
            marks = set().union(*map(unknown, texts_of(path)))
            wrong |= {path.name: marks} if marks and path.name != "latex.py" else {}
    data = [path for kind in ("yaml", "csv") for path in package.rglob(f"*.{kind}")]
    for path in (*data, *(root / "tests" / "golden" / "exhibits").rglob("*.md")):
        marks = unknown(path.read_text(encoding="utf-8"))
        wrong |= {path.name: marks} if marks else {}
    assert wrong == {} and len(data) > 20


def test_a_character_of_no_font_is_its_number_and_all_others_are_letters():
    assert tex_text("τ, β² & ℓ₂ → 5 % of Größe") == (
        r"$\tau$, $\beta$${}^2$ \& $\ell$${}_2$ $\to$ 5 \% of Größe"
    )
    assert tex_text("文") == "[U+6587]" and unknown("a文") == {"文"}


def wide(long: str) -> Table:
    """Return a table of twelve columns whose cells cannot stand beside each other."""
    columns = [Column(f"head {place}", lambda row: row["text"], "a group" * (place > 5))
               for place in range(12)]  # fmt: skip
    return Table("Wide", pd.DataFrame({"text": [long, "short"]}), columns, notes=["A note."] * 3)


def printed() -> Table:
    """Return a table of a paper's layout with more rows than a page has."""
    lines = [Line("code", ".361", ".051"), Line("text", ".178")]
    rows = [(LayoutCell(f"graph {place}", heading=True) if place % 5 == 0 else None,
             LayoutCell(".36", lines=lines, refuted=True)) for place in range(40)]  # fmt: skip
    layout = Layout([("", "graph", ""), ("DP", "SGD", "not run")], rows, [("code", "as it is")])
    return Table("Printed", pd.DataFrame({"x": [1]}), [], layout=layout)


def compiled(folder: Path) -> str:
    """Return what one run of LaTeX says of a document, whose PDF is then there."""
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed: apt-get install texlive-latex-recommended")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (folder / "main.pdf").stat().st_size > 10_000
    return (folder / "main.log").read_text(encoding="utf-8", errors="replace")


def test_documents_compile_and_nothing_leaves_the_page(folder, tmp_path):
    tables = [wide("a text of some length with class_means_of_one_long_name"), printed()]
    body = "\n".join(map(tex, tables))
    (tmp_path / "main.tex").write_text(f"{paper.HEAD}{body}\\end{{document}}", encoding="utf-8")
    for path in (folder, tmp_path):
        log = compiled(path)
        assert re.findall(r"Overfull.*|Missing character.*", log) == []


@pytest.mark.parametrize("rows", ["recorded", "tests/golden"])
@pytest.mark.parametrize("study", STUDIES)
def test_the_document_of_every_study_compiles(request, root, tmp_path, study, rows):
    """Of its recorded results, and of those of the demo."""
    if not request.config.getoption("--demo"):
        pytest.skip("draws every picture of a study: make test-all")
    [main] = [path for path in paper.write_paper(tmp_path, root / rows, tmp_path, study=study)
              if path.name == "main.tex"]  # fmt: skip
    log = compiled(main.parent)
    assert re.findall(r"Overfull.*|Missing character.*", log) == []
    pages = re.search(r"Output written on main.pdf \((\d+) pages", log)
    assert int(pages[1]) <= 50
