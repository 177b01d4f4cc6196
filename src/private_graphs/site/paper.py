"""A LaTeX folder with every exhibit in the numbering of its paper: ``make paper``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from private_graphs.core.errors import UserError, suggest
from private_graphs.core.files import write_text
from private_graphs.report.table import tex_text
from private_graphs.running.exhibit import Exhibit
from private_graphs.site.publish import write_all
from private_graphs.site.shelf import Shelf, read_shelves, title_of

_HEAD = r"""\documentclass[a4paper,landscape]{article}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage[margin=1.5cm]{geometry}
\usepackage{booktabs,graphicx}
% the captions carry the numbers of the paper
\makeatletter
\renewcommand{\@makecaption}[2]{\vskip 6pt\textbf{#2}\par\vskip 6pt}
\makeatother
\begin{document}
"""
_EXHIBITS = "exhibits"


def write_paper(
    results: Path, recorded: Path, out: Path, report: Callable[[str], None] = lambda _: None,
    study: str | None = None,
) -> list[Path]:  # fmt: skip
    """Write ``<out>/<shelf>/<study>/main.tex`` with its tables and pictures; return the paths.

    ``pdflatex main.tex`` in such a folder makes the document. ``report`` gets a line before each.
    ``study``: of this one alone.

    Raises:
        UserError: there is nothing to show, or nothing of that study.
    """
    report("reading results")
    shelves = read_shelves(Path(results), Path(recorded))
    if not shelves:
        raise UserError(f"{results} and {recorded}: no results; expected finished or recorded ones")
    names = dict.fromkeys(shelf.results.study.id for shelf in shelves)
    if study is not None and study not in names:
        raise UserError(
            f"--study is {study!r}; expected one with results: {', '.join(names)}"
            f"{suggest(study, names)}"
        )
    written = []
    for shelf in (shelf for shelf in shelves if study in (None, shelf.results.study.id)):
        report(f"tables and pictures of {shelf.results.study.id}")
        written += paper_of(shelf, out / shelf.name)
    return written


def paper_of(shelf: Shelf, out: Path) -> list[Path]:
    """Write the folder of one set of results, named after its study; return the paths.

    Exhibits lie in a folder of their own, where no name of one meets that of the document.
    """
    folder = out / shelf.results.study.id
    files = write_all(folder / _EXHIBITS, shelf, ("tex", "pdf"))
    body = "\n".join(_parts(shelf, files))
    write_text(folder / "main.tex", f"{_HEAD}{body}\n\\end{{document}}\n")
    return [*files, folder / "main.tex"]


def _parts(shelf: Shelf, files: Iterable[Path]) -> Iterator[str]:
    yield rf"\section*{{{tex_text(shelf.results.study.title)}}}"
    yield rf"{tex_text(shelf.words)}: {tex_text(shelf.results.study.citation)}"
    for exhibit in sorted(shelf.exhibits, key=_place):
        paths = [path for path in files if re.fullmatch(rf"{exhibit.name}(_\d+)?", path.stem)]
        yield rf"\clearpage\subsection*{{{tex_text(title_of(exhibit))}}}"
        yield tex_text(exhibit.meaning)
        tables = (path for path in paths if path.suffix == ".tex")
        yield from (rf"\input{{{_EXHIBITS}/{path.name}}}" for path in tables)
        for path in paths:
            if path.suffix == ".pdf":
                size = r"width=.45\linewidth,height=.8\textheight,keepaspectratio"
                yield rf"\noindent\includegraphics[{size}]{{{_EXHIBITS}/{path.name}}}\quad"


def _place(exhibit: Exhibit) -> tuple[int, ...]:
    """Sort key: tables by number, figures by number, then exhibits of this project."""
    match = re.fullmatch(r"(table|figure)(\d+(?:_\d+)*)", exhibit.name)
    if match is None:
        return (2,)
    return (int(match[1] == "figure"), *map(int, match[2].split("_")))
