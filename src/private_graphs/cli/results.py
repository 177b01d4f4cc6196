"""``private-graphs record``, ``restate``, ``site`` and ``paper``: results in other formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from private_graphs.cli.terminal import say
from private_graphs.core.errors import UsageError, counted
from private_graphs.core.files import shipped

Recorded = Annotated[
    Path, typer.Option(help="What 'record' wrote; else what ships with the package.", metavar="DIR")
]
RECORDED, RESULTS = Path("recorded"), Path("results")


def recorded_folder(given: Path) -> Path:
    """Return the folder of --recorded, or what ships with the package in its place.

    Raises:
        UsageError: a folder was named that there is not.
    """
    return shipped(_present(given, "--recorded") if given != RECORDED else given)


def _present(folder: Path, option: str) -> Path:
    if not folder.is_dir():
        raise UsageError(f"{option} is {folder}: no such folder; expected one with results")
    return folder


def record(
    results: Path, out: Annotated[Path, typer.Argument()] = RECORDED, *,
    command: list[str] | None = None, processed: Path = Path("data/processed"),
) -> None:  # fmt: skip
    """Record rows, statements and predictions of all finished jobs of a scale, small and checked.

    Example: private-graphs record results/full recorded --command "snakemake --config scale=full"

    Args:
        results (path): results of a scale, such as results/full.
        out (path): folder with a folder for every study.
        command (str): a command that made the results; may be given several times.
        processed (folder): built datasets: scores on them are computed again.
    """
    from private_graphs.site.record import record as write

    for path in write(results, out, processed=processed, commands=command or ()):
        say(f"wrote {path}")


def restate(recorded: Path = RECORDED) -> None:
    """Make the privacy statements of recorded results again, with the current code.

    Example: private-graphs restate, then make docs

    Args:
        recorded (path): what 'record' wrote.
    """
    from private_graphs.site.restate import restate as write

    for path in write(recorded):
        say(f"wrote {path}")


def site(results: Path = RESULTS, *, recorded: Recorded = RECORDED) -> None:
    """Write the pages of all results, recorded and your own, without running anything.

    Example: private-graphs site, then open results/index.html

    Args:
        results (path): your own results; pages go there.
    """
    from private_graphs.site.site import write_site

    pages = write_site(results, recorded_folder(recorded), -1, report=say)
    say(f"wrote {results / 'index.html'} and {counted(len(pages) - 1, 'page')} behind it")


def paper(
    out: Path = Path("paper"), *, results: Path = RESULTS, recorded: Recorded = RECORDED,
    study: str | None = None,
) -> None:  # fmt: skip
    """Write a LaTeX folder with every exhibit of all studies, or one, numbered as in its paper.

    Example: private-graphs paper --study lrec2022, then pdflatex main.tex in
    paper/recorded/lrec2022

    Args:
        out (path): folder to write.
        results (path): your own results.
        study (NAME): one study alone, such as lrec2022.
    """
    from private_graphs.site.paper import write_paper

    if results != RESULTS:
        _present(results, "--results")
    for path in write_paper(results, recorded_folder(recorded), out, say, study):
        if path.name == "main.tex" and path.parent.name != "exhibits":
            say(f"wrote {path}: pdflatex main.tex there makes the document")
