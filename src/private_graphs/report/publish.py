"""Files of exhibits: tables, pictures and Markdown, of a run and of what is recorded.

``write_exhibits`` fills ``results/<shelf>/exhibits/<study>``; ``publish`` writes ``docs/results``
with the same exhibits over recorded rows. Both are made of rows alone, never of a written table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from private_graphs.files import write_text
from private_graphs.report import chart, table
from private_graphs.report.exhibit import Block, Chart, Exhibit, Heatmap, Pictures, Table
from private_graphs.report.shelf import Shelf, title_of

_DRAW = {
    Chart: chart.draw_chart,
    Heatmap: chart.draw_heatmap,
    Pictures: chart.draw_pictures,
}
ALL = ("csv", "md", "tex", "svg", "png", "pdf")
_DOCS = ("csv", "md", "svg", "png")


def write_exhibits(folder: Path, shelf: Shelf, forms: Sequence[str] = ALL) -> list[Path]:
    """Write the files of every exhibit of ``shelf`` into ``folder``; return their paths.

    ``<exhibit>.md`` holds the whole exhibit, ``.tex`` its tables; the n-th frame of numbers is
    ``<exhibit>.csv``, then ``<exhibit>_2.csv`` …, the n-th picture likewise. Files of exhibits and
    blocks that are no longer there are removed.
    """
    written: list[Path] = []
    for exhibit in shelf.exhibits:
        written += _write(folder, shelf, exhibit, forms)
    for path in {path for path in folder.glob("*") if path.suffix[1:] in ALL} - set(written):
        path.unlink()
    return written


def _write(folder: Path, shelf: Shelf, exhibit: Exhibit, forms: Sequence[str]) -> list[Path]:
    blocks, paths = shelf.results.build(exhibit), []

    def put(name: str, text: str) -> None:
        if name.rsplit(".", 1)[1] in forms:
            write_text(folder / name, text)
            paths.append(folder / name)

    frames = (f"{exhibit.name}{'' if n == 1 else f'_{n}'}" for n in range(1, len(blocks) + 1))
    pictures = _picture_names(exhibit, blocks)
    for block, picture in zip(blocks, pictures, strict=True):
        if picture:
            saved = chart.save(_DRAW[type(block)](block), folder / picture)
            for path in saved:
                if path.suffix[1:] in forms:
                    paths.append(path)
                else:
                    path.unlink()
        if isinstance(block, Table | Chart):
            put(f"{next(frames)}.csv", table.csv(block.frame))
    tables = [block for block in blocks if isinstance(block, Table)]
    if tables:
        put(f"{exhibit.name}.tex", "\n".join(map(table.tex, tables)))
    lines = _lines(shelf, exhibit, blocks, pictures)
    put(f"{exhibit.name}.md", "\n\n".join(lines) + "\n")
    return paths


def _picture_names(exhibit: Exhibit, blocks: Sequence[Block]) -> list[str]:
    """Return the name of the picture of every block, nothing where it has none."""
    names, count = [], 0
    for block in blocks:
        drawn = isinstance(block, tuple(_DRAW))
        count += drawn
        names.append((exhibit.name if count == 1 else f"{exhibit.name}_{count}") if drawn else "")
    return names


def _lines(
    shelf: Shelf, exhibit: Exhibit, blocks: Sequence[Block], pictures: Sequence[str]
) -> Iterator[str]:
    yield f"# {table.markdown_text(title_of(exhibit))}"
    yield from (
        table.markdown_text(text) for text in (exhibit.meaning, *shelf.missing.get(exhibit.name, ())) if text
    )
    for block, picture in zip(blocks, pictures, strict=True):
        if isinstance(block, str):
            yield table.markdown_text(block)
        elif isinstance(block, Table):
            yield table.markdown(block).strip()
        else:
            yield f"![{table.markdown_text(block.title)}]({picture}.svg)"
            if block.notes:
                yield "\n".join(f"- {table.markdown_text(note)}" for note in block.notes)


def publish(recorded: str | Path = "recorded", docs: str | Path = "docs/results") -> list[Path]:
    """Write ``docs/<study>/`` of every recorded study: its exhibits and a page that lists them."""
    written = []
    for shelf in shelves(Path(), recorded):
        folder = Path(docs) / shelf.results.study.id
        written += write_exhibits(folder, shelf, _DOCS)
        made, missing = (
            shelf.made,
            [text for each in shelf.exhibits for text in shelf.missing.get(each.name, ())],
        )
        lines = [
            f"# Recorded results: {table.markdown_text(shelf.results.study.title)}",
            f"Made with private-graphs {made.version} on {made.date} ({made.machine}, {made.hours:g} "
            "hours):",
            "\n".join(["```", *made.commands, "```"]),
            "\n".join(
                f"- [{table.markdown_text(title_of(each))}]({each.name}.md)" for each in shelf.exhibits
            ),
            *(
                ["Not recorded:", "\n".join(f"- {text}" for text in dict.fromkeys(missing))]
                if missing
                else []
            ),
            f"The rows, statements and predictions behind them: `recorded/{shelf.results.study.id}`.",
        ]
        write_text(folder / "README.md", "\n\n".join(lines) + "\n")
        written.append(folder / "README.md")
    return written
