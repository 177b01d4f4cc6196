"""A LaTeX folder with every exhibit in the numbering of its paper: ``make paper``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from private_graphs.core.errors import UserError, suggest
from private_graphs.core.files import write_text
from private_graphs.report.latex import PACKAGES, height, tex_text
from private_graphs.running.exhibit import Exhibit, Table
from private_graphs.site.publish import write_all
from private_graphs.site.shelf import Shelf, read_shelves, title_of
from private_graphs.site.write import drawings_of

HEAD = rf"""\documentclass[a4paper,landscape]{{article}}
\usepackage[utf8]{{inputenc}}
\usepackage[T1]{{fontenc}}
\usepackage[margin=1.5cm]{{geometry}}
\usepackage{{graphicx,{PACKAGES},caption}}
% titles have the numbers of the paper
\captionsetup{{labelformat=empty,font=bf,justification=raggedright,singlelinecheck=false}}
\setlength{{\parindent}}{{0pt}}\setlength{{\parskip}}{{4pt}}\raggedbottom
% a heading stands above what it names: a page with less than this room ends before it
\newcommand{{\room}}[1]{{\par\ifdim\dimexpr\pagegoal-\pagetotal<#1\newpage\fi}}
% two pictures a line, or three that are narrow
\newcommand{{\drawing}}[2]{{\setbox0\hbox{{\includegraphics{{#1}}}}%
\dimen0=\ifdim\wd0<.32\linewidth .32\else .49\fi\linewidth
\begin{{minipage}}[b]{{\dimen0}}\raggedright\ifdim\wd0>\dimen0 \dimen2=\dimen0 \else\dimen2=\wd0 \fi
\includegraphics[width=\dimen2,height=.78\textheight,keepaspectratio]{{#1}}\par\small #2\par\medskip
\end{{minipage}}}}
\begin{{document}}
"""
_EXHIBITS = "exhibits"
_PAGE = 40
"""Largest number of lines of tables that stand beside pictures with the same numbers."""


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
    body = "\n".join(_parts(shelf))
    write_text(folder / "main.tex", f"{HEAD}{body}\n\\end{{document}}\n")
    return [*files, folder / "main.tex"]


def _parts(shelf: Shelf) -> Iterator[str]:
    yield rf"\section*{{{tex_text(shelf.results.study.title)}}}"
    yield rf"{tex_text(shelf.words)}: {tex_text(shelf.results.study.citation)}"
    for exhibit in sorted(shelf.exhibits, key=_place):
        blocks = shelf.blocks(exhibit)
        tables = [block for block in blocks if isinstance(block, Table)]
        pictures = drawings_of(exhibit, blocks, Path(_EXHIBITS), ("pdf",))
        whole = not pictures or sum(map(height, tables)) <= _PAGE
        room = r".5\textheight" if pictures else r"10\baselineskip"
        yield rf"\room{{{room}}}\subsection*{{{tex_text(title_of(exhibit))}}}"
        yield tex_text(exhibit.meaning)
        source = f"{_EXHIBITS}/{exhibit.name}.tex"
        if tables:
            yield rf"\input{{{source}}}" if whole else (
                rf"The numbers of the pictures are in \texttt{{{tex_text(source)}}}."
            )  # fmt: skip
        if pictures:
            shown = [(drawing.paths[0].as_posix(), tex_text(drawing.block.title))
                     for drawing in pictures]  # fmt: skip
            lines = (rf"\drawing{{{path}}}{{{title}}}" for path, title in shown)
            yield "\n".join(["", r"{\raggedright\clubpenalty=0 \widowpenalty=0", *lines, r"\par}"])


def _place(exhibit: Exhibit) -> tuple[int, ...]:
    """Sort key: tables by number, figures by number, then exhibits of this project."""
    match = re.fullmatch(r"(table|figure)(\d+(?:_\d+)*)", exhibit.name)
    if match is None:
        return (2,)
    return (int(match[1] == "figure"), *map(int, match[2].split("_")))
