"""Files of recorded results: for the site, and for ``docs/results``.

The same exhibits that show a user's own runs make both from recorded rows; nothing reads a table
that was written before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from private_graphs.files import write_text
from private_graphs.report.claims import write_claims
from private_graphs.report.picture import picture
from private_graphs.report.shelf import Shelf, label_of, recorded_shelves, title_of
from private_graphs.report.table import markdown_text
from private_graphs.report.write import FORMS, Drawing, draw, drawings_of, wait, write_texts
from private_graphs.studies import claims_of

_DOCS = ("csv", "md", "svg", "png")


def write_all(folder: Path, shelf: Shelf, forms: Collection[str] = FORMS) -> list[Path]:
    """Write a set of results' exhibits; remove other files in ``folder``; return the paths."""
    written, drawings = write_all_texts(folder, shelf, forms)
    wait(draw(drawings, -1))
    return written


def write_all_texts(
    folder: Path, shelf: Shelf, forms: Collection[str]
) -> tuple[list[Path], list[Drawing]]:
    """``write_all`` without drawing: the pictures to draw are returned."""
    written, drawings = [], []
    for exhibit in shelf.exhibits:
        blocks, missing = shelf.blocks(exhibit), shelf.missing.get(exhibit.name, ())
        written += write_texts(exhibit, blocks, folder, forms, missing)
        drawings += drawings_of(exhibit, blocks, folder, forms)
    written += [path for each in drawings for path in each.paths]
    for path in {path for path in folder.glob("*") if path.is_file()} - set(written):
        path.unlink()
    return written, drawings


def publish(recorded: str | Path = "recorded", docs: str | Path = "docs/results") -> list[Path]:
    """Write ``docs/<study>/`` of every recorded study, and ``docs/claims/<study>.csv``."""
    written = []
    for shelf in recorded_shelves(recorded):
        folder = Path(docs) / shelf.results.study.id
        written += write_all(folder, shelf, _DOCS)
        if claims := claims_of(shelf.results.study.id):
            written.append(write_claims(claims, shelf.results, Path(docs) / "claims"))
        if (answer := shelf.answer) is not None:
            text = picture(answer.bars, answer.axis, alone=True) + "\n"
            write_text(folder / "overview.svg", text)
            written.append(folder / "overview.svg")
        (folder / "README.md").write_text("\n\n".join(_page(shelf)) + "\n", encoding="utf-8")
        written.append(folder / "README.md")
    return written


def _page(shelf: Shelf) -> Iterator[str]:
    """Yield the parts of a study's page."""
    study, made = shelf.results.study, shelf.made
    yield f"# {markdown_text(study.title)}"
    scale = "" if study.recorded_scale == "full" else f" at scale {study.recorded_scale}"
    yield (
        f"Recorded{scale} with private-graphs {made.version} on {made.date} "
        f"({markdown_text(made.machine)}, {made.hours:g} hours). "
        f"Rows, statements and predictions are in `recorded/{study.id}`."
    )
    yield "\n".join(["```", *made.commands, "```"])
    yield "\n".join(f"- [{markdown_text(title_of(exhibit))}]({exhibit.name}.md)"
                    for exhibit in shelf.exhibits)  # fmt: skip
    if shelf.missing:
        yield "\n".join(
            f"- {label_of(name)}: {markdown_text(text)}"
            for name, texts in shelf.missing.items()
            for text in texts
        )
